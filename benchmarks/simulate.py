"""How fast the simulator is: reports per CPU second, beside bare SimPy in the same run.

    python benchmarks/simulate.py                   1,000 trials × 27 milestones, 16 and 128 nodes
    python benchmarks/simulate.py --growth          1,000 to 100,000 trials: time, memory, results
    python benchmarks/simulate.py --growth --trials 1000 10000 100000 1000000 --schedulers asha
    python benchmarks/simulate.py --growth --spot   the same on nodes that are taken away
    python benchmarks/simulate.py --repeats 5 --json speed.json

A report is one milestone of one trial, told to the scheduler and answered; an event is anything
that the coordinator is told, of nodes that come and go, too. What is timed is
the simulation alone, from the first event to the closed books: curves are made before.
Figures are of this machine; compare the ratios.
"""

import argparse
import io
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import simpy

from simsched.cluster import Cluster, Costs, Fleet, NodeKind, Spot
from simsched.control import Control
from simsched.draws import keyed
from simsched.events import Command, Event
from simsched.journal import Journal
from simsched.replay import Curve, Neighbours, curve_of
from simsched.results import Comparison, Settings, results_chunks
from simsched.run_result import make_result
from simsched.schedulers import REGISTRY, Plan, build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.space import PUBLISHED_GA3C
from simsched.traces import synthesize
from simsched.unreliable import UnreliableCluster

MILESTONES = 27


def bare_timeouts(count: int = 200_000) -> float:
    """Return SimPy's bare timeouts per CPU second: the ceiling of any simulation on it."""

    def process(env: simpy.Environment) -> object:
        for _ in range(count):
            yield env.timeout(1)

    env = simpy.Environment()
    env.process(process(env))  # type: ignore[arg-type]
    start = time.process_time()
    env.run()
    return count / (time.process_time() - start)


def curves_of(trials: int) -> list[Curve]:
    """Make synthetic curves with one row a milestone."""
    made = synthesize(trials, seed=0, rows=MILESTONES, kind="reports")
    return [curve_of(trace, "reports", 1.0) for trace in made.traces]


def simulate_once(
    name: str, curves: list[Curve], nodes: int, *, journal: bool
) -> tuple[int, float]:
    """Return the reports of one simulation and its CPU seconds."""
    plan = Plan(len(curves), MILESTONES, 1, 0)
    searcher = Given([curve.hparams for curve in curves], PUBLISHED_GA3C, 0)
    neighbours = Neighbours(curves, PUBLISHED_GA3C, 1)
    cluster = Cluster(nodes, save_s=1.0, load_s=1.0)
    writer = Journal(io.BytesIO(), {}, plan.maximum) if journal else None
    start = time.process_time()
    world = SimulatedCluster(
        build(name, plan, searcher), curves, neighbours, cluster, plan.maximum, writer
    )
    world.run()
    return world.ledger.milestones, time.process_time() - start


def best_of(repeats: int, run: Callable[[], tuple[int, float]]) -> float:
    """Return the median of reports per CPU second."""
    return statistics.median(reports / spent for reports, spent in (run() for _ in range(repeats)))


def speed(repeats: int) -> list[dict[str, object]]:
    """Measure every scheduler on 16 and 128 nodes, without and with a journal."""
    curves = curves_of(1000)
    timeouts = statistics.median(bare_timeouts() for _ in range(repeats))
    print(f"bare SimPy timeouts per CPU second: {timeouts:,.0f}\n")
    print(f"{'scheduler':<20}{'nodes':>6}{'reports/s':>12}{'with journal':>14}{'SimPy/report':>14}")
    rows: list[dict[str, object]] = []
    for name in REGISTRY:
        for nodes in (16, 128):
            plain, written = (
                best_of(repeats, lambda: simulate_once(name, curves, nodes, journal=journal))  # noqa: B023
                for journal in (False, True)
            )
            print(f"{name:<20}{nodes:>6}{plain:>12,.0f}{written:>14,.0f}{timeouts / plain:>14.1f}")
            rows.append(
                {"scheduler": name, "nodes": nodes, "reports_per_cpu_s": plain,
                 "with_journal": written, "bare_timeouts_per_cpu_s": timeouts}
            )  # fmt: skip
    return rows


def grown(name: str, trials: int, nodes: int, *, spot: bool) -> dict[str, object]:
    """Simulate a large search and write its results, in this process, which does nothing else.

    The trials share 1,000 recorded curves; a spot node lasts twice a whole trial in the mean.
    Memory is what is added to the process with its curves: at its highest up to the end of the
    run, and up to the end of writing.
    """
    base = curves_of(min(trials, 1000))
    places = keyed(0, "growth", trials).integers(len(base), size=trials).tolist()
    curves = [base[place] for place in places]
    plan = Plan(trials, MILESTONES, 1, 0)
    searcher = Given([curve.hparams for curve in curves], PUBLISHED_GA3C, 0)
    neighbours = Neighbours(base, PUBLISHED_GA3C, 1)
    lasts = Spot(mean_time_between_s=1000.0, notice_s=0.0, return_s=10.0)
    fleet = Fleet(nodes=(NodeKind(count=nodes, spot=lasts),), costs=Costs(save_s=1.0, load_s=1.0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    world: SimulatedCluster
    if spot:
        world = UnreliableCluster(
            build(name, plan, searcher), curves, neighbours, fleet, plan.maximum
        )
    else:
        cluster = Cluster(nodes, save_s=1.0, load_s=1.0)
        world = SimulatedCluster(
            build(name, plan, searcher), curves, neighbours, cluster, plan.maximum
        )
    events = counted(world.control)
    timeline = world.run()
    simulated = time.process_time()
    at_end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    traces = [curve.trace for curve in curves]
    run = make_result(name, 0, plan, world.ledger, timeline, 1.0, traces, {}, ())
    with tempfile.TemporaryFile() as file:
        file.writelines(results_chunks(Comparison(settings_of(name, trials, nodes), (run,))))
        size = file.tell()
    return {
        "scheduler": name,
        "trials": trials,
        "nodes": nodes,
        "reports": run.milestones,
        "events": sum(events),
        "intervals": len(timeline.intervals),
        "cpu_s": simulated - start,
        "results_cpu_s": time.process_time() - simulated,
        "results_mb": size / 1e6,
        "peak_mb": (at_end - before) / 1e3,
        "peak_with_results_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3,
        "bare_timeouts_per_cpu_s": bare_timeouts(),
    }


def counted(control: Control) -> list[int]:
    """Return a list with one number, to which each event adds 1."""
    feed, events = control.feed, [0]

    def counting(event: Event) -> list[Command]:
        events[0] += 1
        return feed(event)

    control.feed = counting  # type: ignore[method-assign]
    return events


def settings_of(name: str, trials: int, nodes: int) -> Settings:
    """Return what such a search would be asked for."""
    return Settings(
        version="", traces="synthetic", traces_sha256="", game="synthetic", metric="return",
        mode="max", synthetic=True, recorded_trials=1000, nodes=(nodes,), node_speeds=(1.0,),
        workers=(trials,), schedulers=(name,), phases=MILESTONES, phase_length=1, unit="reports",
        start_s=0.0, save_s=1.0, load_s=1.0, replications=1, resample=True, seed=0,
    )  # fmt: skip


def growth(options: argparse.Namespace) -> list[dict[str, object]]:
    """Measure time and memory at each size, each in a process of its own; print exponents."""
    rows: list[dict[str, object]] = []
    print(f"{'scheduler':<20}{'trials':>10}{'nodes':>7}{'reports':>12}{'µs/report':>11}{'/event':>8}"
          f"{'SimPy':>7}{'MB':>8}{'B/report':>10}{'results s':>11}{'MB':>7}")  # fmt: skip
    for name in options.schedulers:
        found: list[Any] = []
        for trials in options.trials:
            if found and found[-1]["cpu_s"] * trials / found[-1]["trials"] > options.longest:
                print(f"{name:<20}{trials:>10,}  left out: it would take longer than --longest")
                break
            nodes = options.nodes or max(10, trials // 100)
            kind = "spot" if options.spot else "own"
            command = [sys.executable, __file__, "--one", name, str(trials), str(nodes), kind]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            row = json.loads(done.stdout)
            found.append(row)
            us = 1e6 * row["cpu_s"] / row["reports"]
            print(
                f"{name:<20}{trials:>10,}{nodes:>7,}{row['reports']:>12,}{us:>11.1f}"
                f"{us * row['reports'] / row['events']:>8.1f}"
                f"{us * row['bare_timeouts_per_cpu_s'] / 1e6:>7.1f}{row['peak_mb']:>8,.0f}"
                f"{1e6 * row['peak_mb'] / row['reports']:>10.0f}{row['results_cpu_s']:>11.1f}"
                f"{row['results_mb']:>7,.0f}",
                flush=True,
            )
        rows += found
        if len(found) > 1:
            sizes = [math.log(row["trials"]) for row in found]
            exponents = [
                statistics.linear_regression(sizes, [math.log(row[what]) for row in found]).slope
                for what in ("cpu_s", "peak_mb")
            ]
            print(f"{name:<20}exponents: time {exponents[0]:.2f}, memory {exponents[1]:.2f}")
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true", help="measure how time and memory grow")
    parser.add_argument("--trials", type=int, nargs="+", default=[1000, 10_000, 100_000],
                        help="with --growth")  # fmt: skip
    parser.add_argument("--nodes", type=int, help="with --growth; by default a hundredth of trials")
    parser.add_argument("--schedulers", nargs="+", default=list(REGISTRY), help="with --growth")
    parser.add_argument("--longest", type=float, default=900.0, help="CPU seconds of a run")
    parser.add_argument("--spot", action="store_true", help="with --growth: spot nodes")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the median counts")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON too")
    options = parser.parse_args()
    if options.one:
        name, trials, nodes, kind = options.one
        print(json.dumps(grown(name, int(trials), int(nodes), spot=kind == "spot")))
        return
    rows = growth(options) if options.growth else speed(options.repeats)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"python": sys.version.split()[0], "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
