"""An hour of training: memory, threads and open files must stay flat.

    python benchmarks/soak.py --minutes 60 --game Pong --set preset=fast
    python benchmarks/soak.py --minutes 2 --game CartPole-v1 --set overlap=on

Prints a line now and then and, at the end, the growth of memory in MiB per hour with its 95 %
interval, measured after the first quarter, by when caches have filled. Exits with 1 if threads
or open files became more, or memory grew by more than --limit MiB per hour for certain.
"""

import argparse
import gc
import os
import sys
import threading
import time
from pathlib import Path

from scipy import stats

from simsched.cli.training_options import parse
from simsched.live.ga3c.settings import PRESETS, Settings
from simsched.live.ga3c.worker import Worker

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_mib() -> float:
    """Return this process's resident memory in MiB (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def counts() -> tuple[int, int]:
    """Return how many threads and open files this process has."""
    return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))


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
    args = parser.parse_args()
    pairs = dict(pair.split("=", 1) for pair in args.set)
    preset = PRESETS[pairs.pop("preset", "published")]
    given = {name: parse(name, text) for name, text in pairs.items()}
    before_threads = threading.active_count()
    worker = Worker(Settings(**{"game": args.game, **preset, **given}))
    checkpoint = Path(f".soak-{os.getpid()}.pt")
    start = time.monotonic()
    samples: list[tuple[float, float]] = []
    first: tuple[int, int] | None = None
    last = (0, 0)
    try:
        while (elapsed_s := time.monotonic() - start) < args.minutes * 60:
            worker.advance()
            if len(samples) * args.every > elapsed_s:
                continue
            if worker.diverged is not None:
                raise SystemExit(f"error: {worker.diverged}")
            worker.save(checkpoint)
            samples.append((elapsed_s / 3600, resident_mib()))
            if elapsed_s > args.minutes * 15:
                last = counts()
                first = first or last
            print(
                f"{elapsed_s / 60:6.1f} min {worker.steps:>12,} steps {samples[-1][1]:8.1f} MiB "
                f"{last[0]:3d} threads {last[1]:3d} files",
                flush=True,
            )
    finally:
        worker.close()
        checkpoint.unlink(missing_ok=True)
    gc.collect()
    late = [sample for sample in samples if sample[0] * 60 > args.minutes / 4]
    fit = stats.linregress([hour for hour, _ in late], [mib for _, mib in late])
    half = float(stats.t.ppf(0.975, len(late) - 2) * fit.stderr)
    left = threading.active_count() - before_threads
    print(f"memory {fit.slope:+.1f} ± {half:.1f} MiB per hour; {left} threads left after closing")
    more = first is not None and (last[0] > first[0] or last[1] > first[1])
    sys.exit(1 if more or left or fit.slope - half > args.limit else 0)


if __name__ == "__main__":
    main()
