"""Nodes with GPUs: whole ones, shares, parts; what CUDA_VISIBLE_DEVICES leaves."""

import logging
import sys
from pathlib import Path

import pytest
from fake_nvml import MISMATCH, NO_LIBRARY, NOT_LOADED, Device
from machines import Machine, cores_of, paired, single

from simsched.live.errors import LiveError
from simsched.live.nodes import Node, find_nodes


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_a_node_for_each_gpu_with_an_even_share_of_the_cores(machine: Machine) -> None:
    machine.cores(*paired(5))
    machine.gpus([Device("GPU-a", "A100", 40 << 30), Device("GPU-b", "H200", 141 << 30)])
    assert find_nodes() == [
        Node(
            number=0, name="GPU 0", cores=(0, 1, 2, 5, 6), gpu=0,
            gpu_uuid="GPU-a", gpu_name="A100", gpu_memory_bytes=40 << 30,
        ),
        Node(
            number=1, name="GPU 1", cores=(3, 4, 7, 8, 9), gpu=1,
            gpu_uuid="GPU-b", gpu_name="H200", gpu_memory_bytes=141 << 30,
        ),
    ]  # fmt: skip
    assert machine.nvml.started == 0


def test_a_gpu_is_shared(machine: Machine) -> None:
    machine.cores(*single(16))
    machine.gpus(1)
    nodes = find_nodes(6, 6, None)
    assert [node.name for node in nodes] == [f"GPU 0, {place} of 6" for place in range(1, 7)]
    assert {node.gpu_uuid for node in nodes} == {"GPU-00-0000"}
    assert {node.gpu_share for node in nodes} == {6}
    assert [len(node.cores) for node in nodes] == [2] * 6
    assert len({core for node in nodes for core in node.cores}) == 12


def test_nodes_are_spread_over_the_gpus(machine: Machine) -> None:
    machine.cores(*single(16))
    machine.gpus(4)
    nodes = find_nodes(6, 2, None)
    assert [node.gpu for node in nodes] == [0, 0, 1, 1, 2, 3]
    assert [node.gpu_share for node in nodes] == [2, 2, 2, 2, 1, 1]
    assert [node.number for node in nodes] == list(range(6))
    assert [node.gpu for node in find_nodes(2)] == [0, 1]


def test_workers_of_a_shared_gpu_may_share_cores(machine: Machine) -> None:
    machine.cores(*single(4))
    machine.gpus(1)
    assert cores_of(find_nodes(None, 6, None)) == [(0,), (1,), (2,), (3,), (0,), (1,)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            (8, None, None),
            (
                "--nodes 8: this machine has 2 GPUs to use, which make 2 nodes; ask for at most 2, "
                "or for --nodes-per-gpu 4"
            ),
        ),
        (
            (5, 2, None),
            (
                "--nodes 5: this machine has 2 GPUs to use, which make 4 nodes; ask for at most 4, "
                "or for --nodes-per-gpu 3"
            ),
        ),
        (
            (None, 2, 3),
            (
                "--cores-per-node 3: 4 nodes of 3 cores need 12, this machine has 8 to use; "
                "ask for at most 2, or leave it out"
            ),
        ),
        (
            (None, 5, 1),
            (
                "--cores-per-node 1: 10 nodes of 1 core need 10, this machine has 8 to use; "
                "leave it out"
            ),
        ),
    ],
)
def test_too_much_is_refused_on_two_gpus(
    machine: Machine, asked: tuple[int | None, int | None, int | None], message: str
) -> None:
    machine.cores(*single(8))
    machine.gpus(2)
    with pytest.raises(LiveError) as refused:
        find_nodes(*asked)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("0", [0]),
        ("2, 1", [2, 1]),
        ("GPU-11-0001", [1]),
        ("GPU-22,GPU-0", [2, 0]),  # beginnings are enough, if only one GPU has them
        ("1,1", [1]),
        ("0,7,1", [0]),  # what follows an unknown one is not seen by CUDA either
        ("1,-1,2", [1]),
    ],
)
def test_cuda_visible_devices_is_honoured(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, value: str, found: list[int]
) -> None:
    machine.cores(*single(4))
    machine.gpus(3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [node.gpu for node in find_nodes()] == found


@pytest.mark.parametrize(
    ("value", "warned"), [("", 0), ("-1", 0), ("NoDevFiles", 0), ("5", 1), ("GPU-", 1)]
)
def test_hidden_gpus_leave_nodes_of_cores(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    value: str, warned: int,
) -> None:  # fmt: skip
    machine.cores(*single(2))
    machine.gpus(2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [node.name for node in find_nodes()] == ["core 0", "core 1"]
    assert len(caplog.records) == warned
    if warned:
        assert (
            f"CUDA_VISIBLE_DEVICES={value} names no GPU of this machine, which has 0 to 1"
            in caplog.text
        )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NO_LIBRARY, ""),
        (NOT_LOADED, ""),
        (MISMATCH, "GPUs are not seen: NVML does not start: RM has detected an NVML/RM version"),
    ],
)
def test_a_machine_without_driver_has_no_gpu(
    machine: Machine, caplog: pytest.LogCaptureFixture, error: int, said: str
) -> None:
    machine.cores(*single(1))
    machine.gpus(1, init_error=error)
    assert [node.gpu for node in find_nodes()] == [None]
    assert said in caplog.text
    assert bool(caplog.records) == bool(said)


def test_a_driver_without_the_package_is_told(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    machine.cores(*single(1))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert [node.gpu for node in find_nodes()] == [None]
    assert caplog.records == []
    (tmp_path / "nvidiactl").touch()
    assert [node.gpu for node in find_nodes()] == [None]
    assert "pip install 'simsched[live]'" in caplog.text


def test_a_lost_gpu_leaves_the_others(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.cores(*single(2))
    machine.gpus([Device("GPU-a", lost=True), Device("GPU-b", total=None)])
    (node,) = find_nodes()
    assert (node.gpu, node.gpu_uuid, node.gpu_memory_bytes) == (1, "GPU-b", None)
    assert "GPU 0 cannot be used: Not Found" in caplog.text


def test_parts_of_a_divided_gpu_are_gpus(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.cores(*single(4))
    parts = [Device("MIG-x", "A100 MIG 3g"), None, Device("MIG-y", "A100 MIG 3g")]
    machine.gpus([Device("GPU-a", parts=parts), Device("GPU-b")])
    nodes = find_nodes()
    assert [node.name for node in nodes] == ["GPU 0 part 0", "GPU 0 part 2", "GPU 1"]
    assert [node.gpu_uuid for node in nodes] == ["MIG-x", "MIG-y", "GPU-b"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-y,1")
    assert [node.gpu_uuid for node in find_nodes()] == ["MIG-y", "GPU-b"]


def test_warnings_of_the_driver_reach_the_user(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.cores(*single(1))
    machine.gpus(1, init_error=MISMATCH)
    find_nodes()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
