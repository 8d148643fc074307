"""Small made-up curves and clusters that several tests share."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from simsched.cluster import Cluster, Fleet
from simsched.coordinator import NO_POLICY
from simsched.replay import Curve, Neighbours, curve_of
from simsched.results import RunResult
from simsched.retries import Policy
from simsched.run_result import make_result
from simsched.schedulers import Plan, build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.space import PUBLISHED_GA3C
from simsched.traces import Metadata, Trace, TraceSet
from simsched.unreliable import UnreliableCluster

ALL = (
    "successive-halving", "hyperband", "hypertrick", "pbt",
    "asha", "asha-stop", "median-stopping", "random",
)  # fmt: skip


def traces(
    count: int,
    rows: int,
    seed: int = 0,
    *,
    equal: bool = False,
    ends: Sequence[str] = ("complete",),
    levels: int | None = None,
) -> TraceSet:
    """Make `count` traces of `rows` reports each, 10 steps and 1 episode a row.

    `equal`: every row takes one second; `ends` are dealt out in turn; `levels` makes scores
    whole numbers below it, so that they tie.
    """
    made = []
    for trial in range(count):
        rng = np.random.default_rng([seed, trial])
        end = ends[trial % len(ends)]
        length = rows if end == "complete" else int(rng.integers(1, rows + 1))
        seconds = np.ones(length) if equal else rng.uniform(0.5, 2.0, length)
        score = rng.normal(size=length).cumsum()
        if levels is not None:
            score = rng.integers(0, levels, length).astype(float)
        made.append(
            Trace(
                trial=trial,
                hparams=PUBLISHED_GA3C.sample(rng),
                end=end,  # type: ignore[arg-type]
                seconds=seconds.cumsum(),
                steps=np.arange(1, length + 1) * 10,
                episodes=np.arange(1, length + 1),
                score=score,
            )
        )
    meta = Metadata(
        game="Made-up",
        space=PUBLISHED_GA3C.to_json(),
        synthetic=True,
        ends={str(trace.trial): trace.end for trace in made},
    )
    return TraceSet("made-up", None, meta, tuple(made))


def run_curves(
    scheduler: str,
    curves: Sequence[Curve],
    phases: int,
    cluster: Cluster,
    *,
    neighbours: Sequence[Curve] | None = None,
    **plan: Any,
) -> tuple[RunResult, SimulatedCluster]:
    """Simulate made curves whose milestones are 1, 2, … `phases`."""
    the_plan = Plan(len(curves), phases, 1, **plan)
    searcher = Given([curve.hparams for curve in curves], PUBLISHED_GA3C, the_plan.seed)
    made = build(scheduler, the_plan, searcher)
    world = SimulatedCluster(
        made, curves, Neighbours(neighbours or curves, PUBLISHED_GA3C, 1), cluster, the_plan.maximum
    )
    timeline = world.run()
    numbers = [curve.trace for curve in curves]
    result = make_result(
        scheduler, 0, the_plan, world.ledger, timeline, 1.0, numbers,
        world.neighbours.summary(), made.notes,
    )  # fmt: skip
    return result, world


def curve(trial: int, us: Sequence[int], scores: Sequence[float], end: Any = "complete") -> Curve:
    """Make a curve in the unit `reports`: row i is milestone i + 1, at `us[i]`."""
    hparams = PUBLISHED_GA3C.sample(np.random.default_rng(trial))
    return Curve(trial, hparams, end, us, list(range(1, len(us) + 1)), scores)


def fleet(nodes: Any = 1, **tables: Any) -> Fleet:
    """Make a cluster as a file would: a number of nodes or the tables of their kinds."""
    kinds = [{"count": nodes}] if isinstance(nodes, int) else nodes
    return msgspec.convert({"nodes": kinds, **tables}, Fleet)


def run_on(
    scheduler: str,
    curves: list[Curve],
    phases: int,
    of: Fleet,
    seed: int = 0,
    policy: Policy = NO_POLICY,
) -> tuple[RunResult, UnreliableCluster]:
    """Simulate made curves, whose milestones are 1, 2, … `phases`, on a cluster that misbehaves."""
    plan = Plan(len(curves), phases, 1)
    searcher = Given([one.hparams for one in curves], PUBLISHED_GA3C, plan.seed)
    neighbours = Neighbours(curves, PUBLISHED_GA3C, 1)
    made = build(scheduler, plan, searcher)
    world = UnreliableCluster(made, curves, neighbours, of, plan.maximum, policy=policy, seed=seed)
    timeline = world.run()
    numbers = [one.trace for one in curves]
    result = make_result(
        scheduler, 0, plan, world.ledger, timeline, 1.0, numbers, neighbours.summary(), made.notes
    )
    return result, world


def made_up(count: int, rows: int, seed: int, **options: Any) -> list[Curve]:
    """Make curves in the unit `reports` of `traces`."""
    return [curve_of(t, "reports", 1.0) for t in traces(count, rows, seed, **options).traces]
