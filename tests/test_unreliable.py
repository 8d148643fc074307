"""A cluster that misbehaves, against what can be worked out by hand or by a formula."""

from typing import Any

import msgspec
import numpy as np
import pytest
from test_accounting import check
from worlds import ALL, curve, run_curves, traces

from simsched.cluster import Cluster, Fleet
from simsched.replay import Curve, Neighbours, curve_of
from simsched.results import RunResult
from simsched.run_result import make_result
from simsched.schedulers import Plan, build
from simsched.searchers import Given
from simsched.space import PUBLISHED_GA3C
from simsched.unreliable import UnreliableCluster

ENDS = ("complete", "diverged", "censored", "complete", "complete")


def fleet(nodes: Any = 1, **tables: Any) -> Fleet:
    kinds = [{"count": nodes}] if isinstance(nodes, int) else nodes
    return msgspec.convert({"nodes": kinds, **tables}, Fleet)


def run_on(
    scheduler: str, curves: list[Curve], phases: int, of: Fleet, seed: int = 0
) -> tuple[RunResult, UnreliableCluster]:
    plan = Plan(len(curves), phases, 1)
    searcher = Given([one.hparams for one in curves], PUBLISHED_GA3C, plan.seed)
    neighbours = Neighbours(curves, PUBLISHED_GA3C, 1)
    made = build(scheduler, plan, searcher)
    world = UnreliableCluster(made, curves, neighbours, of, plan.maximum, seed=seed)
    timeline = world.run()
    numbers = [one.trace for one in curves]
    result = make_result(
        scheduler, 0, plan, world.ledger, timeline, 1.0, numbers, neighbours.summary(), made.notes
    )
    return result, world


def made_up(count: int, rows: int, seed: int, **options: Any) -> list[Curve]:
    return [curve_of(t, "reports", 1.0) for t in traces(count, rows, seed, **options).traces]


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("seed", range(6))
def test_where_nothing_goes_wrong_it_is_the_reliable_cluster_bit_for_bit(
    scheduler: str, seed: int
) -> None:
    curves = made_up(11, 6, seed, ends=ENDS, equal=seed % 2 == 0)
    costs = {"start_s": 0.7, "save_s": 0.2 * (seed % 3), "load_s": 0.4}
    of = fleet([{"count": 2, "speed": 2.0, "name": "new"}, {"name": "old"}], costs=costs)
    same, _ = run_curves(scheduler, curves, 6, Cluster(3, (2.0, 2.0, 1.0), **costs))
    found, _ = run_on(scheduler, curves, 6, of)
    assert found == same


STORM: dict[str, Any] = {
    "costs": {"start_s": 0.3, "save_s": 0.1, "load_s": 0.2, "hand_over_s": 0.05},
    "store": {"bandwidth_mb_per_s": 10.0, "checkpoint_mb": 3.0},
    "stragglers": {"probability": 0.3, "slowdown": 3.0},
    "maintenance": [{"from_s": 4.0, "to_s": 6.0, "nodes": [0], "notice_s": 1.0}],
    "scale": [{"at_s": 3.0, "kind": "spot", "count": 4}, {"at_s": 9.0, "kind": "spot", "count": 1}],
}
KINDS: list[dict[str, Any]] = [
    {"name": "own", "count": 2, "failures": {"mean_time_between_s": 9.0, "repair_s": 1.0}},
    {"name": "spot", "count": 3, "speed": 1.5, "boot_s": 0.2,
     "spot": {"mean_time_between_s": 5.0, "notice_s": 0.6, "return_s": 0.5}},
]  # fmt: skip


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("seed", range(25))
def test_in_a_storm_the_books_are_right_and_no_trial_is_lost(scheduler: str, seed: int) -> None:
    curves = made_up(12, 5, seed, ends=ENDS)
    found, world = run_on(scheduler, curves, 5, fleet(KINDS, **STORM), seed)
    check(found)
    assert all(trial.fate != "lost" for trial in found.trials)
    again, _ = run_on(scheduler, curves, 5, fleet(KINDS, **STORM), seed)
    assert again == found
    if found.node_seconds["redo"]:
        assert world.lost_nodes > 0
