"""An hour of training: memory, threads, processes and open files must stay flat.

    python benchmarks/soak.py --minutes 60 --game Pong --set preset=fast
    python benchmarks/soak.py --minutes 2 --game CartPole-v1 --set overlap=on

Saves a checkpoint at each sample and prints a line now and then. At the end: the growth of memory
in MiB per hour with its 95 % interval, measured after the first quarter, by when caches have
filled, and what is left after the worker was closed. Exits with 1 if threads, processes or open
files became more after the first quarter, if a thread or process of the worker is left, or if
memory grew by more than --limit MiB per hour for certain. --out keeps every sample.
"""

import argparse
import contextlib
import datetime
import gc
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec
from scipy import stats

from simsched.cli.training_options import parse
from simsched.live.ga3c.settings import PRESETS, Settings
from simsched.live.ga3c.worker import Worker

PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What this process used at one moment (Linux)."""

    wall_time_s: float
    steps: int
    mib: float
    """Resident memory."""
    threads: int
    """Of the operating system: Python's, the emulators' and the libraries'."""
    processes: int
    """Descendants."""
    files: int

    def __str__(self) -> str:
        return (
            f"{self.wall_time_s / 60:6.1f} min {self.steps:>12,} steps {self.mib:8.1f} MiB "
            f"{self.threads:3d} threads {self.processes:2d} processes {self.files:3d} files"
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What --out holds."""

    date: str
    settings: Settings
    samples: list[Sample]
    growth_mib_per_h: float
    half_interval_mib_per_h: float
    """Half of the 95 % interval."""
    threads_left: int
    """Python threads that closing the worker left."""
    processes_left: int


def sample(start_s: float, steps: int) -> Sample:
    """Measure now."""
    own = Path("/proc/self")
    return Sample(
        wall_time_s=round(time.monotonic() - start_s, 1),
        steps=steps,
        mib=round(int((own / "statm").read_text().split()[1]) * PAGE / 2**20, 1),
        threads=len(list((own / "task").iterdir())),
        processes=descendants(),
        files=len(list((own / "fd").iterdir())),
    )


def descendants() -> int:
    """Return how many processes descend from this one (Linux)."""
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(process.name)] = int(fields[1])
    found, todo = 0, [os.getpid()]
    while todo:
        parent = todo.pop()
        children = [process for process, its in parents.items() if its == parent]
        found += len(children)
        todo += children
    return found


def soak(worker: Worker, minutes: float, every_s: float) -> list[Sample]:
    """Train and sample."""
    start_s = time.monotonic()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        while (elapsed_s := time.monotonic() - start_s) < minutes * 60:
            worker.advance()
            if worker.diverged is not None:
                raise SystemExit(f"error: {worker.diverged}")
            if len(samples) * every_s <= elapsed_s:
                worker.save(Path(folder) / "checkpoint.pt")
                samples.append(sample(start_s, worker.steps))
                print(samples[-1], flush=True)
    return samples


def became_more(late: list[Sample]) -> bool:
    """Whether the last tenth of the samples has more of something than the first tenth had."""
    tenth = max(1, len(late) // 10)
    return any(
        min(getattr(s, name) for s in late[-tenth:]) > max(getattr(s, name) for s in late[:tenth])
        for name in ("threads", "processes", "files")
    )


def main() -> None:
    """Train, sample, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--set", nargs="*", default=["preset=fast"], metavar="NAME=VALUE")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--limit", type=float, default=50.0, help="MiB per hour")
    parser.add_argument("--out", type=Path, help="a JSON file for what was measured")
    args = parser.parse_args()
    pairs = dict(pair.split("=", 1) for pair in args.set)
    preset = PRESETS[pairs.pop("preset", "published")]
    given = {name: parse(name, text) for name, text in pairs.items()}
    threads, processes = threading.active_count(), descendants()
    worker = Worker(Settings(**{"game": args.game, **preset, **given}))
    try:
        samples = soak(worker, args.minutes, args.every)
    finally:
        worker.close()
    gc.collect()
    late = [s for s in samples if s.wall_time_s > args.minutes * 15]
    fit = stats.linregress([s.wall_time_s / 3600 for s in late], [s.mib for s in late])
    report = Report(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        settings=worker.settings,
        samples=samples,
        growth_mib_per_h=round(float(fit.slope), 2),
        half_interval_mib_per_h=round(float(stats.t.ppf(0.975, len(late) - 2) * fit.stderr), 2),
        threads_left=threading.active_count() - threads,
        processes_left=descendants() - processes,
    )
    if args.out:
        args.out.write_bytes(msgspec.json.encode(report) + b"\n")
    print(
        f"memory {report.growth_mib_per_h:+.1f} ± {report.half_interval_mib_per_h:.1f} MiB per "
        f"hour; {report.threads_left} threads and {report.processes_left} processes left after "
        "closing"
    )
    left = report.threads_left > 0 or report.processes_left > 0
    certain = report.growth_mib_per_h - report.half_interval_mib_per_h
    sys.exit(1 if became_more(late) or left or certain > args.limit else 0)


if __name__ == "__main__":
    main()
