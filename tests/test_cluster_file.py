"""Cluster files: what is read, and each mistake is one line with file, line, key and value."""

from pathlib import Path

import pytest

from simsched.cluster_file import presets, read_cluster
from simsched.errors import SimschedError

GOOD = """\
[[nodes]]
name = "own"
count = 2
speed = 1.5

[[nodes]]
name = "spot"
count = 3
boot_s = 20

[nodes.spot]
mean_time_between_s = 240
notice_s = 10

[[maintenance]]
from_s = 10
to_s = 20
kind = "own"

[[maintenance]]
from_s = 20
to_s = 30
nodes = [0, 4]

[[scale]]
at_s = 60
kind = "spot"
count = 5

[store]
bandwidth_mb_per_s = 10
checkpoint_mb = 100

[stragglers]
probability = 0.1

[costs]
start_s = 5
"""


def put(folder: Path, text: str) -> str:
    path = folder / "cluster.toml"
    path.write_text(text)
    return str(path)


def test_a_whole_file(tmp_path: Path) -> None:
    fleet = read_cluster(put(tmp_path, GOOD))
    assert fleet.size == 7
    assert [fleet.kind_of(n)[0].name for n in range(7)] == ["own"] * 2 + ["spot"] * 5
    assert fleet.kind_of(4)[1] == 2
    assert fleet.nodes[1].spot is not None
    assert fleet.nodes[1].spot.notice_s == 10
    assert fleet.maintenance[1].nodes == (0, 4)
    assert fleet.costs.start_s == 5
    assert fleet.stragglers is not None
    assert fleet.stragglers.slowdown == 2.0


def test_those_that_come_with_it_can_be_read() -> None:
    assert list(presets()) == ["server", "spot-fleet", "workstation"]
    for name, said in presets().items():
        assert read_cluster(name).size >= 2
        assert said.endswith(".")


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("speed = 1.5", "sped = 1.5", 4, ("sped: is not known in nodes 1 (did you mean 'speed'?); "
         "there are: name, count, speed, price_per_hour, boot_s, failures, spot")),
        ("[store]", "[stores]", 30, ("stores: is not known (did you mean 'store'?); there are: "
         "nodes, maintenance, scale, store, stragglers, costs")),
        ("speed = 1.5", "speed = 0", 4, "speed: 0 must be above 0"),
        ("speed = 1.5", 'speed = "fast"', 4, "speed: must be a number, not text"),
        ("count = 2", "count = 2.5", 3, "count: must be a whole number, not a number"),
        ("count = 2", "count = -1", 3, "count: -1 must be at least 0"),
        ("boot_s = 20", "boot_s = -20", 9, "boot_s: -20 must be a number, at least 0"),
        ("mean_time_between_s = 240", "mean_time_between_s = 0", 12,
         "mean_time_between_s: 0 must be above 0"),
        ("notice_s = 10", "notice_s = nan", 13, "notice_s: nan must be a number, at least 0"),
        ("mean_time_between_s = 240\n", "", 11,
         "mean_time_between_s is missing in nodes 2.spot"),
        ("from_s = 20", "from_s = 15", 21, "from_s: 15 overlaps the window 10 to 20 of node 0"),
        ("to_s = 20", "to_s = 5", 17, "to_s: 5 must be above from_s, 10"),
        ('kind = "own"', 'kind = "owns"', 18,
         "kind: 'owns' is no kind of node (did you mean 'own'?); there are: own, spot"),
        ("nodes = [0, 4]", "nodes = [0, 7]", 23, "nodes: 7 is none of the 7 nodes, 0 to 6"),
        ('name = "spot"', 'name = "own"', 7, "name: 'own' is given twice"),
        ('kind = "spot"\n', "", 25, "kind is missing; there are: own, spot"),
        ("at_s = 60", "at_s = 0", 26, "at_s: 0 must be above 0"),
        ("probability = 0.1", "probability = 1.5", 35, "probability: 1.5 must be at most 1"),
        ("start_s = 5", "start_s = ", 38, "it is not TOML: Invalid value"),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wrong(
    old: str, new: str, line: int, said: str, tmp_path: Path
) -> None:
    assert GOOD.count(old) >= 1
    path = put(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(SimschedError) as caught:
        read_cluster(path)
    assert str(caught.value) == f"{path}: line {line}: {said}"


def test_no_node_at_all(tmp_path: Path) -> None:
    path = put(tmp_path, "[[nodes]]\ncount = 0\n")
    with pytest.raises(SimschedError) as caught:
        read_cluster(path)
    assert str(caught.value) == f"{path}: line 1: nodes: there is none; count must be at least 1"
    with pytest.raises(SimschedError, match="nodes is missing"):
        read_cluster(put(tmp_path, "[costs]\nstart_s = 1\n"))


def test_recorded_outages_name_nodes_that_are_there(tmp_path: Path) -> None:
    text = """\
[[nodes]]
count = 2

[nodes.failures]
outages = [
  {node = 0, from_s = 1, to_s = 2},
  {node = 2, from_s = 1, to_s = 2},
]
"""
    path = put(tmp_path, text)
    with pytest.raises(SimschedError) as caught:
        read_cluster(path)
    assert str(caught.value) == f"{path}: line 5: node: 2 is none of the 2 nodes of 'node'"


def test_a_name_that_is_none() -> None:
    with pytest.raises(SimschedError) as caught:
        read_cluster("spot")
    assert str(caught.value) == (
        "--cluster spot: is neither a .toml file nor one of server, spot-fleet, workstation "
        "(did you mean 'spot-fleet'?)"
    )
    with pytest.raises(SimschedError, match=r"--cluster none.toml: there is no such file"):
        read_cluster("none.toml")
