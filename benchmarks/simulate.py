"""How fast the simulator is: reports per CPU second, beside bare SimPy in the same run.

    python benchmarks/simulate.py                   1,000 trials × 27 milestones, 16 and 128 nodes
    python benchmarks/simulate.py --growth          1,000 to 100,000 trials: how the cost grows
    python benchmarks/simulate.py --repeats 5 --json speed.json

A report is one milestone of one trial, told to the scheduler and answered. What is timed is
the simulation alone, from the first event to the closed books: curves are made before.
Figures are of this machine; compare the ratios.
"""

import argparse
import io
import json
import math
import statistics
import sys
import time
from collections.abc import Callable

import simpy

from simsched.cluster import Cluster
from simsched.journal import Journal
from simsched.replay import Curve, Neighbours, curve_of
from simsched.schedulers import REGISTRY, Plan, build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.space import PUBLISHED_GA3C
from simsched.traces import synthesize

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


def growth(repeats: int) -> list[dict[str, object]]:
    """Measure CPU seconds per report at 1,000, 10,000 and 100,000 trials on 128 nodes."""
    rows: list[dict[str, object]] = []
    sizes = (1000, 10_000, 100_000)
    print(f"{'scheduler':<20}" + "".join(f"{f'{n:,} trials':>18}" for n in sizes) + "  exponent")
    all_curves = curves_of(max(sizes))
    for name in REGISTRY:
        costs = []
        for trials in sizes:
            rounds = 1 if trials == max(sizes) else repeats
            curves = all_curves[:trials]
            rate = best_of(rounds, lambda: simulate_once(name, curves, 128, journal=False))  # noqa: B023
            costs.append(1e6 / rate)
        exponent = math.log(costs[-1] / costs[0]) / math.log(sizes[-1] / sizes[0])
        cells = "".join(f"{f'{cost:.1f} µs/report':>18}" for cost in costs)
        print(f"{name:<20}{cells}{1 + exponent:>10.2f}", flush=True)
        rows.append({"scheduler": name, "us_per_report": costs, "exponent": 1 + exponent})
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true", help="measure how the cost grows")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the median counts")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON too")
    options = parser.parse_args()
    rows = growth(options.repeats) if options.growth else speed(options.repeats)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"python": sys.version.split()[0], "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
