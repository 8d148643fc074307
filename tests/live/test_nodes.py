"""The nodes of a machine without GPU; and `simsched nodes`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from fake_nvml import Device
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machines import Machine, cores_of, paired, single

from simsched.cli import main
from simsched.live import nodes as module
from simsched.live.errors import LiveError
from simsched.live.nodes import Node, find_nodes, parse_ranges, ranges


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_without_gpu_there_is_a_node_for_each_core(machine: Machine) -> None:
    machine.cores(*single(3))
    nodes = find_nodes(None, None, None)
    assert nodes == [
        Node(number=number, name=f"core {number}", cores=(number,)) for number in range(3)
    ]


def test_only_cores_that_may_be_used(machine: Machine) -> None:
    machine.cores((2,), (5,), (6,), (7,))
    nodes = find_nodes(cores_per_node=2)
    assert [(node.name, node.cores) for node in nodes] == [
        ("cores 2,5", (2, 5)),
        ("cores 6-7", (6, 7)),
    ]


def test_this_process_s_affinity_counts(tmp_path: Path) -> None:
    """In a process of its own, kept on one core by the system."""
    core = max(os.sched_getaffinity(0))
    code = "from simsched.live.nodes import find_nodes; print(*(n.cores for n in find_nodes()))"
    done = subprocess.run(
        ["taskset", "-c", str(core), sys.executable, "-P", "-c", code],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == f"({core},)"


def test_hyperthreads_of_a_core_stay_together(machine: Machine) -> None:
    machine.cores(*paired(4))
    assert cores_of(find_nodes(cores_per_node=2)) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert cores_of(find_nodes(cores_per_node=4)) == [(0, 1, 4, 5), (2, 3, 6, 7)]


def test_nodes_are_kept_apart_where_there_is_room(machine: Machine) -> None:
    machine.cores(*paired(4))
    assert cores_of(find_nodes(4, None, 1)) == [(0,), (1,), (2,), (3,)]
    assert cores_of(find_nodes(2, None, 3)) == [(0, 1, 4), (2, 3, 6)]
    # Eight of one thread each cannot be kept apart, but are still disjoint.
    assert sorted(cores_of(find_nodes())) == [(core,) for core in range(8)]


def test_cores_without_hyperthreads_beside_some_with(machine: Machine) -> None:
    machine.cores((4,), (5,), (0, 1), (2, 3))
    assert cores_of(find_nodes(cores_per_node=2)) == [(0, 1), (2, 3), (4, 5)]


@settings(
    suppress_health_check=[
        *settings().suppress_health_check, HealthCheck.function_scoped_fixture,
    ],
    max_examples=100, deadline=None,
)  # fmt: skip
@given(data=st.data(), threads=st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_nodes_of_cores_are_alike_and_disjoint(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, data: st.DataObject, threads: list[int]
) -> None:
    numbers = iter(data.draw(st.permutations(range(sum(threads)))))
    physical = [tuple(sorted(next(numbers) for _ in range(count))) for count in threads]
    monkeypatch.setattr(module, "available_cores", lambda: list(range(sum(threads))))
    monkeypatch.setattr(module, "_physical_cores", lambda cores: physical)
    each = data.draw(st.integers(1, sum(threads)))
    most = sum(threads) // each
    count = data.draw(st.integers(1, most))
    nodes = find_nodes(count, None, each)
    assert len(nodes) == count
    used = [core for node in nodes for core in node.cores]
    assert len(set(used)) == len(used) == count * each
    assert set(used) <= set(range(sum(threads)))
    with pytest.raises(LiveError, match=f"ask for at most {most}"):
        find_nodes(most + 1, None, each)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            (8, None, None),
            (
                "--nodes 8: this machine has 2 cores to use, which make 2 nodes of 1 core; "
                "ask for at most 2"
            ),
        ),
        (
            (2, None, 2),
            (
                "--nodes 2: this machine has 2 cores to use, which make 1 node of 2 cores; "
                "ask for at most 1, or for --cores-per-node 1"
            ),
        ),
        (
            (None, None, 4),
            "--cores-per-node 4: this machine has 2 cores to use; ask for at most 2",
        ),
        (
            (None, 3, None),
            (
                "--nodes-per-gpu 3: no GPU was found here; leave it out, and nodes are sets of "
                "cores (--cores-per-node)"
            ),
        ),
        ((0, None, None), "--nodes 0: must be 1 or more"),
        ((None, -1, None), "--nodes-per-gpu -1: must be 1 or more"),
        ((None, None, 0), "--cores-per-node 0: must be 1 or more"),
    ],
)
def test_too_much_is_refused_on_two_cores(
    machine: Machine, asked: tuple[int | None, int | None, int | None], message: str
) -> None:
    machine.cores(*single(2))
    with pytest.raises(LiveError) as refused:
        find_nodes(*asked)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("own", "limits", "cores"),
    [
        ("", {"cgroup": "200000 100000"}, 2),
        ("a/b", {"a": "350000 100000", "b": "max 100000"}, 3),
        ("a/b", {"a": "300000 100000", "b": "50000 100000"}, 1),
        ("a", {"a": "max 100000"}, 4),
        ("a", {"a": "900000 100000"}, 4),
        ("a", {"a": "nonsense"}, 4),
    ],
)
def test_a_container_s_share_of_the_processors_counts(
    machine: Machine, own: str, limits: dict[str, str], cores: int
) -> None:
    machine.cores(*single(4))
    machine.quota(own, **limits)
    assert len(find_nodes()) == cores


@settings(deadline=None)
@given(st.sets(st.integers(0, 300), min_size=1))
def test_ranges_and_back(numbers: set[int]) -> None:
    assert parse_ranges(ranges(numbers)) == sorted(numbers)


def test_ranges_are_as_the_system_writes_them() -> None:
    assert ranges([3, 0, 1, 2, 8]) == "0-3,8"
    assert parse_ranges("0-3,8\n") == [0, 1, 2, 3, 8]


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[object, str, str]:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["simsched", "nodes", *options])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code, *capsys.readouterr()


def test_the_command_shows_cores(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cores(*paired(4))
    code, out, err = run(monkeypatch, capsys, "--nodes", "3")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["node", "name", "cores"]
    assert [line.split() for line in lines[2:5]] == [
        [str(k), "core", str(k), "1"] for k in range(3)
    ]
    assert lines[6] == "3 nodes. 5 cores are left over. --cores-per-node 2 would use more."
    assert run(monkeypatch, capsys)[1].endswith("\n8 nodes. They take every core there is.\n")


def test_the_command_shows_gpus_within_80_columns(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cores(*paired(64))
    machine.gpus([Device(f"GPU-{k}", "NVIDIA A100-SXM4-80GB", 80 << 30) for k in range(8)])
    code, out, err = run(monkeypatch, capsys, "--nodes-per-gpu", "2")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "80.0 GiB" in out
    assert "NVIDIA A100-SXM4-80GB" in out
    assert "GPU 7, 2 of 2" in out
    assert "0-3,64-67" in out
    assert "16 nodes. They take every core there is." in out
    monkeypatch.setattr(module, "available_cores", lambda: [0, 1, 2])
    assert "16 nodes. Some share a core;" in " ".join(
        run(monkeypatch, capsys, "--nodes-per-gpu", "2")[1].split()
    )


def test_the_command_gives_json(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cores(*single(4))
    machine.gpus(2)
    code, out, _ = run(monkeypatch, capsys, "--json")
    assert code == 0
    assert msgspec.convert(json.loads(out), list[Node], strict=False) == find_nodes()


def test_the_command_refuses_in_one_line(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cores(*single(2))
    code, out, err = run(monkeypatch, capsys, "--nodes", "3")
    assert (code, out) == (2, "")
    assert err == (
        "error: --nodes 3: this machine has 2 cores to use, which make 2 nodes of 1 core; "
        "ask for at most 2\n"
    )
    code, out, err = run(monkeypatch, capsys, "--nodes", "0")
    assert (code, out) == (2, "")
    assert err.startswith("error: Invalid value for '--nodes': '0' must be a whole number from 1")
