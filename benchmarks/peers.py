"""The simulator beside Syne Tune's, on the same curves, in one run, on one core.

    python benchmarks/peers.py --run --syne PATH/TO/PYTHON     appends to results/peers.jsonl
    python benchmarks/peers.py --run --trials 10000 --repeats 1 --syne PATH/TO/PYTHON
    python benchmarks/peers.py --agree --syne PATH/TO/PYTHON   the same: who stops
    python benchmarks/peers.py --table                         what stands there

PYTHON has peers_requirements.txt installed, in an environment of its own. Both replay the same
synthetic curves of 27 epochs, none of which diverges, with eta = 3. CPU seconds are of the search
alone: curves, imports and schedulers are made before. Ours includes its journal, written to a
file, and its results; Syne Tune's its callback that keeps results, and its table of them. Measured
in turns, medians. A report is what a scheduler is told: every epoch in Syne Tune; here the
milestones only, because the simulation goes from one to the next. Epochs are the same in both.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from peers_ours import curves_of, on_the_border, ours, told_in
from simulate import bare_timeouts

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "peers.jsonl"
PAIRS = (
    ("asha-stop", "asha"),
    ("asha", "asha"),
    ("hyperband", "hyperband"),
    ("random", "random"),
)
"""Ours, and what Syne Tune has in its place: it has no ASHA that pauses, and its HyperBand is
ASHA in several brackets."""


def syne(python: str, *arguments: object) -> dict[str, Any]:
    """Have Syne Tune do something in its own environment."""
    command = [python, str(HERE / "peers_syne.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure(options: argparse.Namespace, folder: Path) -> None:
    """Measure every pair on every cluster and append what was found."""
    curves = folder / "curves.npz"
    _, elapsed_s, score = curves_of(options.trials)
    np.savez(curves, elapsed_s=elapsed_s, score=score)
    for nodes in options.nodes:
        for peer in options.schedulers:
            names = [name for name, other in PAIRS if other == peer]
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in [*names, "syne"]}
            timeouts = []
            for _ in range(options.repeats):
                timeouts.append(bare_timeouts())
                for name in names:
                    found[name].append(ours(name, options.trials, nodes, folder / "journal.jsonl"))
                found["syne"].append(syne(options.syne, "simulate", curves, peer, nodes))
            for name in names:
                keep(row_of(options, nodes, peer, name, found, timeouts))


def row_of(
    options: argparse.Namespace,
    nodes: int,
    peer: str,
    name: str,
    found: dict[str, list[dict[str, Any]]],
    timeouts: list[float],
) -> dict[str, Any]:
    """Return what was measured of a pair: medians, and all makespans."""
    return {
        "what": "speed",
        "scheduler": name,
        "peer": f"Syne Tune {peer}",
        "trials": options.trials,
        "nodes": nodes,
        "repeats": options.repeats,
        "reports": found[name][0]["reports"],
        "epochs": found[name][0]["epochs"],
        "cpu_s": statistics.median(each["cpu_s"] for each in found[name]),
        "makespan_s": sorted({each["makespan_s"] for each in found[name]}),
        "peer_reports": statistics.median(each["reports"] for each in found["syne"]),
        "peer_cpu_s": statistics.median(each["cpu_s"] for each in found["syne"]),
        "peer_makespan_s": sorted(each["makespan_s"] for each in found["syne"]),
        "bare_timeouts_per_cpu_s": statistics.median(timeouts),
    }


def keep(row: dict[str, Any]) -> None:
    """Append a row to the results, with when and where."""
    row |= {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} shared cores, {processor()}",
        "python": platform.python_version(),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(line_of(row) if row["what"] == "speed" else json.dumps(row), flush=True)


def processor() -> str:
    """Return the processor's name (Linux)."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def agree(options: argparse.Namespace, folder: Path) -> None:
    """Tell Syne Tune's ASHA the reports of our runs, in their order; compare who stops."""
    curves = folder / "curves.npz"
    _, elapsed_s, score = curves_of(options.trials)
    np.savez(curves, elapsed_s=elapsed_s, score=score)
    for nodes in options.nodes:
        for name in ("asha-top-share", "asha-stop"):
            ours(name, options.trials, nodes, folder / "journal.jsonl")
            told, stops = told_in(folder / "journal.jsonl")
            (folder / "reports.json").write_text(json.dumps(told))
            theirs = syne(options.syne, "decide", curves, folder / "reports.json")["stops"]
            differ = {place for place, stop in enumerate(stops) if stop != theirs[place]}
            borders = on_the_border(told)
            keep(
                {"what": "decisions", "scheduler": name, "trials": options.trials, "nodes": nodes,
                 "reports": len(told), "stops": sum(stops), "peer_stops": sum(theirs),
                 "differ": len(differ), "differ_on_the_border": len(borders & differ),
                 "borders": len(borders)}
            )  # fmt: skip
        whole_runs(options, nodes, folder)


def whole_runs(options: argparse.Namespace, nodes: int, folder: Path) -> None:
    """Compare the last epoch of each trial over whole runs: ours, Syne Tune's, and its second."""
    ours("asha-top-share", options.trials, nodes, folder / "journal.jsonl")
    told, stops = told_in(folder / "journal.jsonl")
    here = [(trial, epoch) for (trial, epoch, _), stop in zip(told, stops, strict=True) if stop]
    command = ("simulate", folder / "curves.npz", "asha", nodes)
    runs = [[tuple(end) for end in syne(options.syne, *command)["ends"]] for _ in range(2)]

    def same(one: list[Any], other: list[Any]) -> float:
        return len(set(one) & set(other)) / options.trials

    keep(
        {"what": "whole runs", "scheduler": "asha-top-share", "trials": options.trials,
         "nodes": nodes, "same_last_epoch": same(here, runs[0]),
         "peer_with_itself": same(*runs), "order": rank_correlation(here, runs[0]),
         "peer_order_with_itself": rank_correlation(*runs)}
    )  # fmt: skip


def rank_correlation(one: list[Any], other: list[Any]) -> float:
    """Return Spearman's correlation of the places at which trials end."""
    places = [np.argsort([trial for trial, _ in ends]) for ends in (one, other)]
    return float(np.corrcoef(*places)[0, 1])


HEAD = (
    f"{'ours':<10} {'Syne Tune':<10} {'trials':>6} {'nodes':>5} {'theirs/s':>9} {'ours/s':>9} "
    f"{'ratio':>6} {'epochs/s':>10} {'ratio':>6} {'SimPy':>6}"
)


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the table: reports and epochs per CPU second, and their ratios."""
    theirs, mine = row["peer_reports"] / row["peer_cpu_s"], row["reports"] / row["cpu_s"]
    epochs = row["epochs"] / row["cpu_s"]
    return (
        f"{row['scheduler']:<10} {row['peer'].removeprefix('Syne Tune '):<10} {row['trials']:>6,} "
        f"{row['nodes']:>5} {theirs:>9,.0f} {mine:>9,.0f} {mine / theirs:>6.1f} {epochs:>10,.0f} "
        f"{epochs / theirs:>6.1f} {row['bare_timeouts_per_cpu_s'] / mine:>6.1f}"
    )


def main() -> None:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="measure the speed")
    parser.add_argument("--agree", action="store_true", help="compare decisions")
    parser.add_argument("--table", action="store_true", help="print what stands in the results")
    parser.add_argument("--syne", metavar="PYTHON", help="a Python that has Syne Tune")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--nodes", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--schedulers", nargs="+", default=["asha", "hyperband", "random"])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if (options.run or options.agree) and options.syne is None:
        parser.error("--run and --agree need --syne PYTHON")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # children stay on it too
    if options.run or options.table:
        print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        if options.run:
            measure(options, Path(folder))
        if options.agree:
            agree(options, Path(folder))
    if options.table and not options.run:
        for text in RESULTS.read_text().splitlines():
            row = json.loads(text)
            print(line_of(row) if row["what"] == "speed" else text)


if __name__ == "__main__":
    sys.exit(main())
