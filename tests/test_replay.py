"""How a milestone falls on rows, and how a trial goes on along a neighbour's curve."""

import math

import numpy as np
import pytest

from simsched.errors import SimschedError
from simsched.replay import Borrowed, Cursor, Curve, Neighbours, curve_of
from simsched.space import Real, SearchSpace
from simsched.traces import Trace

SPACE = SearchSpace({"lr": Real(1e-4, 1e-2, log=True)})


def steps_curve(end: str = "complete", lr: float = 1e-3, trace: int = 0) -> Curve:
    """Episodes that end at 10, 25, 25 and 60 steps; the last row, without score, at 70."""
    return Curve(
        trace, {"lr": lr}, end, [1, 2, 3, 6, 7], [10, 25, 25, 60, 70], [1.0, 2.0, 6.0, 9.0]
    )  # type: ignore[arg-type]


def test_a_milestone_falls_on_the_first_row_at_or_past_it() -> None:
    cursor = Cursor(steps_curve(), 0)
    first = cursor.advance(20)
    assert (first.duration_us, first.score, first.reached) == (2, 1.5, 25)
    # Of the two episodes that ended at 25 steps the second counts for the next milestone.
    second = cursor.advance(40)
    assert (second.duration_us, second.score, second.reached) == (4, 7.5, 60)
    # The count is past 50 already: no time passes and the last score stands.
    third = cursor.advance(50)
    assert (third.duration_us, third.score, third.reached) == (0, 7.5, 60)
    # Only the last row, which has no score, is left.
    fourth = cursor.advance(70)
    assert (fourth.duration_us, fourth.score, fourth.outcome) == (1, 7.5, "milestone")


def test_a_complete_curve_is_never_extrapolated() -> None:
    with pytest.raises(SimschedError) as error:
        Cursor(steps_curve(), 0).advance(71)
    assert str(error.value) == (
        "recorded trial 0 ends at 70, before the milestone at 71; ask for fewer or shorter phases"
    )


def test_a_diverged_curve_diverges_at_its_end() -> None:
    cursor = Cursor(steps_curve("diverged"), 0)
    assert cursor.advance(60).outcome == "milestone"
    leg = cursor.advance(65)
    assert (leg.duration_us, leg.outcome, leg.score) == (1, "diverged", None)


def test_a_censored_curve_ends_the_trial() -> None:
    cursor = Cursor(steps_curve("censored"), 0)
    assert cursor.advance(70).outcome == "milestone"
    assert cursor.advance(71).outcome == "censored"


def test_curve_of_a_trace_in_every_unit() -> None:
    trace = Trace(
        trial=3,
        hparams={"lr": 1e-3},
        end="complete",
        seconds=np.array([0.5, 1.25, 1.5]),
        steps=np.array([10, 20, 30]),
        episodes=np.array([1, 2, 2]),
        score=np.array([5.0, -1.0, math.nan]),
    )
    assert curve_of(trace, "steps", 1.0).counts == (10, 20, 30)
    assert curve_of(trace, "episodes", 1.0).counts == (1, 2, 2)
    assert curve_of(trace, "seconds", 1.0).counts == (0.5, 1.25, 1.5)
    assert curve_of(trace, "reports", 1.0).counts == (1, 2, 2)
    assert curve_of(trace, "steps", -1.0).scores == (-5.0, 1.0)
    assert curve_of(trace, "steps", 1.0).times_us == (500_000, 1_250_000, 1_500_000)


def made(trace: int, lr: float, scores: list[float], end: str = "complete") -> Curve:
    rows = range(1, len(scores) + 1)
    us = [row * 100 for row in rows]
    return Curve(trace, {"lr": lr}, end, us, [row * 10 for row in rows], scores)  # type: ignore[arg-type]


def test_an_exploit_goes_on_along_the_nearest_curve_from_the_donors_score_on() -> None:
    slow = made(0, 1e-4, [0, 1, 2, 3, 4, 5])
    fast = made(1, 1e-2, [0, 10, 20, 30, 40, 50])
    neighbours = Neighbours([slow, fast], SPACE, phase_length=10)
    # lr 2e-3 is nearer to 1e-2 than to 1e-4 in its logarithm.
    cursor = neighbours.enter(7, {"lr": 2e-3}, step=20, score=20.0, own=slow)
    assert cursor.curve is fast
    assert cursor.row == 2  # where it first reaches 20
    leg = cursor.advance(30)
    assert (leg.duration_us, leg.score) == (100, 30.0)
    assert neighbours.summary() == {
        "exploits": 1.0,
        "own_curve_share": 0.0,
        "mean_distance": pytest.approx(math.log(5) / math.log(100)),
    }


def test_a_neighbour_that_never_gets_there_is_entered_at_its_best_point() -> None:
    slow = made(0, 1e-4, [0, 1, 7, 3, 4, 5])
    neighbours = Neighbours([slow], SPACE, phase_length=10)
    assert neighbours.enter(1, {"lr": 1e-4}, 10, 100.0, slow).row == 2
    assert neighbours.summary()["own_curve_share"] == 1.0


def test_smoothing_is_over_one_phase() -> None:
    # A lucky 9 early on does not count: the mean over three rows reaches 5 only at row 5.
    curve = made(0, 1e-4, [0, 9, 0, 0, 6, 9])
    assert (
        Neighbours([curve], SPACE, phase_length=30).enter(1, {"lr": 1e-4}, 0, 5.0, curve).row == 5
    )


def test_past_the_end_the_last_score_and_the_mean_pace_stand() -> None:
    curve = made(0, 1e-4, [1, 2, 3])  # 10 µs a unit
    cursor = Borrowed(curve, 1, entry=1, step=50, score=2.0)
    first = cursor.advance(65)  # one row is left: 10 of the 15 units
    assert (first.duration_us, first.score) == (100 + 50, 3.0)
    second = cursor.advance(70)
    assert (second.duration_us, second.score, second.outcome) == (50, 3.0, "milestone")


def test_a_neighbour_that_diverged_takes_the_trial_with_it() -> None:
    curve = made(0, 1e-4, [1, 2, 3], "diverged")
    cursor = Borrowed(curve, 1, entry=0, step=50, score=1.0)
    assert cursor.advance(60).outcome == "milestone"
    assert cursor.advance(70).outcome == "diverged"
