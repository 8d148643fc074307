"""How busy the nodes are: sampled while a search runs, kept in its folder."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec
import psutil

from simsched.live import nvml, process_groups
from simsched.live.errors import LiveError
from simsched.live.nodes import Node
from simsched.results import Usage

USAGE = "usage.jsonl"
LARGEST_FILE_BYTES = 4 << 20

logger = logging.getLogger(__name__)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Usage)


def read_usage(folder: Path) -> list[Usage]:
    """Read a run's samples, in the order of time; none if none were taken.

    Raises:
        LiveError: a line before a torn last one cannot be read.
    """
    path = folder / USAGE
    if not path.exists():
        return []
    *whole, _ = path.read_bytes().split(b"\n")
    samples = []
    for number, line in enumerate(whole, start=1):
        try:
            samples.append(_decoder.decode(line))
        except msgspec.DecodeError as error:
            raise LiveError(f"{path}:{number}: not a sample of use: {error}") from error
    return samples


def merged(samples: Iterable[Usage]) -> Usage:
    """Return one sample for several of one node that follow each other: their means by time."""
    listed = list(samples)
    over_s = sum(sample.over_s for sample in listed)

    def mean(name: str) -> float | None:
        known = [(getattr(sample, name), sample.over_s) for sample in listed]
        known = [(value, weight) for value, weight in known if value is not None]
        total = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / total if total else None

    cpu, gpu, memory = mean("cpu_percent"), mean("gpu_percent"), mean("gpu_memory_bytes")
    return Usage(
        at_s=listed[-1].at_s,
        node=listed[-1].node,
        over_s=round(over_s, 3),
        cpu_percent=None if cpu is None else round(cpu, 1),
        gpu_percent=None if gpu is None else round(gpu, 1),
        gpu_memory_bytes=None if memory is None else round(memory),
    )


class Sampler:
    """Samples the use of nodes, and keeps it in usage.jsonl.

    The file stays below `LARGEST_FILE_BYTES` however long the run is: when it gets there, each
    two neighbouring samples of a node become one, their mean, and from then on twice as many
    samples go into one line. So all of a run is in it, as fine as there is room for: of 2 nodes
    a sample each second of 6 hours, or each 32 s of a week.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Node],
        groups: Callable[[], Mapping[int, int | None]],
        *,
        interval_s: float = 1.0,
        largest_file_bytes: int = LARGEST_FILE_BYTES,
    ) -> None:
        """Begin to sample.

        Args:
            folder: the run's; samples that are there already stay.
            nodes: the nodes.
            groups: gives the process group that runs on each node, by the node's number.
            interval_s: the least time between two samples.
            largest_file_bytes: what the file may grow to.
        """
        self.latest: dict[int, Usage] = {}
        """The newest sample of each node, by its number."""
        self._nodes, self._groups, self._interval_s = nodes, groups, interval_s
        self._path, self._largest = folder / USAGE, largest_file_bytes
        self._last_s: float | None = None
        self._times = _processor_times()
        self._waiting: dict[int, list[Usage]] = {node.number: [] for node in nodes}
        self._stack = ExitStack()
        has_gpu = any(node.gpu_uuid is not None for node in nodes)
        self._nvml = self._stack.enter_context(nvml.session()) if has_gpu else None
        kept = read_usage(folder)
        self._per_line = _per_line(kept, interval_s)
        if kept:
            self._write_anew(kept)  # without a torn last line
        self._size = self._path.stat().st_size if self._path.exists() else 0

    def sample(self, at_s: float) -> Mapping[int, Usage]:
        """Take a sample of every node, if it is time; returns the newest ones.

        Args:
            at_s: now, in seconds on the run's clock.
        """
        if self._last_s is not None and at_s - self._last_s < self._interval_s * 0.9:
            return self.latest
        over_s = self._interval_s if self._last_s is None else at_s - self._last_s
        self._last_s = at_s
        before, self._times = self._times, _processor_times()
        groups = self._groups()
        for node in self._nodes:
            percent, memory = self._gpu(node, groups.get(node.number))
            usage = Usage(
                at_s=round(at_s, 3),
                node=node.number,
                over_s=round(over_s, 3),
                cpu_percent=_busy(node, before, self._times),
                gpu_percent=percent,
                gpu_memory_bytes=memory,
            )
            self.latest[node.number] = usage
            self._waiting[node.number].append(usage)
        if all(len(waiting) >= self._per_line for waiting in self._waiting.values()):
            self._flush()
        return self.latest

    def _gpu(self, node: Node, group: int | None) -> tuple[float | None, int | None]:
        if self._nvml is None or node.gpu_uuid is None:
            return None, None
        memory = nvml.used_memory(self._nvml, node.gpu_uuid)
        if node.gpu_share > 1 and group is not None:
            by_process = nvml.memory_by_process(self._nvml, node.gpu_uuid)
            own = set(process_groups.members(group).alive) & set(by_process) if by_process else ()
            memory = sum(by_process[pid] for pid in own) if own else memory
        return nvml.utilization(self._nvml, node.gpu_uuid), memory

    def _flush(self) -> None:
        """Append what is waiting, a line for each node; make room first if there is none."""
        lines = [merged(waiting) for waiting in self._waiting.values() if waiting]
        for waiting in self._waiting.values():
            waiting.clear()
        data = _encoded(lines)
        try:
            if self._size + len(data) > self._largest:
                self._write_anew(_halved([*read_usage(self._path.parent), *lines]))
                self._per_line *= 2
            else:
                self._append(data)
            self._size = self._path.stat().st_size
        except OSError as error:
            logger.warning("%s: a sample is lost: %s", self._path, error.strerror)

    def _append(self, data: bytes) -> None:
        try:
            with self._path.open("ab", buffering=0) as file:
                file.write(data)
        except OSError:
            if self._path.exists():
                os.truncate(self._path, self._size)  # no torn line before the next ones
            raise

    def _write_anew(self, samples: Sequence[Usage]) -> None:
        scratch = self._path.with_name(f".{USAGE}.tmp")
        scratch.write_bytes(_encoded(samples))
        os.replace(scratch, self._path)

    def close(self) -> None:
        """Write what is waiting, and let go of NVML."""
        if any(self._waiting.values()):
            self._flush()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def _encoded(samples: Iterable[Usage]) -> bytes:
    return b"".join(_encoder.encode(sample) + b"\n" for sample in samples)


def _halved(samples: Sequence[Usage]) -> list[Usage]:
    """Return half as many samples of each node, in the order of time."""
    by_node: dict[int, list[Usage]] = {}
    for sample in samples:
        by_node.setdefault(sample.node, []).append(sample)
    halved = [merged(own[k : k + 2]) for own in by_node.values() for k in range(0, len(own), 2)]
    return sorted(halved, key=lambda sample: (sample.at_s, sample.node))


def _per_line(samples: Sequence[Usage], interval_s: float) -> int:
    """Return how many samples went into a line of a file: the power of two that fits best."""
    if not samples:
        return 1
    typical_s = sorted(sample.over_s for sample in samples)[len(samples) // 2]
    return 1 << max(0, round(typical_s / interval_s).bit_length() - 1)


def _processor_times() -> list[tuple[float, float]]:
    """Return the busy and the whole time of each processor core since the start of the system."""
    return [
        (sum(times) - _idle(times) - _guests(times), sum(times) - _guests(times))
        for times in psutil.cpu_times(percpu=True)
    ]


def _idle(times: object) -> float:
    return float(getattr(times, "idle", 0.0)) + float(getattr(times, "iowait", 0.0))


def _guests(times: object) -> float:
    """Return the time of virtual machines, which is in the users' time too."""
    return float(getattr(times, "guest", 0.0)) + float(getattr(times, "guest_nice", 0.0))


def _busy(
    node: Node, before: Sequence[tuple[float, float]], now: Sequence[tuple[float, float]]
) -> float | None:
    """Return how busy a node's cores were, in percent; None if no time passed, or none is known."""
    known = [core for core in node.cores if core < min(len(before), len(now))]
    whole = sum(now[core][1] - before[core][1] for core in known)
    busy = sum(now[core][0] - before[core][0] for core in known)
    return round(min(max(100 * busy / whole, 0.0), 100.0), 1) if whole > 0 else None
