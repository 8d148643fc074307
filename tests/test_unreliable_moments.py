"""What happens in one moment, or to a worker that neither trains nor saves, when nodes go."""

import pytest
from worlds import curve, fleet, run_on

from simsched.checkpointing import between_losses_s
from simsched.errors import SimschedError

ONE = [curve(0, [100_000_000, 200_000_000, 300_000_000, 400_000_000], [1.0] * 4)]
"""A trial of four phases of 100 s."""


def test_a_notice_as_long_as_a_save_is_long_enough() -> None:
    of = fleet([{}], maintenance=[{"from_s": 150.0, "to_s": 200.0, "notice_s": 5.0}],
               costs={"save_s": 5.0})  # fmt: skip
    found, world = run_on("random", ONE, 4, of)
    assert world.lost_nodes == 0
    assert found.node_seconds["redo"] == 0
    # 145 s, then 5 s of saving and 50 s of maintenance, then the other 255 s.
    assert found.wall_time_s == pytest.approx(145 + 5 + 50 + 255)


def test_a_worker_that_waits_for_a_word_to_go_on_has_a_milestone_to_save() -> None:
    of = fleet([{}], maintenance=[{"from_s": 125.0, "to_s": 150.0, "notice_s": 20.0}],
               costs={"hand_over_s": 30.0, "save_s": 1.0})  # fmt: skip
    found, world = run_on("random", ONE, 4, of)
    assert world.lost_nodes == 0
    assert found.node_seconds["redo"] == 0
    assert found.node_seconds["save"] == 1
    # The milestone at 100 s; notice and save, at 105 s; from 150 s three phases, two words.
    assert found.wall_time_s == pytest.approx(150 + 300 + 2 * 30)
    first = [(i.kind, i.start_us, i.end_us) for i in found.timeline.intervals][:4]
    assert first == [
        ("train", 0, 100_000_000), ("wait", 100_000_000, 105_000_000),
        ("save", 105_000_000, 106_000_000), ("grace", 106_000_000, 125_000_000),
    ]  # fmt: skip


def test_nodes_that_go_in_one_moment_do_not_take_over_from_each_other() -> None:
    of = fleet([{"count": 30}], maintenance=[{"from_s": 50.0, "to_s": 60.0}])
    found, world = run_on("random", ONE, 4, of)
    assert world.lost_nodes == 1
    assert found.wall_time_s == pytest.approx(60 + 400)


def test_a_node_that_goes_later_takes_over() -> None:
    windows = [{"from_s": 50.0, "to_s": 60.0, "nodes": [0]},
               {"from_s": 51.0, "to_s": 61.0, "nodes": [1]}]  # fmt: skip
    found, world = run_on("random", ONE, 4, fleet([{"count": 2}], maintenance=windows))
    assert world.lost_nodes == 2
    assert found.wall_time_s == pytest.approx(60 + 400)


def test_a_trial_that_is_parked_again_and_again_before_it_trains_cannot_end() -> None:
    of = fleet([{"count": 2, "spot": {"mean_time_between_s": 1.0, "notice_s": 120.0}}],
               costs={"start_s": 60.0})  # fmt: skip
    with pytest.raises(SimschedError, match="was started 10,000 times between two milestones"):
        run_on("random", ONE, 4, of)


def test_the_moment_at_which_the_last_node_went_is_named() -> None:
    of = fleet([{"count": 2}], scale=[{"at_s": 10.0, "count": 0}])
    with pytest.raises(SimschedError, match="after 10 s no node will ever be in service again"):
        run_on("random", ONE, 4, of)


def test_notices_that_are_long_enough_are_no_losses() -> None:
    spot = {"mean_time_between_s": 240.0, "notice_s": 10.0}
    store = {"bandwidth_mb_per_s": 10.0, "checkpoint_mb": 70.0}
    assert between_losses_s(fleet([{"spot": spot}], costs={"save_s": 2.0})) is None
    assert between_losses_s(fleet([{"spot": spot}], costs={"save_s": 10.5})) == 240.0
    # 4 s of saving and 7 s to the store
    assert between_losses_s(fleet([{"spot": spot}], store=store, costs={"save_s": 4.0})) == 240.0


def test_all_schedulers_meet_the_same_stragglers() -> None:
    """One phase, nothing lost: what a trial takes is its own, whoever began before it."""
    of = fleet([{"count": 3}], stragglers={"probability": 0.5, "slowdown": 3.0})
    curves = [curve(k, [10_000_000, 20_000_000], [float(k)] * 2) for k in range(12)]
    took: list[dict[int, int]] = []
    for scheduler in ("random", "successive-halving"):
        found, _ = run_on(scheduler, curves, 2, of)
        first = {i.trial: i.end_us - i.start_us for i in found.timeline.intervals
                 if i.kind == "train" and i.step == 1}  # fmt: skip
        took.append(first)
    assert took[0] == took[1]
    assert set(took[0].values()) == {10_000_000, 30_000_000}
