"""Curves over time: exact against the accounts, and against brute force."""

import itertools

import numpy as np
import pytest
from analysis_runs import hand_made, result, search
from hypothesis import given
from hypothesis import strategies as st

from simsched.analysis.series import Best, best_so_far, columns, mean_best, series
from simsched.results import Milestone, RunResult, TrialResult
from simsched.timeline import KINDS, US_PER_S, Interval, Kind, Timeline


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """Any timeline whose kinds fill every node's time, as the accounting promises."""
    nodes = draw(st.integers(1, 5))
    end_us = draw(st.integers(1, 10_000_000))
    intervals = []
    for node in range(nodes):
        inner = draw(st.sets(st.integers(1, max(1, end_us - 1)), max_size=8))
        cuts = sorted({0, end_us} | {cut for cut in inner if cut < end_us})
        for start, end in itertools.pairwise(cuts):
            kind: Kind = draw(st.sampled_from(KINDS))
            trial = -1 if kind in ("idle", "down") else draw(st.integers(0, 9))
            intervals.append(Interval(node, trial, 0, kind, start, end, -1))
    return Timeline(nodes, end_us, draw(st.permutations(intervals)))


def run_of(timeline: Timeline) -> RunResult:
    trial = TrialResult(0, 0, {}, 0, 0, None, "stopped")
    return result(timeline, [trial])


@given(timelines(), st.integers(1, 50))
def test_integral_of_utilization_is_the_training_time(timeline: Timeline, bins: int) -> None:
    run = run_of(timeline)
    steps = series(run)
    train_s = run.node_seconds["train"] / run.nodes
    assert steps.integral() == pytest.approx(train_s, rel=1e-9, abs=1e-12)
    assert steps.integral() / run.wall_time_s == pytest.approx(run.utilization, abs=1e-9)
    binned = steps.binned(bins)
    assert len(binned.value) == bins
    assert binned.integral() == pytest.approx(train_s, rel=1e-9, abs=1e-12)
    assert np.all(steps.value >= 0)
    assert np.all(steps.value <= 1)


@given(timelines())
def test_all_kinds_together_fill_all_the_time(timeline: Timeline) -> None:
    steps = series(run_of(timeline), KINDS)
    assert np.all(steps.value == 1)
    assert (steps.edge_s[0], steps.edge_s[-1]) == (0, timeline.end_us / US_PER_S)


@given(timelines(), st.sets(st.sampled_from(KINDS), min_size=1), st.data())
def test_a_step_is_what_counting_nodes_gives(
    timeline: Timeline, kinds: set[Kind], data: st.DataObject
) -> None:
    steps = series(run_of(timeline), sorted(kinds))
    at_us = data.draw(st.integers(0, timeline.end_us - 1))
    counted = sum(
        each.kind in kinds and each.start_us <= at_us < each.end_us for each in timeline.intervals
    )
    place = int(np.searchsorted(steps.edge_s * US_PER_S, at_us + 0.5)) - 1
    assert steps.value[place] == pytest.approx(counted / timeline.nodes)


def test_hand_made_utilization_step_by_step() -> None:
    steps = series(hand_made())
    assert steps.edge_s.tolist() == [0, 5, 25, 35, 60, 75, 95, 100]
    assert steps.value.tolist() == [0, 1, 0.5, 0.5, 1, 0.5, 0]
    assert steps.integral() == 62.5


def test_a_large_run_agrees_with_its_accounts() -> None:
    run = search(nodes=128, workers=1000, phases=27, preempting=True)
    assert len(run.timeline.intervals) > 5000
    assert series(run).integral() / run.wall_time_s == pytest.approx(run.utilization)
    assert series(run).binned(480).integral() / run.wall_time_s == pytest.approx(run.utilization)


def test_a_run_without_time_has_no_steps() -> None:
    steps = series(run_of(Timeline(2, 0, [])))
    assert len(steps.value) == 0
    assert steps.integral() == 0
    assert len(steps.binned(10).value) == 0


def test_columns_are_sorted_by_node_and_start() -> None:
    run = search(preempting=True)
    data = columns(run.timeline)
    assert len(data.node) == len(run.timeline.intervals)
    order = list(zip(data.node.tolist(), data.start_us.tolist(), strict=True))
    assert order == sorted(order)
    rows = zip(*(values.tolist() for values in data), strict=True)
    assert {(*row[:3], KINDS[row[3]], *row[4:]) for row in rows} == set(run.timeline.intervals)


def scored(*reports: tuple[float, float | None], trial: int = 0) -> TrialResult:
    curve = tuple(Milestone(at_s, step + 1, score) for step, (at_s, score) in enumerate(reports))
    return TrialResult(trial, trial, {}, len(curve), len(curve), None, "finished", curve)


def with_curves(*trials: TrialResult, mode: str = "max") -> RunResult:
    return result(Timeline(1, 10 * US_PER_S, []), trials, mode=mode)


def test_best_so_far_keeps_only_improvements() -> None:
    run = with_curves(
        scored((1, 5.0), (4, 9.0), (6, None)), scored((2, 7.0), (3, 7.0), (5, 8.0), trial=1)
    )
    got = best_so_far(run, "max")
    assert got.time_s.tolist() == [1, 2, 4]
    assert got.score.tolist() == [5, 7, 9]
    got = best_so_far(run, "min")
    assert got.time_s.tolist() == [1]
    assert got.score.tolist() == [5]


def test_reports_of_one_instant_count_as_one() -> None:
    run = with_curves(scored((1, 5.0)), scored((1, 7.0), trial=1))
    assert best_so_far(run, "max").score.tolist() == [7]
    assert best_so_far(run, "min").score.tolist() == [5]


def test_best_so_far_ends_at_the_runs_best() -> None:
    run = search(nodes=8, workers=64, preempting=True)
    got = best_so_far(run, "max")
    assert got.score[-1] == run.best_score
    assert got.time_s[-1] == run.time_to_best_s
    assert np.all(np.diff(got.score) > 0)
    assert np.all(np.diff(got.time_s) > 0)


def test_without_scores_there_is_no_best() -> None:
    got = best_so_far(with_curves(scored((1, None))), "max")
    assert (len(got.time_s), len(got.score)) == (0, 0)
    assert len(mean_best([with_curves(scored((1, None)))], "max").time_s) == 0


def test_mean_best_by_hand() -> None:
    runs = [with_curves(scored((1, 10.0), (3, 20.0))), with_curves(scored((2, 0.0), (4, 40.0)))]
    got = mean_best(runs, "max")
    assert got.time_s.tolist() == [2, 3, 4]
    assert got.score.tolist() == [5, 10, 30]
    silent = with_curves(scored((1, None)))
    assert mean_best([*runs, silent], "max").score.tolist() == [5, 10, 30]


def test_mean_best_of_one_run_is_its_own() -> None:
    run = search()
    mean, own = mean_best([run], "max"), best_so_far(run, "max")
    assert isinstance(mean, Best)
    assert mean.time_s.tolist() == own.time_s.tolist()
    assert mean.score.tolist() == own.score.tolist()
