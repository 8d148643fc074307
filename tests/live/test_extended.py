"""Curves of trials that are not over: what they did goes on, and what they have not is borrowed."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pytest
from forecast_rig import HPARAMS, WORKERS, one_trial, predicted, rows_of, settings

from simsched.live.extended import SoFar, extended_curves
from simsched.live.settings import LiveSettings
from simsched.replay import Curve


def extended(plan: LiveSettings, trials: Mapping[int, SoFar]) -> list[Curve]:
    found = extended_curves(plan, HPARAMS[: plan.workers], trials)
    assert found is not None
    return found.curves


def test_a_trial_that_is_over_is_not_extended() -> None:
    plan = settings(workers=4, nodes=4)
    rows = rows_of(0, pace_s=0.2)
    trials = {
        0: SoFar(rows=rows),
        1: SoFar(rows=rows[:7], counters=(7.5, 37, 7), ended="diverged"),
        2: SoFar(rows=rows[:9], counters=(9.5, 48, 9), ended="lost"),
        3: SoFar(rows=rows[:0], ended="diverged"),
    }
    curves = extended(plan, trials)
    assert [curve.end for curve in curves] == ["complete", "diverged", "censored", "diverged"]
    assert [curve.length for curve in curves] == [200, 37, 48, 0]
    assert [len(curve.scores) for curve in curves] == [40, 7, 9, 0]
    assert predicted(plan, trials, 43.0).time_left_s == pytest.approx(0.0, abs=1e-4)


def test_rows_that_were_trained_again_count_once() -> None:
    plan, _ = one_trial()
    rows = rows_of(0, pace_s=0.2)
    again = rows[4:10] + np.array([0.0, 0, 0, 1.0])
    curves = extended(plan, {0: SoFar(rows=[*rows[:8], *again])})
    assert curves[0].counts[:10] == tuple(rows[:10, 1])
    assert curves[0].scores[:10] == (*rows[:4, 3], *again[:, 3])


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize(
    ("unit", "length", "counts"),
    [("steps", 50, 5.0), ("episodes", 10, 1.0), ("seconds", 10, 1.0), ("reports", 10, 1.0)],
)
def test_curves_go_on_in_every_unit(
    unit: str, length: int, counts: float, mode: Literal["max", "min"]
) -> None:
    plan = settings(unit=unit, phase_length=length, mode=mode, workers=2)
    rows = rows_of(0, pace_s=0.2)[:15]  # a row every second
    own, borrowed = extended(plan, {0: SoFar(rows=rows)})
    assert own.counts == pytest.approx([counts * row for row in range(1, 41)])
    assert own.times_us == pytest.approx([1_000_000 * row for row in range(1, 41)])
    sign = 1 if mode == "max" else -1
    assert own.scores[:15] == tuple(sign * rows[:, 3])
    # The second half of what there is, as it is shorter than a phase.
    assert own.scores[15:] == pytest.approx([sign * rows[7:, 3].mean()] * 25)
    assert (borrowed.counts, borrowed.times_us) == (own.counts, own.times_us)
    assert borrowed.hparams == HPARAMS[1]
    moved = np.subtract(borrowed.scores, own.scores)
    assert moved == pytest.approx(moved[0])
    assert moved[0] != 0


def test_what_a_trial_borrows_changes_only_when_a_new_curve_outdraws_the_old_one() -> None:
    plan = settings(workers=WORKERS)
    lengths = {trial: 20 + trial for trial in range(6)}
    trials = {t: SoFar(rows=rows_of(t, pace_s=0.1 * (t + 1))[:n]) for t, n in lengths.items()}
    few = extended(plan, {trial: trials[trial] for trial in range(5)})
    more = extended(plan, trials)
    changed = [t for t in range(6, WORKERS) if few[t].times_us != more[t].times_us]
    assert all(more[t].times_us == more[5].times_us for t in changed)
    assert len({few[t].times_us for t in range(6, WORKERS)}) > 1


def test_very_long_curves_are_averaged_in_neighbours() -> None:
    plan = settings(workers=1, phase_length=25_000)
    rows = rows_of(0, 10_000, pace_s=0.2)
    curves = extended(plan, {0: SoFar(rows=rows)})
    assert len(curves[0].counts) < 2000
    assert curves[0].counts[999] == 50_000  # ten rows each
    assert curves[0].scores[999] == pytest.approx(rows[-10:, 3].mean())
