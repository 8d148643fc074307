"""Means, intervals and rows against closed forms and hand values."""

import math

import pytest
from analysis_runs import comparison, hand_made, search, settings
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from simsched.analysis.statistics import AnalysisError, Interval, mean_interval, summarize
from simsched.results import Comparison


def test_interval_of_three_values_by_hand() -> None:
    # s = 1; with 2 degrees of freedom t(p) = (2p - 1) / √(2p(1 - p)); half = t / √3.
    half = 0.95 / math.sqrt(2 * 0.975 * 0.025) / math.sqrt(3)
    got = mean_interval([1.0, 2.0, 3.0])
    assert got.mean == 2.0
    assert got.n == 3
    assert got.low == pytest.approx(2 - half, rel=1e-12)
    assert got.high == pytest.approx(2 + half, rel=1e-12)
    assert got.spread == pytest.approx(2.4841377118)


def test_interval_of_two_values_has_the_cauchy_quantile() -> None:
    # With one degree of freedom t is Cauchy: its 0.975 quantile is tan(0.475 π).
    got = mean_interval([0.0, 2.0])
    assert got.spread == pytest.approx(math.tan(0.475 * math.pi), rel=1e-9)


def test_one_value_has_no_interval() -> None:
    assert mean_interval([7.5]) == Interval(7.5, None, None, 1)
    assert mean_interval([7.5]).spread is None


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([3.0] * 4) == Interval(3.0, 3.0, 3.0, 4)


def test_no_value_is_refused() -> None:
    with pytest.raises(AnalysisError, match="no values"):
        mean_interval([])


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(-1e3, 1e3))
def test_interval_agrees_with_scipy_and_moves_with_its_values(
    values: list[float], shift: float
) -> None:
    got = mean_interval(values)
    n = len(values)
    mean = sum(values) / n
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    assert got.low is not None
    assert got.low == pytest.approx(mean - t.ppf(0.975, n - 1) * error, rel=1e-6, abs=1e-5)
    moved = mean_interval([value + shift for value in values])
    assert moved.mean == pytest.approx(got.mean + shift, abs=1e-6)
    assert moved.spread == pytest.approx(got.spread, rel=1e-6, abs=1e-6)


def test_a_row_of_one_run_repeats_the_run() -> None:
    run = hand_made()
    (row,) = summarize(Comparison(settings(nodes=(2,), workers=(3,)), (run,)))
    assert (row.scheduler, row.nodes, row.workers, row.replications) == ("hypertrick", 2, 3, 1)
    assert row.wall_time_s.mean == 100
    assert row.utilization.mean == pytest.approx(0.625)
    assert row.occupancy.mean == pytest.approx(0.8)
    assert row.completion_rate.mean == pytest.approx(4 / 6)
    assert row.best_score is not None
    assert row.best_score.mean == 300
    assert row.time_to_best_s is not None
    assert row.time_to_best_s.mean == 95
    assert row.preemptions.mean == 1
    assert row.node_hours.mean == pytest.approx(200 / 3600)
    assert row.wall_time_s.low is None
    flags = (row.approximate, row.order_only, row.resampled, row.synthetic)
    assert not any(flags)


def test_rows_pool_replications_and_keep_the_order_of_the_runs() -> None:
    runs = [
        hand_made(scheduler=name, replication=replication, wall_time_s=100.0 + replication)
        for name in ("zeta", "alpha")
        for replication in range(3)
    ]
    rows = summarize(Comparison(settings(), tuple(runs)))
    assert [row.scheduler for row in rows] == ["zeta", "alpha"]
    assert all(row.replications == 3 for row in rows)
    assert rows[0].wall_time_s.mean == 101
    assert rows[0].wall_time_s.spread == pytest.approx(2.484137711)


def test_clusters_have_rows_of_their_own() -> None:
    rows = summarize(comparison(["a", "b"], nodes=(2, 4), workers=(8, 16)))
    assert len(rows) == 8
    assert len({(row.scheduler, row.nodes, row.workers) for row in rows}) == 8


@pytest.mark.parametrize(
    ("resample", "recorded", "replications", "expected"),
    [(False, 16, 3, True), (True, 16, 3, False), (False, 20, 3, False), (False, 16, 1, False)],
)
def test_order_only_means_that_every_replication_has_every_trial(
    resample: bool, recorded: int, replications: int, expected: bool
) -> None:
    given_runs = comparison(
        ["random"], replications=replications, resample=resample, recorded_trials=recorded
    )
    (row,) = summarize(given_runs)
    assert row.order_only is expected
    assert row.resampled is resample


def test_scores_that_are_missing_are_left_out_of_the_mean() -> None:
    runs = (
        hand_made(replication=0),
        hand_made(replication=1, best_score=None, time_to_best_s=None),
    )
    (row,) = summarize(Comparison(settings(), runs))
    assert row.best_score == Interval(300.0, None, None, 1)
    (row,) = summarize(Comparison(settings(), runs[1:]))
    assert row.best_score is None
    assert row.time_to_best_s is None


def test_approximation_is_weighted_by_exploits() -> None:
    figures = [
        {"exploits": 10.0, "own_curve_share": 0.5, "mean_distance": 0.2},
        {"exploits": 30.0, "own_curve_share": 0.1, "mean_distance": 0.4},
    ]
    runs = tuple(
        search("pbt", replication=index, approximate=True, approximation=each)
        for index, each in enumerate(figures)
    )
    (row,) = summarize(Comparison(settings(), runs))
    assert row.approximate
    assert row.approximation == pytest.approx(
        {"exploits": 20.0, "own_curve_share": 0.2, "mean_distance": 0.35}
    )


def test_notes_and_censored_trials_are_gathered() -> None:
    runs = tuple(
        hand_made(replication=index, notes=("one bracket", f"note {index}"), censored=index + 1)
        for index in range(2)
    )
    (row,) = summarize(Comparison(settings(), runs))
    assert row.notes == ("one bracket", "note 0", "note 1")
    assert row.censored == 3


def test_the_same_run_twice_is_refused() -> None:
    with pytest.raises(AnalysisError, match=r"hypertrick on 2 nodes with 3 trials: replication 0"):
        summarize(Comparison(settings(), (hand_made(), hand_made())))


def test_no_runs_are_refused() -> None:
    with pytest.raises(AnalysisError, match="no runs"):
        summarize(Comparison(settings(), ()))
