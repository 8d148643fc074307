"""Cluster files: what is read, and each mistake is one line with file, line, key and value."""

from pathlib import Path

import pytest

from simsched.cluster import Fleet, NodeKind
from simsched.cluster_file import presets, read_cluster
from simsched.errors import SimschedError
from simsched.outages import outages

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
        ("speed = 1.5", 'speed = "fast"', 4, "speed: 'fast' must be a number"),
        ("count = 2", "count = 2.5", 3, "count: 2.5 must be a whole number"),
        ("count = 2", "count = -1", 3, "count: -1 must be from 0 to 100,000"),
        ("boot_s = 20", "boot_s = -20", 9, "boot_s: -20 must be a number, at least 0"),
        ("mean_time_between_s = 240", "mean_time_between_s = 0", 12,
         "mean_time_between_s: 0 must be above 0"),
        ("notice_s = 10", "notice_s = nan", 13, "notice_s: nan must be a number, at least 0"),
        ("mean_time_between_s = 240\n", "", 11,
         "mean_time_between_s is missing in spot of nodes 2"),
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


HEAD = "[[nodes]]\ncount = 2\n"
FAILURES = f"{HEAD}[nodes.failures]\n"
WINDOW = f"{HEAD}[[maintenance]]\nfrom_s = 1\nto_s = 2\n"
LARGE = "must be at most 1e+15"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[[nodes]]\ncount = 1000000000000\n", 2,
         "count: 1,000,000,000,000 must be from 0 to 100,000"),
        ('[[nodes]]\ncount = 60_000\n[[nodes]]\nname = "b"\ncount = 60_000\n', 1,
         "nodes: 120,000 in all must be at most 100,000"),
        ("[[nodes]]\ncount = true\n", 2, "count: true must be a whole number"),
        (f"{HEAD}speed = -1\n", 3, "speed: -1 must be above 0"),
        (f"{HEAD}speed = 1e-9\n", 3, "speed: 1e-09 must be from 1e-06 to 1,000,000"),
        (f"{HEAD}price_per_hour = 1e308\n", 3, f"price_per_hour: 1e+308 {LARGE}"),
        (f"{HEAD}boot_s = inf\n", 3, f"boot_s: inf {LARGE}"),
        (f"{HEAD}boot_s = 08:00:00\n", 3, "boot_s: 08:00:00 must be a number"),
        (f'{HEAD}name = ""\n', 3, "name: '' must be 1 to 40 printable characters"),
        (f'{HEAD}name = "a\\nb"\n', 3, "name: 'a\\nb' must be 1 to 40 printable characters"),
        (f'{HEAD}"a\\nb" = 1\n', 3, ("'a\\nb': is not known in nodes 1; there are: name, count, "
         "speed, price_per_hour, boot_s, failures, spot")),
        ("[[nodes]]\n[[nodes]]\n", 2,
         "name is missing in nodes 2: kinds need different ones"),
        ("[nodes]\ncount = 2\n", 1, "nodes: write [[nodes]], a table for each"),
        ("nodes = [1]\n", 1, "nodes 1: 1 must be a table"),
        (f"{HEAD}[[store]]\nbandwidth_mb_per_s = 1\ncheckpoint_mb = 1\n", 3,
         "store: write [store], one table"),
        (f"{HEAD}[failures]\nrepair_s = 1\n", 3, ("failures: belongs to a kind of node; write "
         "[nodes.failures] below its [[nodes]]")),
        (FAILURES, 3,
         "[nodes.failures] says nothing: give mean_time_between_s or recorded outages"),
        (f"{FAILURES}repair_s = 9\n", 4, ("repair_s: 9 needs mean_time_between_s; recorded outages "
         "say themselves how long they are")),
        (f"{FAILURES}mean_time_between_s = 9\nshape = 0.5\n", 5,
         'shape: 0.5 is of weibull only; add distribution = "weibull"'),
        (f'{FAILURES}mean_time_between_s = 9\ndistribution = "weibull"\nshape = 0.001\n', 6,
         "shape: 0.001 must be from 0.1 to 100"),
        (f'{FAILURES}distribution = "exponentail"\n', 4, ("distribution: 'exponentail' is not "
         "known (did you mean 'exponential'?); there are: exponential, weibull")),
        ((f"{FAILURES}outages = [{{node = 1, from_s = 9, to_s = 12}}, "
         "{node = 1, from_s = 1, to_s = 10}]\n"), 4,
         "from_s: 9 overlaps the outage 1 to 10 of node 1"),
        (f"{FAILURES}outages = [{{node = 0, from = 9}}]\n", 4, ("from: is not known in outages 1 "
         "of failures of nodes 1 (did you mean 'from_s'?); there are: node, from_s, to_s")),
        (f"{WINDOW}nodes = []\n", 6, "nodes: [] must name at least one; leave it out for all"),
        (f'{WINDOW}kind = "b"\nnodes = [0]\n[[nodes]]\nname = "b"\n', 7, ("nodes: 0 is no 'b' but "
         "'node'")),
        (f"{HEAD}[[scale]]\nat_s = 5\ncount = 1\n[[scale]]\nat_s = 5\ncount = 3\n", 7,
         "at_s: 5 is given twice for 'node'"),
        (f"{HEAD}[store]\nbandwidth_mb_per_s = 1e-300\ncheckpoint_mb = 1\n", 4,
         "bandwidth_mb_per_s: 1e-300 must be from 1e-06 to 1e+15"),
        (f"{HEAD}[stragglers]\nprobability = 0.5\nslowdown = 0.5\n", 5,
         "slowdown: 0.5 must be from 1 to 1,000,000"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(text: str, line: int, said: str, tmp_path: Path) -> None:
    path = put(tmp_path, text)
    with pytest.raises(SimschedError) as caught:
        read_cluster(path)
    assert str(caught.value) == f"{path}: line {line}: {said}"


def test_outages_that_only_touch_are_fine(tmp_path: Path) -> None:
    text = (
        f"{FAILURES}outages = [{{node = 0, from_s = 5, to_s = 9}}, {{node = 0, from_s = 1, "
        "to_s = 5}, {node = 1, from_s = 2, to_s = 8}]\n"
    )
    fleet = read_cluster(put(tmp_path, text))
    found = [[(o.down_us, o.up_us) for o in outages(fleet, node, 0)] for node in range(2)]
    assert found == [[(1_000_000, 9_000_000)], [(2_000_000, 8_000_000)]]


def test_the_kind_of_every_node() -> None:
    kinds = [NodeKind(name=f"{count}", count=count) for count in (0, 2, 0, 1, 3, 0)]
    fleet = Fleet(nodes=tuple(kinds))
    found = [fleet.kind_of(node) for node in range(fleet.size)]
    assert [(kind.count, member) for kind, member in found] == [
        (2, 0), (2, 1), (1, 0), (3, 0), (3, 1), (3, 2),
    ]  # fmt: skip
    with pytest.raises(IndexError):
        fleet.kind_of(6)


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


def test_a_folder_of_the_same_name_does_not_hide_what_comes_with_simsched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_cluster("workstation")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workstation").mkdir()
    assert read_cluster("workstation") == expected
