"""Waiting until a worker's memory on the GPU is free again."""

import asyncio
import time

import pytest
from fake_nvml import Device, FakeNvml, install

from simsched.live.gpu_memory import gpu_memory_in_use, wait_for_gpu_memory
from simsched.live.nodes import Node

MIB = 1 << 20


def node(share: int = 1) -> Node:
    return Node(number=2, name="GPU 0", cores=(0,), gpu=0, gpu_uuid="GPU-a", gpu_share=share)


@pytest.fixture
def device() -> Device:
    return Device("GPU-a", used=500 * MIB)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch, device: Device) -> FakeNvml:
    return install(monkeypatch, [device])


def wait(
    where: Node, before: int | None, timeout_s: float, *changes: tuple[float, int], device: Device,
    pids: tuple[int, ...] = (),
) -> tuple[bool, float]:  # fmt: skip
    """Wait while the memory in use changes; returns the answer and how long it took."""

    async def run() -> bool:
        waiting = asyncio.ensure_future(wait_for_gpu_memory(where, before, timeout_s, pids))
        for after_s, used in changes:
            await asyncio.sleep(after_s)
            assert not waiting.done()
            device.used = used
        return await waiting

    begun = time.monotonic()
    return asyncio.run(run()), time.monotonic() - begun


def test_memory_in_use(nvml: FakeNvml) -> None:
    assert gpu_memory_in_use(node()) == 500 * MIB
    assert gpu_memory_in_use(Node(number=0, name="core 0", cores=(0,))) is None
    assert nvml.started == 0


def test_it_waits_until_the_memory_is_back(nvml: FakeNvml, device: Device) -> None:
    device.used = 9000 * MIB
    back, seconds = wait(
        node(), 500 * MIB, 30, (0.15, 3000 * MIB), (0.15, 510 * MIB), device=device
    )
    assert back
    assert seconds >= 0.3
    assert nvml.started == 0


def test_after_a_bounded_wait_it_warns(
    nvml: FakeNvml, device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    device.used = 9000 * MIB
    back, seconds = wait(node(), 500 * MIB, 0.3, device=device)
    assert not back
    assert seconds >= 0.3
    (record,) = caplog.records
    assert record.getMessage() == (
        "GPU 0: 9,000 MiB of its memory are in use 0.3 s after its worker is gone, 500 MiB before "
        "it started; if no other program has them, the worker's are not free"
    )
    assert vars(record)["node"] == 2


def test_on_a_shared_gpu_the_others_may_have_grown(nvml: FakeNvml, device: Device) -> None:
    device.used = 9000 * MIB
    back, seconds = wait(node(2), 500 * MIB, 30, device=device)
    assert back
    assert seconds < 30


def test_on_a_shared_gpu_it_waits_for_the_worker_s_processes(
    nvml: FakeNvml, device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    device.processes = {71: 100 * MIB, 72: None, 80: 300 * MIB}
    back, _ = wait(node(2), 0, 0.3, device=device, pids=(72, 73))
    assert not back
    assert len(caplog.records) == 1
    del device.processes[72]
    assert wait(node(2), 0, 30, device=device, pids=(72, 73))[0]


def test_on_a_shared_gpu_it_waits_while_the_memory_falls(nvml: FakeNvml, device: Device) -> None:
    async def fall() -> bool:
        waiting = asyncio.ensure_future(wait_for_gpu_memory(node(2), None, 30))
        for _ in range(40):
            await asyncio.sleep(0.01)
            device.used -= MIB
            assert not waiting.done()
        return await waiting

    assert asyncio.run(fall())


def test_where_nothing_can_be_told_nothing_is_waited_for(
    nvml: FakeNvml, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wait(Node(number=0, name="core 0", cores=(0,)), None, 30, device=device)[0]
    device.total = None
    assert wait(node(), 0, 30, device=device)[0]
    nvml.init_error = 9
    assert wait(node(), 0, 30, device=device)[0]
    assert gpu_memory_in_use(node()) is None
