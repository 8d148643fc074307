"""A cluster that misbehaves, against what can be worked out by hand or by a formula."""

import math
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from test_accounting import check
from worlds import ALL, curve, run_curves, traces

from simsched.checkpointing import daly_s, lost_s, parse_saving, young_s
from simsched.cluster import CheckpointStore, Cluster, Fleet
from simsched.coordinator import NO_POLICY
from simsched.errors import SimschedError
from simsched.outages import outages
from simsched.replay import Curve, Neighbours, curve_of
from simsched.results import RunResult
from simsched.retries import Policy
from simsched.run_result import make_result
from simsched.schedulers import Plan, build
from simsched.searchers import Given
from simsched.shared_store import SharedStore
from simsched.space import PUBLISHED_GA3C
from simsched.unreliable import UnreliableCluster

ENDS = ("complete", "diverged", "censored", "complete", "complete")


def fleet(nodes: Any = 1, **tables: Any) -> Fleet:
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


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("seed", range(10))
def test_lazy_preemption_and_saves_in_mid_phase_keep_the_books_right(
    scheduler: str, seed: int
) -> None:
    curves = made_up(12, 5, seed, ends=ENDS)
    policy = Policy(lazy=seed % 2 == 0, save_every_us=400_000 if seed % 3 else None)
    for of in (fleet(3, costs=STORM["costs"]), fleet(KINDS, **STORM)):
        found, _ = run_on(scheduler, curves, 5, of, seed, policy)
        check(found)
        assert all(trial.fate != "lost" for trial in found.trials)


def test_a_lost_node_by_hand() -> None:
    """One node, one trial of three milestones a second apart; the node fails at 1.5 s for 1 s."""
    of = fleet(
        [{"failures": {"outages": [{"node": 0, "from_s": 1.5, "to_s": 2.5}]}}],
        costs={"start_s": 0.25, "load_s": 0.125},
    )
    one = [curve(0, [1_000_000, 2_000_000, 3_000_000], [1.0, 2.0, 3.0])]
    found, world = run_on("random", one, 3, of)
    # Nothing was saved: it starts again, and the 1.25 s it had are trained anew.
    spans = [(i.kind, i.start_us, i.end_us) for i in found.timeline.intervals]
    assert spans == [
        ("start", 0, 250_000),
        ("train", 250_000, 1_250_000),
        ("train", 1_250_000, 1_500_000),
        ("down", 1_500_000, 2_500_000),
        ("start", 2_500_000, 2_750_000),
        ("redo", 2_750_000, 4_000_000),
        ("train", 4_000_000, 4_750_000),
        ("train", 4_750_000, 5_750_000),
    ]
    assert [m.at_s for m in found.trials[0].curve] == [1.25, 4.75, 5.75]
    assert world.lost_nodes == 1
    assert found.node_hours == pytest.approx(4.75 / 3600)
    assert found.utilization == pytest.approx(3.0 / 4.75)


def test_saved_at_milestones_only_the_rest_is_trained_again() -> None:
    of = fleet(
        [{"failures": {"outages": [{"node": 0, "from_s": 1.75, "to_s": 2.0}]}}],
        costs={"save_s": 0.25, "load_s": 0.125},
    )
    one = [curve(0, [1_000_000, 2_000_000], [1.0, 2.0])]
    found, _ = run_on("random", one, 2, of, policy=Policy(save_at="milestone"))
    spans = [(i.kind, i.start_us, i.end_us) for i in found.timeline.intervals]
    assert spans == [
        ("train", 0, 1_000_000),
        ("save", 1_000_000, 1_250_000),
        ("train", 1_250_000, 1_750_000),
        ("down", 1_750_000, 2_000_000),
        ("load", 2_000_000, 2_125_000),
        ("redo", 2_125_000, 2_625_000),
        ("train", 2_625_000, 3_125_000),
        ("save", 3_125_000, 3_375_000),
    ]


def test_a_notice_that_is_long_enough_loses_nothing() -> None:
    """Two nodes; the first goes at 1 s with 0.5 s notice, a save takes 0.25 s."""
    of = fleet(
        [{"count": 2}],
        maintenance=[{"from_s": 1.0, "to_s": 9.0, "nodes": [0], "notice_s": 0.5}],
        costs={"save_s": 0.25},
    )
    one = [curve(0, [2_000_000], [1.0])]
    found, world = run_on("random", one, 1, of)
    spans = [(i.node, i.kind, i.start_us, i.end_us) for i in found.timeline.intervals]
    assert spans == [
        (0, "train", 0, 500_000),
        (0, "save", 500_000, 750_000),
        (0, "grace", 750_000, 1_000_000),
        (0, "down", 1_000_000, 2_250_000),
        (1, "idle", 0, 750_000),
        (1, "train", 750_000, 2_250_000),
    ]
    assert world.lost_nodes == 0


def test_a_notice_that_is_too_short_loses_what_was_not_saved() -> None:
    of = fleet(
        [{"count": 2}],
        maintenance=[{"from_s": 1.0, "to_s": 9.0, "nodes": [0], "notice_s": 0.125}],
        costs={"save_s": 0.25},
    )
    one = [curve(0, [2_000_000], [1.0])]
    found, world = run_on("random", one, 1, of)
    spans = [(i.node, i.kind, i.start_us, i.end_us) for i in found.timeline.intervals]
    assert spans[:3] == [(0, "train", 0, 875_000), (0, "save", 875_000, 1_000_000),
                         (0, "down", 1_000_000, 3_000_000)]  # fmt: skip
    assert spans[4:] == [(1, "redo", 1_000_000, 1_875_000), (1, "train", 1_875_000, 3_000_000)]
    assert world.lost_nodes == 1


@pytest.mark.parametrize("together", [1, 2, 5, 8])
def test_a_storm_of_loads_divides_the_store(together: int) -> None:
    """Closed form: k transfers that begin together, alone, all end after k times one's time."""
    of = fleet([{"count": 8}], store={"bandwidth_mb_per_s": 4.0, "checkpoint_mb": 2.0})
    env = simpy.Environment(initial_time=0)
    store = SharedStore(env, of.store)
    ends: list[int] = []

    def one() -> Any:
        yield from store.transfer()
        ends.append(env.now)

    for _ in range(together):
        env.process(one())
    env.run()
    assert ends == [together * 500_000] * together


@given(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=12))
def test_the_store_is_processor_sharing(begins: list[int]) -> None:
    """Against a naive integration over the moments at which the number of transfers changes."""
    alone_us = 700_000
    left = dict.fromkeys(range(len(begins)), float(alone_us))
    expected: dict[int, float] = {}
    now = 0.0
    while left:
        there = [k for k in left if begins[k] <= now]
        coming = [begins[k] for k in left if begins[k] > now]
        until = min(coming, default=float("inf"))
        if there:
            until = min(until, now + min(left[k] for k in there) * len(there))
        for k in there:
            left[k] -= (until - now) / len(there)
            if left[k] <= 1e-6:
                del left[k]
                expected[k] = until
        now = until
    env = simpy.Environment(initial_time=0)
    store = SharedStore(env, CheckpointStore(bandwidth_mb_per_s=1.0, checkpoint_mb=0.7))
    found: dict[int, int] = {}

    def one(k: int) -> Any:
        yield env.timeout(begins[k])
        yield from store.transfer()
        found[k] = env.now

    for k in range(len(begins)):
        env.process(one(k))
    env.run()
    for k, at in expected.items():
        assert abs(found[k] - at) <= 2 * len(begins), (k, found[k], at)


@pytest.mark.parametrize("scheduler", ALL)
def test_twice_the_speed_takes_half_the_time(scheduler: str) -> None:
    curves = made_up(9, 4, 3)
    even = [msgspec.structs.replace(c, times_us=[t - t % 2 for t in c.times_us]) for c in curves]
    slow, _ = run_on(scheduler, even, 4, fleet([{"count": 3}]))
    fast, _ = run_on(scheduler, even, 4, fleet([{"count": 3, "speed": 2.0}]))
    assert fast.wall_time_s == slow.wall_time_s / 2
    assert [i._replace(start_us=2 * i.start_us, end_us=2 * i.end_us)
            for i in fast.timeline.intervals] == list(slow.timeline.intervals)  # fmt: skip


@pytest.mark.parametrize("saving", ["every:20s", "young:200s", "daly:200s"])
def test_what_a_failure_costs_is_what_the_formula_says(saving: str) -> None:
    """Training that is done again, per failure, over some 4,000 failures of one long trial."""
    save_s, between_s = 2.0, 200.0
    interval_us = parse_saving(saving).interval_us(save_s, between_s)
    assert interval_us is not None
    of = fleet(
        [{"count": 40, "failures": {"mean_time_between_s": between_s}}], costs={"save_s": save_s}
    )
    curves = [curve(k, [20_000_000_000], [1.0]) for k in range(40)]
    found, world = run_on("random", curves, 1, of, policy=Policy(save_every_us=interval_us))
    assert world.lost_nodes > 3500
    expected = lost_s(interval_us / 1e6, save_s, between_s)
    assert found.node_seconds["redo"] / world.lost_nodes == pytest.approx(expected, rel=0.02)


def test_what_a_failure_costs_where_milestones_are_saved() -> None:
    """Milestones 20 s apart, a save of 2 s at each: the same formula."""
    save_s, between_s, apart_s = 2.0, 200.0, 20.0
    of = fleet(
        [{"count": 40, "failures": {"mean_time_between_s": between_s}}], costs={"save_s": save_s}
    )
    times = [round(apart_s * 1e6) * k for k in range(1, 1001)]
    curves = [curve(k, times, [1.0] * 1000) for k in range(40)]
    policy = Policy(save_at="milestone")
    found, world = run_on("random", curves, 1000, of, policy=policy)
    assert world.lost_nodes > 3500
    expected = lost_s(apart_s, save_s, between_s)
    assert found.node_seconds["redo"] / world.lost_nodes == pytest.approx(expected, rel=0.02)


def test_what_a_failure_costs_where_nothing_is_saved() -> None:
    """A failure loses all that a trial had, so it is an interval as long as the trial."""
    between_s, length_s = 200.0, 300.0
    of = fleet([{"count": 20, "failures": {"mean_time_between_s": between_s}}])
    curves = [curve(k, [round(length_s * 1e6)], [1.0]) for k in range(3000)]
    found, world = run_on("random", curves, 1, of)
    assert world.lost_nodes > 5000
    expected = lost_s(length_s, 0.0, between_s)
    assert lost_of(found) / world.lost_nodes == pytest.approx(expected, rel=0.02)


def lost_of(run: RunResult) -> float:
    """Training that came to nothing: all there was but what the trials' curves are long."""
    useful_s = sum(300.0 for trial in run.trials if trial.fate == "finished")
    return run.node_seconds["train"] + run.node_seconds["redo"] - useful_s


def test_the_formulas_where_they_are_known() -> None:
    assert young_s(2.0, 400.0) == 40.0
    # Daly (2006): for small C/M the higher order adds to Young's, less C.
    assert daly_s(1e-9, 1.0) == pytest.approx(young_s(1e-9, 1.0), rel=1e-4)
    assert daly_s(5.0, 2.0) == 2.0
    # Saves that cost nothing: half an interval is lost where failures are rare.
    assert lost_s(1.0, 0.0, 1e5) == pytest.approx(0.5, rel=1e-4)
    # The interval with the least overhead, found by search, is near Daly's.
    save, mean = 5.0, 300.0

    def overhead(interval: float) -> float:  # Daly's total time per unit of work, up to a factor
        return math.expm1((interval + save) / mean) / interval

    best = min(np.linspace(10, 120, 2201), key=overhead)
    assert daly_s(save, mean) == pytest.approx(best, rel=0.01)


@pytest.mark.parametrize(("distribution", "shape"), [("exponential", 1.0), ("weibull", 0.6),
                                                     ("weibull", 2.0)])  # fmt: skip
def test_times_between_failures_have_their_mean(distribution: str, shape: float) -> None:
    failures = {"mean_time_between_s": 50.0, "distribution": distribution, "shape": shape,
                "repair_s": 10.0, "repair": "exponential"}  # fmt: skip
    of = fleet([{"failures": failures}])
    ups, downs, back = [], [], 0
    for outage in islice(outages(of, 0, 7), 20_000):
        ups.append(outage.down_us - back)
        assert outage.up_us is not None
        downs.append(outage.up_us - outage.down_us)
        back = outage.up_us
    assert np.mean(ups) / 1e6 == pytest.approx(50.0, rel=0.05)
    assert np.mean(downs) / 1e6 == pytest.approx(10.0, rel=0.03)


def test_what_cannot_end_is_said() -> None:
    never = fleet([{"failures": {"outages": [{"node": 0, "from_s": 0.5, "to_s": 0.7}]}}],
                  scale=[{"at_s": 0.6, "count": 0}])  # fmt: skip
    one = [curve(0, [2_000_000], [1.0])]
    with pytest.raises(SimschedError, match="no node will ever be in service again"):
        run_on("random", one, 1, never)
    hopeless = fleet([{"failures": {"mean_time_between_s": 0.02}}])
    with pytest.raises(SimschedError, match="trial 0 has lost its node 10,000 times"):
        run_on("random", one, 1, hopeless)
