"""What ga3c.py measures with: one setting or one baseline at a time, in a process of its own."""

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def thread_seconds() -> dict[str, float]:
    """Return the CPU seconds of this process's threads so far, by kind (Linux)."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    tick = os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            kind = names.get(int(task.name), "emulators and libraries").rstrip(" 0123456789")
            seconds = (int(fields[11]) + int(fields[12])) / tick
            found[kind] = found.get(kind, 0.0) + seconds
    return found


def machine_seconds() -> float:
    """Return the CPU seconds of all programs of this machine so far (Linux)."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def measure(options: dict[str, Any], warmup_s: float, seconds: float) -> dict[str, Any]:
    """Train with one setting and return its rates over a window."""
    from simsched.live.ga3c.monitor import rates
    from simsched.live.ga3c.overlapped import OverlappedEngine
    from simsched.live.ga3c.settings import PRESETS, Settings
    from simsched.live.ga3c.worker import Worker

    fields = dict(options)
    preset = PRESETS[fields.pop("preset", "published")]
    worker = Worker(Settings(**{"game": "MsPacman", **preset, **fields}))
    try:
        _advance(worker, warmup_s)
        before, start, cpu = worker.monitor.totals(), time.monotonic(), thread_seconds()
        of_all = machine_seconds()
        worker.monitor.greatest_lag()
        _advance(worker, seconds)
        elapsed_s = time.monotonic() - start
        after = thread_seconds()
        found: dict[str, Any] = rates(before, worker.monitor.totals(), elapsed_s)
        found["train/greatest_policy_lag"] = worker.monitor.greatest_lag()
        found["cores"] = {k: (v - cpu.get(k, 0.0)) / elapsed_s for k, v in after.items()}
        busy = (machine_seconds() - of_all) / elapsed_s
        found["others_cores"] = busy - sum(found["cores"].values())
        engine = worker.engine
        if isinstance(engine, OverlappedEngine) and engine.strategy is not None:
            found["kept"] = engine.strategy.kept._asdict()
            found["decisions"] = [str(decision) for decision in engine.strategy.decisions]
        return found
    finally:
        worker.close()


def _advance(worker: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        worker.advance()


def in_process(command: list[str], env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a measurement in a process of its own; its last line of output is JSON."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def ours(args: argparse.Namespace, **options: Any) -> dict[str, Any]:
    """Measure a setting of simsched's worker in a process of its own.

    Where other programs took more than `args.others` cores meanwhile, it is measured once more.
    """
    pairs = [f"{name}={value}" for name, value in {"game": args.game, **options}.items()]
    times = ["--warmup", str(args.warmup), "--seconds", str(args.seconds)]
    command = [sys.executable, str(HERE / "ga3c.py"), "--measure", *pairs, *times]
    found = in_process([*shlex.split(args.under), *command])
    if found["others_cores"] > args.others:
        found = in_process([*shlex.split(args.under), *command])
    return found


def baseline(args: argparse.Namespace, script: str, python: str, *more: str) -> dict[str, Any]:
    """Measure one of the baselines in a process of its own."""
    times = ["--warmup", str(args.warmup), "--seconds", str(args.seconds)]
    path = str(HERE / "ga3c_baselines" / script)
    command = [*shlex.split(args.under), python, path, "--game", args.game, *times, *more]
    return in_process(command, {"OMP_NUM_THREADS": "1"} if script == "limits.py" else None)
