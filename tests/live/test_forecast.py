"""How much longer a search takes: true where the future is known, and never an error."""

import logging
import unittest
from collections.abc import Sequence

import numpy as np
import pytest
from forecast_rig import COSTS, HPARAMS, WORKERS, one_trial, predicted, rows_of, settings
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from simsched.cluster import Cluster
from simsched.live.extended import SoFar
from simsched.live.forecast import Costs, Forecaster
from simsched.live.settings import LiveSettings
from simsched.own_curves import OwnCurves
from simsched.replay import Curve
from simsched.schedulers import REGISTRY, build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.timeline import Timeline


def truth(plan: LiveSettings, tables: Sequence[np.ndarray], costs: Costs = COSTS) -> Timeline:
    """Simulate the search to its end along these rows."""
    curves = [
        Curve(
            trial, HPARAMS[trial], "complete",
            tuple(np.rint(table[:, 0] * 1e6).astype(int).tolist()),
            tuple(table[:, 1].tolist()), tuple(table[:, 3].tolist()),
        )
        for trial, table in enumerate(tables)
    ]  # fmt: skip
    searcher = Given(HPARAMS[: len(curves)], plan.search_space, plan.seed)
    world = SimulatedCluster(
        build(plan.scheduler, plan.plan, searcher),
        curves,
        OwnCurves(curves),  # type: ignore[arg-type]
        Cluster(plan.nodes, start_s=costs.start_s, save_s=costs.save_s, load_s=costs.load_s),
        plan.plan.maximum,
    )
    return world.run()


def so_far(timeline: Timeline, tables: Sequence[np.ndarray], at_us: float) -> dict[int, SoFar]:
    """Cut the rows where the trials were at a time."""
    spent_us: dict[int, int] = {}
    for interval in timeline.intervals:
        if interval.trial >= 0 and interval.start_us < at_us:
            spent_us.setdefault(interval.trial, 0)
            if interval.kind == "train":
                spent_us[interval.trial] += int(min(interval.end_us, at_us)) - interval.start_us
    trials = {}
    for trial, us in spent_us.items():
        table = tables[trial]
        rows = table[table[:, 0] <= us / 1e6 + 1e-6]
        before = np.vstack([np.zeros((1, 4)), table])
        steps = float(np.interp(us / 1e6, before[:, 0], before[:, 1]))
        trials[trial] = SoFar(rows=rows, counters=(us / 1e6, steps, float(len(rows))))
    return trials


@pytest.mark.parametrize("scheduler", sorted(REGISTRY))
def test_a_search_that_is_over_has_no_time_left(scheduler: str) -> None:
    plan, tables = settings(scheduler=scheduler), [rows_of(trial) for trial in range(WORKERS)]
    timeline = truth(plan, tables)
    end_s = timeline.end_us / 1e6
    found = predicted(plan, so_far(timeline, tables, timeline.end_us), end_s)
    assert found.time_left_s == pytest.approx(0.0, abs=1e-4)
    assert found.progress == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("scheduler", sorted(REGISTRY))
def test_towards_the_end_little_is_left_to_guess(scheduler: str) -> None:
    plan, tables = settings(scheduler=scheduler), [rows_of(trial) for trial in range(WORKERS)]
    timeline = truth(plan, tables)
    end_s = timeline.end_us / 1e6
    errors = [
        predicted(plan, so_far(timeline, tables, share * timeline.end_us), share * end_s)
        .predicted_wall_time_s / end_s - 1
        for share in (0.9, 0.95, 0.98)
    ]  # fmt: skip
    assert max(map(abs, errors)) < 0.06


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.8])
def test_where_all_trials_train_alike_the_forecast_is_right_from_the_first_rows_on(
    share: float,
) -> None:
    plan, tables = settings(), [rows_of(trial, pace_s=0.2) for trial in range(WORKERS)]
    timeline = truth(plan, tables)
    end_s = timeline.end_us / 1e6
    found = predicted(plan, so_far(timeline, tables, share * timeline.end_us), share * end_s)
    assert found.predicted_wall_time_s == pytest.approx(end_s, rel=0.01)
    assert found.progress == pytest.approx(share, rel=0.01)


def test_time_that_was_lost_does_not_shorten_what_is_left() -> None:
    plan, tables = settings(), [rows_of(trial, pace_s=0.2) for trial in range(WORKERS)]
    timeline = truth(plan, tables)
    half_s = timeline.end_us / 2e6
    trials = so_far(timeline, tables, timeline.end_us / 2)
    usual, late = predicted(plan, trials, half_s), predicted(plan, trials, half_s + 1000)
    # All workers may have just started, or be about to: nobody can tell.
    assert late.time_left_s == pytest.approx(usual.time_left_s, abs=COSTS.start_s + 1)
    assert late.predicted_wall_time_s == pytest.approx(half_s + 1000 + late.time_left_s)


def test_costs_are_what_was_measured() -> None:
    plan, trials = one_trial()
    assert predicted(plan, trials, 13.0).time_left_s == pytest.approx(30.0)
    # The policy to save at every milestone: after each phase, the last too.
    plan, trials = one_trial(checkpoints="milestone")
    assert predicted(plan, trials, 13.0).time_left_s == pytest.approx(30.0 + 4 * COSTS.save_s)
    assert predicted(plan, trials, 10.0, Costs()).time_left_s == pytest.approx(30.0)


def test_a_search_is_cut_off_at_its_longest_time() -> None:
    plan, trials = one_trial(max_time_s=20.0)
    found = predicted(plan, trials, 13.0)
    assert (found.time_left_s, found.predicted_wall_time_s) == (7.0, 20.0)
    assert predicted(plan, trials, 21.0).time_left_s == 0.0


def test_the_recent_pace_goes_on_not_the_mean_of_all_time() -> None:
    plan, _ = one_trial()
    table = rows_of(0, pace_s=0.2)[:20]
    table[:, 0] = [*np.arange(1, 11) * 9.0, *(90 + np.arange(1, 11) * 1.0)]  # 9 s a row, then 1 s
    found = predicted(plan, {0: SoFar(rows=table)}, 103.0)
    assert found.time_left_s == pytest.approx(20.0)


def test_a_worker_that_is_late_with_its_next_row_is_not_taken_for_fast() -> None:
    plan, trials = one_trial()
    late = {0: SoFar(rows=trials[0].rows, counters=(25.0, 50, 10))}  # 15 s since the last row
    # 150 steps to go at 0.2 s; the first row of 5 is due at once.
    assert predicted(plan, late, 28.0).time_left_s == pytest.approx(29.0)


def test_what_the_scheduler_stopped_is_trained_on_where_that_is_wanted() -> None:
    tables = [rows_of(trial, pace_s=0.2) for trial in range(WORKERS)]
    plan = settings(scheduler="hypertrick", nodes=1)
    timeline = truth(plan, tables)
    trials = so_far(timeline, tables, timeline.end_us)
    end_s = timeline.end_us / 1e6
    search = predicted(plan, trials, end_s)
    assert search.time_left_s == pytest.approx(0.0, abs=1e-4)
    seconds = [trial.counters[0] for trial in trials.values() if trial.counters is not None]
    trained_s, stopped = sum(seconds), sum(each < 39.9 for each in seconds)
    assert stopped > 2
    whole = predicted(settings(scheduler="hypertrick", nodes=1, complete=True), trials, end_s)
    missing_s = WORKERS * 40.0 - trained_s
    assert whole.time_left_s == pytest.approx(missing_s + stopped * 3.25, abs=0.01)


@pytest.mark.parametrize("into_s", [1.0, 10.0, 19.0])
def test_time_goes_by_while_workers_start(into_s: float) -> None:
    """One node, two trials: the first is done, the worker of the second starts for 20 s."""
    trials = {0: SoFar(rows=rows_of(0, pace_s=0.2)), 1: SoFar(rows=[])}
    plan, costs = settings(nodes=1, workers=2), Costs(start_s=20.0)
    left = predicted(plan, trials, 60.0 + into_s, costs).time_left_s
    assert left == pytest.approx(20.0 - into_s + 40.0)
    # Nobody knows what a lost hour was lost on: the worker is about to be there.
    assert predicted(plan, trials, 3600.0, costs).time_left_s == pytest.approx(40.0, abs=0.3)


def test_fewer_nodes_take_longer() -> None:
    plan, tables = settings(), [rows_of(trial, pace_s=0.2) for trial in range(WORKERS)]
    timeline = truth(plan, tables)
    trials = so_far(timeline, tables, timeline.end_us / 4)
    three, one = (predicted(plan, trials, 50.0, nodes=nodes).time_left_s for nodes in (3, 1))
    assert one > 2.5 * three


def test_nothing_to_go_by_is_no_forecast() -> None:
    plan = settings()
    forecaster = Forecaster(plan, HPARAMS)
    nothing = rows_of(0)[:0]
    for trials in (
        {},
        {0: SoFar(rows=[])},
        {0: SoFar(rows=nothing, counters=(5.0, 40, 0))},
        {0: SoFar(rows=nothing, ended="diverged")},
        {0: SoFar(rows=rows_of(0)[:3], ended="lost")},
        {0: SoFar(rows=[[1.0, 0, 0, 5.0]])},  # steps are not counted at all
    ):
        assert forecaster.forecast(trials, COSTS, 5.0) is None


def test_what_goes_wrong_inside_is_said_once_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forecaster = Forecaster(settings(), HPARAMS[:2])
    trials = {0: SoFar(rows=rows_of(0)[:5]), 7: SoFar(rows=rows_of(7)[:5])}  # of two trials
    with caplog.at_level(logging.WARNING):
        assert forecaster.forecast(trials, COSTS, 5.0) is None
        assert forecaster.forecast(trials, COSTS, 6.0) is None
    assert [record.getMessage() for record in caplog.records] == ["time left cannot be forecast"]


def test_forecasts_take_one_hundredth_of_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([10.0, 10.25, 20.0, 20.001])
    monkeypatch.setattr("simsched.live.forecast.time.thread_time", lambda: next(now_s))
    plan, trials = one_trial()
    forecaster = Forecaster(plan, HPARAMS[:1])
    assert forecaster.next_in_s == 0.0
    assert forecaster.forecast(trials, COSTS, 13.0) is not None
    assert forecaster.next_in_s == pytest.approx(25.0)
    assert forecaster.forecast(trials, COSTS, 13.0) is not None
    assert forecaster.next_in_s == 1.0


NUMBER = st.one_of(
    st.floats(0, 300).map(lambda value: round(value, 3)),
    st.integers(0, 300).map(float),
    st.floats(-5, 1e9).map(lambda value: round(value, 3)),
    st.just(float("nan")),
)
SCORE = st.floats(-1e100, 1e100) | st.sampled_from([float("nan"), float("inf")])
ROWS = st.lists(st.tuples(NUMBER, NUMBER, NUMBER, SCORE), max_size=12)
STATES = st.dictionaries(
    st.integers(0, 5),
    st.builds(
        SoFar,
        rows=ROWS,
        counters=st.none() | st.tuples(st.floats(0, 500), st.integers(0, 400), st.just(0)),
        ended=st.sampled_from([None, None, "diverged", "lost"]),
    ),
)


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    trials=STATES,
    scheduler=st.sampled_from(sorted(REGISTRY)),
    unit=st.sampled_from(["steps", "episodes", "seconds", "reports"]),
    nodes=st.integers(1, 8),
    complete=st.booleans(),
    elapsed_s=st.floats(0, 1e5),
)
def test_no_state_however_odd_is_an_error(
    trials: dict[int, SoFar],
    scheduler: str,
    unit: str,
    nodes: int,
    complete: bool,
    elapsed_s: float,
) -> None:
    plan = settings(workers=6, scheduler=scheduler, unit=unit, complete=complete, phase_length=20)
    with unittest.TestCase().assertNoLogs("simsched.live.forecast"):
        found = Forecaster(plan, HPARAMS[:6]).forecast(trials, COSTS, elapsed_s, nodes)
    if found is not None:
        assert np.isfinite([found.time_left_s, found.predicted_wall_time_s]).all()
        assert found.time_left_s >= 0
        assert 0 <= found.progress <= 1
