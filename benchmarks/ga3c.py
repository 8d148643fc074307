"""How fast GA3C trains, beside the original's layout, Stable-Baselines3's A2C and the limit.

    python benchmarks/ga3c.py                       the comparison, repeated over processes
    python benchmarks/ga3c.py --sb3 PATH/TO/PYTHON  with Stable-Baselines3, in its own environment
    python benchmarks/ga3c.py --sweep [SETTING]…    over t_max, agents and least_batch, one by one
    python benchmarks/ga3c.py --table               the sweep as measured so far
    python benchmarks/ga3c.py --adjust              dynamic adjustment from a bad setting
    python benchmarks/ga3c.py --profile             where the time goes, part by part
    python benchmarks/ga3c.py --measure key=value…  one measurement of one setting, as JSON

Rates are agent steps per second (four frames each) and samples trained per second. Figures are
of this machine at this time; compare the ratios of one run. Each measurement is a process of
its own, because processes differ. What came out is appended to results/ga3c.jsonl.
"""

import argparse
import datetime
import json
import math
import os
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

from measuring import baseline, in_process, measure, ours
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "ga3c.jsonl"
FAST = {"preset": "fast"}
SWEEP: dict[str, list[int]] = {
    "t_max": [2, 5, 20, 100],
    "agents": [8, 16, 32, 64, 128],
    "least_batch": [0, 40, 80, 160, 320, 640],
}
SB3 = {
    "ale-py's emulators in threads": "ale",
    "its own, in one process": "one",
    "its own, in processes": "processes",
}
WIDER = {"agents": 96, "training_queue": 640}
"""Fewer moments at which all wait for one another; twice the policy lag."""
PARTS = {
    "environment": ("agents", "emulators and libraries"),
    "prediction": ("predictor",),
    "training": ("trainer",),
}
"""For --profile: whose threads do what limits.py measures alone."""
BAD_START = {"groups": 1, "predictors": 1, "trainers": 4, "training_queue": 80}
"""For --adjust: one group, so nothing overlaps, and too many trainers."""


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Measure every contender in turn, several times; the same minute for all of them."""
    contenders: dict[str, Any] = {
        "GA3C, preset fast": lambda: ours(args, **FAST)["speed/steps_per_s"],
        "fast, 96 agents, queue of 640": lambda: ours(args, **FAST, **WIDER)["speed/steps_per_s"],
        "GA3C, preset fast, compiled": lambda: ours(args, **FAST, compile="on")[
            "speed/steps_per_s"
        ],
        "GA3C, published settings": lambda: ours(args, preset="published")["speed/steps_per_s"],
        "A2C, other settings of fast": lambda: ours(args, **FAST, algorithm="a2c")[
            "speed/steps_per_s"
        ],
        "original layout, its own settings": lambda: baseline(
            args, "original_layout.py", sys.executable
        )["steps_per_s"],
        "limit of environment and network": lambda: baseline(args, "limits.py", sys.executable)[
            "limit_steps_per_s"
        ],
    }
    if args.sb3:
        for name, kind in SB3.items():
            contenders[f"Stable-Baselines3 A2C, {name}"] = lambda kind=kind: baseline(
                args, "sb3_a2c.py", args.sb3, "--environments", kind
            )["steps_per_s"]
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


def swept(args: argparse.Namespace) -> dict[tuple[str, int], dict[str, Any]]:
    """Return what was measured of a game so far, by setting and value."""
    lines = args.json.read_text().splitlines() if args.json.exists() else []
    found = (json.loads(line) for line in lines)
    rows = [r["sweep"] for r in found if "sweep" in r and r["game"] == args.game]
    return {(row["setting"], row["value"]): row for row in rows}


def sweep(args: argparse.Namespace) -> None:
    """Measure settings one at a time, from the preset `fast`; those that are missing."""
    known = swept(args)
    cases = [(name, value) for name in args.settings or SWEEP for value in SWEEP[name]]
    cases = [case for case in cases if case not in known]
    for name, value in track(cases, "measuring", console=Console(stderr=True)):
        result = ours(args, **{**FAST, "compile": "off", name: value})
        keep(args, {"sweep": {"setting": name, "value": value, **result}})


def show_sweep(args: argparse.Namespace) -> None:
    """Print the newest measurement of each setting of the sweep."""
    lines = map(json.loads, args.json.read_text().splitlines())
    found = {
        (r["sweep"]["setting"], r["sweep"]["value"]): r["sweep"] for r in lines if "sweep" in r
    }
    shown = Table("setting", "steps/s", "samples/s", "prediction batch", "lag", "greatest lag")
    shown.add_column("cores, own + others")
    shown.box = box.MARKDOWN
    for name, value in sorted(found, key=lambda key: (list(SWEEP).index(key[0]), key[1])):
        result = found[name, value]
        others = f"{max(0.0, result['others_cores']):.2f}" if "others_cores" in result else "?"
        shown.add_row(
            f"`{name}` {value}",
            f"{result['speed/steps_per_s']:,.0f}",
            f"{result['speed/TPS']:,.0f}",
            f"{result['batch/prediction']:.0f}",
            f"{result.get('train/policy_lag', 0):.1f}",
            f"{result['train/greatest_policy_lag']}",
            f"{sum(result['cores'].values()):.2f}, {others}",
        )
    Console(width=120).print(shown)


def adjust(args: argparse.Namespace) -> dict[str, Any]:
    """Let the random walk adjust a bad setting; measure what it kept beside hand-set ones."""
    length_s = args.windows * args.window
    walk = in_process([
        *shlex.split(args.under),
        *(sys.executable, __file__, "--measure", f"game={args.game}", "preset=fast"),
        *(f"{name}={value}" for name, value in BAD_START.items()),
        *("adjust=random-walk", "adjust_after_s=2", f"adjust_every_s={args.window}"),
        *("--warmup", "2", "--seconds", str(length_s)),
    ])  # fmt: skip
    Console().print("\n".join(walk["decisions"]), highlight=False)
    Console().print(f"other programs took {walk['others_cores']:.2f} cores meanwhile")
    hand = {"by hand, preset fast": {}, "by hand, 4 groups": {"groups": 4}}
    cases = {"start": BAD_START, "kept by the walk": walk["kept"], **hand}
    runs: dict[str, list[float]] = {name: [] for name in cases}
    others: dict[str, list[float]] = {name: [] for name in cases}
    rounds = [name for _ in range(args.repeats) for name in cases]
    for name in track(rounds, "measuring", console=Console(stderr=True)):
        found = ours(args, **FAST, **cases[name])
        runs[name].append(found["speed/TPS"])
        others[name].append(found["others_cores"])
    best = max(statistics.median(runs[name]) for name in hand)
    table = Table("", "samples/s", "of the best by hand")
    for name, values in runs.items():
        median = statistics.median(values)
        table.add_row(name, f"{median:,.0f}", f"{median / best:.0%}")
    Console().print(table)
    return {"walk": walk, "samples_per_s": runs, "others_cores": others}


def profile(args: argparse.Namespace) -> dict[str, Any]:
    """Show what a step costs each part's threads, and what it costs that part alone."""
    result = ours(args, **FAST)
    alone = baseline(args, "limits.py", sys.executable)
    rate = result["speed/steps_per_s"]
    table = Table("", "cores", "µs of a core per step", "alone", box=box.MARKDOWN)
    rest = dict(result["cores"])
    for part, kinds in PARTS.items():
        cores = sum(rest.pop(kind, 0.0) for kind in kinds)
        cost_s = next(value for name, value in alone.items() if name.endswith(f"{part}_cpu_s"))
        table.add_row(part, f"{cores:.2f}", f"{1e6 * cores / rate:.0f}", f"{1e6 * cost_s:.0f}")
    table.add_row("the rest", f"{sum(rest.values()):.2f}", "", "")
    idle = len(os.sched_getaffinity(0)) - sum(result["cores"].values())
    table.add_row("idle, or others'", f"{idle:.2f}", f"{1e6 * idle / rate:.0f}", "0")
    Console().print(table)
    Console().print(f"other programs took {result['others_cores']:.2f} cores")
    Console().print(f"{rate:,.0f} steps/s; at most {alone['limit_steps_per_s']:,.0f} steps/s")
    return {"profile": result, "limits": alone}


def keep(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Append what came out, with where and when."""
    from simsched.live.machine import processor

    about = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "game": args.game,
        **{name: getattr(args, name) for name in ("warmup", "seconds", "repeats")},
    }
    args.json.parent.mkdir(exist_ok=True)
    with args.json.open("a") as file:
        file.write(json.dumps({**about, **result}) + "\n")


def main() -> None:
    """Parse the options and run what they ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--sweep", nargs="*", choices=SWEEP, dest="settings", metavar="SETTING")
    what.add_argument("--table", action="store_true")
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
    parser.add_argument("--under", default="", help="command that runs each measurement")
    parser.add_argument("--others", type=float, default=math.inf,
                        help="cores of other programs at which to measure once more")  # fmt: skip
    parser.add_argument("--json", type=Path, default=RESULTS, help="file to append the figures to")
    args = parser.parse_args()
    if args.measure is not None:
        from simsched.cli.training_options import parse

        pairs = dict(pair.split("=", 1) for pair in args.measure)
        own: dict[str, Any] = {n: pairs.pop(n) for n in ("game", "preset") if n in pairs}
        if "seed" in pairs:  # no option of a setting, but of the command itself
            own["seed"] = int(pairs.pop("seed"))
        options = {**own, **{name: parse(name, text) for name, text in pairs.items()}}
        print(json.dumps(measure(options, args.warmup, args.seconds)))
        return
    if args.settings is not None:
        sweep(args)
    if args.table or args.settings is not None:
        show_sweep(args)
    elif args.adjust:
        keep(args, adjust(args))
    else:
        keep(args, profile(args) if args.profile else compare(args))


if __name__ == "__main__":
    main()
