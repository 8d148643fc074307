"""How busy the nodes are, sampled and kept."""

import itertools
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from fake_nvml import Device, install
from worker_programs import CORE, python

from simsched.live import usage as module
from simsched.live.errors import LiveError
from simsched.live.nodes import Node
from simsched.live.usage import Sampler, Usage, merged, read_usage

GIB = 1 << 30


def nodes(count: int) -> list[Node]:
    return [Node(number=k, name=f"core {k}", cores=(CORE,)) for k in range(count)]


def gpu_node(number: int = 0, share: int = 1) -> Node:
    return Node(
        number=number, name="GPU 0", cores=(CORE,), gpu=0, gpu_uuid="GPU-a", gpu_share=share
    )


class Clock:
    """Processor times as a test wants them: busy and whole, of two cores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = [(0.0, 0.0), (0.0, 0.0)]
        monkeypatch.setattr(module, "_processor_times", lambda: list(self.times))

    def pass_by(self, *busy: float, seconds: float = 1.0) -> None:
        """Let time pass, with each core busy for a share of it."""
        self.times = [
            (was + share * seconds, whole + seconds)
            for (was, whole), share in zip(self.times, busy, strict=True)
        ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def until_busy(pid: int, seconds: float) -> float:
    """Wait until a process has had so much of a core; returns how much it was."""

    def spent_s() -> float:
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)

    before_s, deadline_s = spent_s(), time.monotonic() + 300
    while spent_s() - before_s < seconds:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return spent_s() - before_s


def test_a_busy_core_is_seen_as_busy(tmp_path: Path) -> None:
    """A real one, against what the system counts for a process that is kept on it."""
    words = ["taskset", "-c", str(CORE), *python("while True: pass")]
    with subprocess.Popen(words) as busy, ExitStack() as stack:
        stack.callback(busy.kill)
        sampler = stack.enter_context(Sampler(tmp_path, nodes(1), dict, interval_s=0.1))
        until_busy(busy.pid, 0.1)  # it has begun
        begun_s = time.monotonic()
        sampler.sample(0.0)
        spent_s = until_busy(busy.pid, 0.5)
        latest = sampler.sample(0.5)
        share = spent_s / (time.monotonic() - begun_s)  # less where others want the core, too
    percent = latest[0].cpu_percent
    assert percent is not None
    assert 100 * share - 10 <= percent <= 100
    assert [sample.at_s for sample in read_usage(tmp_path)] == [0.0, 0.5]


def test_percent_of_the_nodes_own_cores(tmp_path: Path, clock: Clock) -> None:
    wide = [
        Node(number=0, name="core 1", cores=(1,)),
        Node(number=1, name="cores 0-1", cores=(0, 1)),
        Node(number=2, name="core 7", cores=(7,)),
    ]
    with Sampler(tmp_path, wide, dict) as sampler:
        clock.pass_by(1.0, 0.25)
        latest = sampler.sample(10.0)
        assert [latest[k].cpu_percent for k in range(3)] == [25.0, 62.5, None]
        assert sampler.sample(10.5) is latest  # too early
        assert latest[0].at_s == 10.0
        latest = dict(sampler.sample(11.0))  # no time passed for the processor
        assert latest[0].cpu_percent is None
        assert sampler.latest == latest
    first = [sample for sample in read_usage(tmp_path) if sample.at_s == 10.0]
    assert first == [
        Usage(at_s=10.0, node=0, over_s=1.0, cpu_percent=25.0),
        Usage(at_s=10.0, node=1, over_s=1.0, cpu_percent=62.5),
        Usage(at_s=10.0, node=2, over_s=1.0, cpu_percent=None),
    ]
    assert (tmp_path / "usage.jsonl").read_text().splitlines()[0] == (
        '{"at_s":10.0,"node":0,"over_s":1.0,"cpu_percent":25.0,"gpu_percent":null,'
        '"gpu_memory_bytes":null}'
    )


def test_gpus(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device("GPU-a", used=3 * GIB, busy=70)
    nvml = install(monkeypatch, [device])
    with Sampler(tmp_path, [gpu_node()], lambda: {0: None}) as sampler:
        usage = sampler.sample(0.0)[0]
        assert (usage.gpu_percent, usage.gpu_memory_bytes) == (70.0, 3 * GIB)
        device.busy, device.total = None, None  # as parts of a divided GPU
        usage = sampler.sample(1.0)[0]
        assert (usage.gpu_percent, usage.gpu_memory_bytes) == (None, None)
        assert nvml.started == 1
    assert nvml.started == 0


def test_memory_on_a_shared_gpu_is_the_worker_s_own_where_nvml_can_tell(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device("GPU-a", used=9 * GIB)
    install(monkeypatch, [device])
    shared = [gpu_node(0, 2), gpu_node(1, 2)]
    group = os.getpgrp()
    with Sampler(tmp_path, shared, lambda: {0: group, 1: None}) as sampler:
        device.processes = {os.getpid(): 2 * GIB, 999_999: 5 * GIB}
        latest = sampler.sample(0.0)
        assert [latest[k].gpu_memory_bytes for k in range(2)] == [2 * GIB, 9 * GIB]
        device.processes = {999_999: 5 * GIB}  # in a container
        assert sampler.sample(1.0)[0].gpu_memory_bytes == 9 * GIB


def test_means_are_by_time() -> None:
    one = Usage(at_s=1, node=0, over_s=1, cpu_percent=10, gpu_percent=None, gpu_memory_bytes=4)
    two = Usage(at_s=4, node=0, over_s=3, cpu_percent=50, gpu_percent=8, gpu_memory_bytes=8)
    assert merged([one, two]) == Usage(
        at_s=4, node=0, over_s=4, cpu_percent=40, gpu_percent=8, gpu_memory_bytes=7
    )
    none = Usage(at_s=1, node=0, cpu_percent=None)
    assert merged([none]) == none


def test_days_fit_into_the_file_and_none_of_the_time_is_lost(tmp_path: Path, clock: Clock) -> None:
    limit = 20_000
    seconds = 2_000
    with Sampler(tmp_path, nodes(2), dict, largest_file_bytes=limit) as sampler:
        sampler.sample(0.0)
        for second in range(1, seconds + 1):
            clock.pass_by(*([0.8 if second % 2 else 0.4] * 2))
            sampler.sample(float(second))
            assert not (tmp_path / "usage.jsonl").exists() or (
                (tmp_path / "usage.jsonl").stat().st_size <= limit
            )
    samples = read_usage(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["usage.jsonl"]
    for node in range(2):
        own = [sample for sample in samples if sample.node == node]
        assert sum(sample.over_s for sample in own) == pytest.approx(seconds + 1)
        assert all(a.at_s < b.at_s for a, b in itertools.pairwise(own))
        assert own[-1].at_s == seconds
        # In the middle of the run each line is the mean over many seconds.
        assert own[5].over_s >= 16
        assert own[5].cpu_percent == pytest.approx(60, abs=3)
        assert 30 <= len(own) <= limit / 90
    assert [sample.at_s for sample in samples] == sorted(sample.at_s for sample in samples)


def test_a_resumed_run_goes_on_at_its_resolution(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "usage.jsonl"
    with Sampler(tmp_path, nodes(1), dict, largest_file_bytes=3_000) as sampler:
        for second in range(200):
            clock.pass_by(0.5, 0.5)
            sampler.sample(float(second))
    before = read_usage(tmp_path)
    with path.open("a") as torn:
        torn.write('{"at_s":200.0,"no')
    assert read_usage(tmp_path) == before
    with Sampler(tmp_path, nodes(1), dict, largest_file_bytes=3_000) as sampler:
        for second in range(300, 300 + int(before[0].over_s)):
            clock.pass_by(0.5, 0.5)
            sampler.sample(float(second))
        after = read_usage(tmp_path)
        assert after[: len(before)] == before
        assert after[-1].over_s == before[0].over_s
        assert len(after) == len(before) + 1


def test_a_broken_file_is_refused_with_its_line(tmp_path: Path) -> None:
    assert read_usage(tmp_path) == []
    (tmp_path / "usage.jsonl").write_text('{"at_s":1.0,"node":0,"cpu_percent":1.0}\n{"at_s":"x"}\n')
    with pytest.raises(LiveError, match=r"usage\.jsonl:2: not a sample of use"):
        read_usage(tmp_path)


def test_a_full_disk_costs_samples_and_nothing_else(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with Sampler(tmp_path, nodes(1), dict) as sampler:
        clock.pass_by(0.5, 0.5)
        sampler.sample(0.0)
        (tmp_path / "usage.jsonl").rename(tmp_path / "away")
        (tmp_path / "usage.jsonl").mkdir()
        clock.pass_by(0.7, 0.7)
        assert sampler.sample(1.0)[0].cpu_percent == 70.0
        assert "a sample is lost: Is a directory" in caplog.text
        (tmp_path / "usage.jsonl").rmdir()
        (tmp_path / "away").rename(tmp_path / "usage.jsonl")
        sampler.sample(2.0)
    assert [sample.at_s for sample in read_usage(tmp_path)] == [0.0, 2.0]
