"""A cluster that misbehaves: its books are right, and small cases are as worked out by hand."""

from typing import Any

import msgspec
import pytest
from test_accounting import check
from worlds import ALL, curve, fleet, made_up, run_curves, run_on

from simsched.cluster import Cluster, as_fleet
from simsched.errors import SimschedError
from simsched.retries import Policy

ENDS = ("complete", "diverged", "censored", "complete", "complete")


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


@pytest.mark.parametrize("scheduler", ALL)
def test_twice_the_speed_takes_half_the_time(scheduler: str) -> None:
    curves = made_up(9, 4, 3)
    even = [msgspec.structs.replace(c, times_us=[t - t % 2 for t in c.times_us]) for c in curves]
    slow, _ = run_on(scheduler, even, 4, fleet([{"count": 3}]))
    fast, _ = run_on(scheduler, even, 4, fleet([{"count": 3, "speed": 2.0}]))
    assert fast.wall_time_s == slow.wall_time_s / 2
    assert [i._replace(start_us=2 * i.start_us, end_us=2 * i.end_us)
            for i in fast.timeline.intervals] == list(slow.timeline.intervals)  # fmt: skip


def test_what_cannot_end_is_said() -> None:
    never = fleet([{"failures": {"outages": [{"node": 0, "from_s": 0.5, "to_s": 0.7}]}}],
                  scale=[{"at_s": 0.6, "count": 0}])  # fmt: skip
    one = [curve(0, [2_000_000], [1.0])]
    with pytest.raises(SimschedError, match="no node will ever be in service again"):
        run_on("random", one, 1, never)
    hopeless = fleet([{"failures": {"mean_time_between_s": 0.02}}])
    with pytest.raises(SimschedError, match="trial 0 was started 10,000 times"):
        run_on("random", one, 1, hopeless)


@pytest.mark.parametrize("speeds", [(1.0,), (1.0, 2.0), (2.0, 2.0, 0.5)])
def test_a_plain_cluster_as_a_fleet_has_the_same_speeds(speeds: tuple[float, ...]) -> None:
    cluster = Cluster(7, speeds)
    fleet = as_fleet(cluster)
    assert fleet.size == 7
    assert [fleet.kind_of(n)[0].speed for n in range(7)] == [cluster.speed(n) for n in range(7)]
    assert len(as_fleet(Cluster(10_000)).nodes) == 1  # each kind is looked through for a node
