"""How fast GA3C trains, beside the original's layout, Stable-Baselines3's A2C and the limit.

    python benchmarks/ga3c.py                       the comparison, repeated over processes
    python benchmarks/ga3c.py --sb3 PATH/TO/PYTHON  with Stable-Baselines3, in its own environment
    python benchmarks/ga3c.py --sweep               over t_max, agents and least batch
    python benchmarks/ga3c.py --adjust              dynamic adjustment from a bad setting
    python benchmarks/ga3c.py --profile             where the time goes, thread by thread
    python benchmarks/ga3c.py --measure key=value…  one measurement of one setting, as JSON

Rates are agent steps per second (four frames each) and samples trained per second. Figures are
of this machine at this time; compare the ratios of one run. Each measurement is a process of
its own, because processes differ.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

HERE = Path(__file__).parent
BASELINES = HERE / "ga3c_baselines"
FAST = {"preset": "fast"}
SWEEP: dict[str, list[int]] = {
    "t_max": [2, 5, 20, 100],
    "agents": [8, 16, 32, 64, 128],
    "least_batch": [0, 20, 40, 80, 160, 320, 640],
}
BAD_START = {"groups": 1, "predictors": 1, "trainers": 4, "training_queue": 80}
"""For --adjust: one group, so nothing overlaps, and too many trainers."""


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
        worker.monitor.greatest_lag()
        _advance(worker, seconds)
        elapsed_s = time.monotonic() - start
        after = thread_seconds()
        found: dict[str, Any] = rates(before, worker.monitor.totals(), elapsed_s)
        found["train/greatest_policy_lag"] = worker.monitor.greatest_lag()
        found["cores"] = {k: (v - cpu.get(k, 0.0)) / elapsed_s for k, v in after.items()}
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
    """Measure a setting of simsched's worker in a process of its own."""
    pairs = [f"{name}={value}" for name, value in {"game": args.game, **options}.items()]
    times = ["--warmup", str(args.warmup), "--seconds", str(args.seconds)]
    return in_process([sys.executable, __file__, "--measure", *pairs, *times])


def baseline(args: argparse.Namespace, script: str, python: str, *more: str) -> dict[str, Any]:
    """Measure one of the baselines in a process of its own."""
    times = ["--warmup", str(args.warmup), "--seconds", str(args.seconds)]
    command = [python, str(BASELINES / script), "--game", args.game, *times, *more]
    return in_process(command, {"OMP_NUM_THREADS": "1"} if script == "limits.py" else None)


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Measure every contender in turn, several times; the same minute for all of them."""
    contenders: dict[str, Any] = {
        "GA3C, preset fast": lambda: ours(args, **FAST)["speed/steps_per_s"],
        "GA3C, preset fast, not compiled": lambda: ours(args, **FAST, compile="off")[
            "speed/steps_per_s"
        ],
        "GA3C, published settings": lambda: ours(args, preset="published")["speed/steps_per_s"],
        "A2C, 32 agents": lambda: ours(args, **FAST, algorithm="a2c")["speed/steps_per_s"],
        "original layout, its own settings": lambda: baseline(
            args, "original_layout.py", sys.executable
        )["steps_per_s"],
        "limit of environment and network": lambda: baseline(args, "limits.py", sys.executable)[
            "limit_steps_per_s"
        ],
    }
    if args.sb3:
        contenders["Stable-Baselines3 A2C"] = lambda: baseline(args, "sb3_a2c.py", args.sb3)[
            "steps_per_s"
        ]
    runs: dict[str, list[float]] = {name: [] for name in contenders}
    rounds = [name for _ in range(args.repeats) for name in contenders]
    for name in track(rounds, "measuring", console=Console(stderr=True)):
        runs[name].append(contenders[name]())
    fast = statistics.median(runs["GA3C, preset fast"])
    table = Table("", "steps/s", "of", "GA3C fast is")
    for name, rates_ in runs.items():
        median = statistics.median(rates_)
        spread = f"{min(rates_):,.0f}-{max(rates_):,.0f}"
        table.add_row(name, f"{median:,.0f}", spread, f"{fast / median:.2f}x")
    Console().print(table)
    return {"steps_per_s": runs}


def sweep(args: argparse.Namespace) -> dict[str, Any]:
    """Measure settings one at a time, from the preset `fast`."""
    found: list[dict[str, Any]] = []
    cases = [(name, value) for name, values in SWEEP.items() for value in values]
    table = Table("setting", "steps/s", "samples/s", "prediction batch", "lag", "greatest lag")
    for name, value in track(cases, "measuring", console=Console(stderr=True)):
        result = ours(args, **{**FAST, name: value, "compile": "off"})
        found.append({"setting": name, "value": value, **result})
        table.add_row(
            f"{name} {value}",
            f"{result['speed/steps_per_s']:,.0f}",
            f"{result['speed/TPS']:,.0f}",
            f"{result['batch/prediction']:.1f}",
            f"{result.get('train/policy_lag', 0):.1f}",
            f"{result['train/greatest_policy_lag']}",
        )
    Console().print(table)
    return {"sweep": found}


def adjust(args: argparse.Namespace) -> dict[str, Any]:
    """Let the random walk adjust a bad setting; measure what it kept beside hand-set ones."""
    length_s = args.windows * args.window
    walk = in_process([
        *(sys.executable, __file__, "--measure", f"game={args.game}", "preset=fast"),
        *(f"{name}={value}" for name, value in BAD_START.items()),
        *("adjust=random-walk", "adjust_after_s=2", f"adjust_every_s={args.window}"),
        *("--warmup", "2", "--seconds", str(length_s)),
    ])  # fmt: skip
    Console().print("\n".join(walk["decisions"]), highlight=False)
    hand = {"by hand, preset fast": {}, "by hand, 4 groups": {"groups": 4}}
    cases = {"start": BAD_START, "kept by the walk": walk["kept"], **hand}
    runs: dict[str, list[float]] = {name: [] for name in cases}
    rounds = [name for _ in range(args.repeats) for name in cases]
    for name in track(rounds, "measuring", console=Console(stderr=True)):
        runs[name].append(ours(args, **FAST, **cases[name])["speed/TPS"])
    best = max(statistics.median(runs[name]) for name in hand)
    table = Table("", "samples/s", "of the best by hand")
    for name, values in runs.items():
        median = statistics.median(values)
        table.add_row(name, f"{median:,.0f}", f"{median / best:.0%}")
    Console().print(table)
    return {"walk": walk, "samples_per_s": runs}


def profile(args: argparse.Namespace) -> dict[str, Any]:
    """Show how busy each kind of thread was."""
    result = ours(args, **FAST)
    table = Table("threads", "cores")
    for kind, cores in sorted(result["cores"].items(), key=lambda item: -item[1]):
        table.add_row(kind, f"{cores:.2f}")
    table.add_row("all", f"{sum(result['cores'].values()):.2f}")
    Console().print(table)
    Console().print(f"{result['speed/steps_per_s']:,.0f} steps/s")
    return {"profile": result}


def main() -> None:
    """Parse the options and run what they ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--sweep", action="store_true")
    what.add_argument("--adjust", action="store_true")
    what.add_argument("--profile", action="store_true")
    what.add_argument("--measure", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--game", default="MsPacman")
    parser.add_argument("--sb3", help="the Python that has Stable-Baselines3")
    parser.add_argument("--warmup", type=float, default=10.0, help="seconds before each window")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each window")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure")
    parser.add_argument("--windows", type=int, default=40, help="of --adjust")
    parser.add_argument("--window", type=float, default=5.0, help="seconds of each, of --adjust")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    args = parser.parse_args()
    if args.measure is not None:
        from simsched.cli.training_options import parse

        pairs = dict(pair.split("=", 1) for pair in args.measure)
        own = {name: pairs.pop(name) for name in ("game", "preset") if name in pairs}
        options = {**own, **{name: parse(name, text) for name, text in pairs.items()}}
        print(json.dumps(measure(options, args.warmup, args.seconds)))
        return
    chosen = [run for run in (sweep, adjust, profile) if getattr(args, run.__name__)]
    result = (chosen or [compare])[0](args)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
