"""Every node-second in exactly one place, every trial in exactly one; no look into the future."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import ALL, run_curves, traces

from simsched import simulate
from simsched.cluster import Cluster
from simsched.control import Control
from simsched.events import Adopt, Command, Event, Reported, Start
from simsched.replay import Curve, curve_of
from simsched.results import RunResult
from simsched.timeline import KINDS

ENDS = ("complete", "diverged", "censored", "complete", "complete")


def check(run: RunResult) -> None:
    """Assert what must hold of any run."""
    timeline = run.timeline
    by_node: dict[int, list[Any]] = {node: [] for node in range(run.nodes)}
    by_trial: dict[int, list[Any]] = {}
    total = Counter[str]()
    for interval in timeline.intervals:
        assert interval.end_us > interval.start_us
        assert interval.kind in KINDS
        by_node[interval.node].append(interval)
        total[interval.kind] += interval.end_us - interval.start_us
        if interval.trial >= 0:
            by_trial.setdefault(interval.trial, []).append(interval)
        assert (interval.trial < 0) == (interval.kind in ("idle", "down", "grace"))
    for intervals in by_node.values():
        # Side by side without gap or overlap, from start to end: a node has one trial at a time.
        edges = [0, *(interval.end_us for interval in intervals)]
        assert [interval.start_us for interval in intervals] == edges[:-1]
        assert edges[-1] == timeline.end_us
    for intervals in by_trial.values():
        intervals.sort(key=lambda interval: interval.start_us)
        for before, after in pairwise(intervals):
            assert before.end_us <= after.start_us, "a trial on two nodes"
    assert sum(total.values()) == run.nodes * timeline.end_us
    assert {k: round(s * 1e6) for k, s in run.node_seconds.items()} == {k: total[k] for k in KINDS}
    assert sum(run.node_seconds.values()) == pytest.approx(run.nodes * run.wall_time_s)
    # No trial lost: each of them has a fate, and its milestones in order.
    assert [trial.trial for trial in run.trials] == list(range(run.workers))
    for trial in run.trials:
        steps = [milestone.step for milestone in trial.curve]
        assert steps == sorted(set(steps))
        assert trial.milestones == len(steps)
        assert (trial.fate == "diverged") == bool(trial.curve and trial.curve[-1].score is None)
    assert run.milestones == sum(trial.milestones for trial in run.trials)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(ALL),
    st.integers(1, 25),
    st.integers(1, 8),
    st.integers(0, 10_000),
    st.tuples(
        st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 1.7]), st.sampled_from([0.0, 5.0])
    ),
    st.sampled_from([(1.0,), (1.0, 2.5, 0.3)]),
    st.booleans(),
)
def test_node_time_adds_up(
    scheduler: str,
    trials: int,
    nodes: int,
    seed: int,
    costs: tuple[float, float, float],
    speeds: tuple[float, ...],
    equal: bool,
) -> None:
    recorded = traces(trials, 12, seed, equal=equal, ends=ENDS, levels=4 if seed % 2 else None)
    start_s, save_s, load_s = costs
    result = simulate(
        recorded, nodes=nodes, workers=trials, schedulers=[scheduler], phases=6, phase_length=20,
        start_s=start_s, save_s=save_s, load_s=load_s, node_speeds=speeds,
    )  # fmt: skip
    check(result.runs[0])


class Poisoned(list[float]):
    """A list that must not be read past the row that has been reached."""

    limit = -1

    def __getitem__(self, index: Any) -> Any:
        last = (index.stop or len(self)) - 1 if isinstance(index, slice) else index
        assert 0 <= last <= self.limit, f"row {last} was read when {self.limit} was reached"
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        raise AssertionError("all rows were read")


class Watched(Curve, frozen=True):
    """A curve of poisoned lists; the counters open one row ahead of the search."""


def poison(curve: Curve, seen: dict[int, int]) -> Curve:
    """Return the curve with its future poisoned: rows open only as milestones need them.

    Counters are read row by row up to the first row at or past the milestone, so each may be
    read when the one before it is below the milestone; times and scores up to that row only.
    """

    class Counts(Poisoned):
        def __getitem__(self, index: Any) -> Any:
            assert isinstance(index, int)
            row = index if index >= 0 else len(self) + index
            assert row <= seen.get(curve.trace, -1) + 1, "the counters were searched ahead"
            seen[curve.trace] = max(row, seen.get(curve.trace, -1))
            return list.__getitem__(self, index)

    class Rows(Poisoned):
        def __getitem__(self, index: Any) -> Any:
            self.limit = seen.get(curve.trace, -1)
            if isinstance(index, slice):
                index = slice(index.start, min(index.stop, len(self)))
                if index.start >= index.stop:
                    return []
            return super().__getitem__(index)

    return Watched(
        curve.trace, curve.hparams, curve.end, Rows(curve.times_us), Counts(curve.counts),
        Rows(curve.scores),
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize("scheduler", sorted(set(ALL) - {"pbt"}))
@pytest.mark.parametrize("seed", range(4))
def test_no_decision_reads_the_future(scheduler: str, seed: int) -> None:
    """PBT's search for a neighbour may look ahead; everything else must not."""
    recorded = traces(16, 8, seed, ends=ENDS)
    curves = [curve_of(trace, "reports", 1.0) for trace in recorded.traces]
    seen: dict[int, int] = {}
    poisoned = [poison(curve, seen) for curve in curves]
    plain, _ = run_curves(scheduler, curves, 8, Cluster(5, save_s=1.0))
    # The neighbours' table is PBT's; it is made from the plain curves.
    watched, _ = run_curves(scheduler, poisoned, 8, Cluster(5, save_s=1.0), neighbours=curves)
    assert watched == plain
    # Milestone m is row m - 1: nothing past the last milestone that was trained for was read.
    last: dict[int, int] = {}
    for interval in plain.timeline.intervals:
        if interval.kind == "train":
            last[interval.trial] = max(interval.step, last.get(interval.trial, 0))
    assert set(seen) == set(last)
    for trial, row in seen.items():
        assert row < last[trial]


def test_the_poison_works() -> None:
    recorded = traces(1, 8)
    poisoned = poison(curve_of(recorded.traces[0], "reports", 1.0), {})
    with pytest.raises(AssertionError, match="searched ahead"):
        poisoned.counts[3]
    with pytest.raises(AssertionError, match="was read"):
        poisoned.scores[0]


def test_the_best_hyperparameters_are_those_that_the_best_score_was_trained_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An exploit changes a member's hyperparameters; scores told before were another's doing."""
    log: list[tuple[Event, list[Command]]] = []
    feed = Control.feed

    def logged(control: Control, event: Event) -> list[Command]:
        commands = feed(control, event)
        log.append((event, commands))
        return commands

    monkeypatch.setattr(Control, "feed", logged)
    curves = [curve_of(trace, "reports", 1.0) for trace in traces(9, 8, seed=4, ends=ENDS).traces]
    _, world = run_curves("pbt", curves, 8, Cluster(3))
    with_now: dict[int, Any] = {}
    trial_on: dict[int, int] = {}
    best: dict[int, tuple[float, Any]] = {}
    for event, commands in log:
        if isinstance(event, Reported) and event.score is not None:
            trial = trial_on[event.node]
            if trial not in best or event.score > best[trial][0]:
                best[trial] = event.score, with_now[trial]
        for command in commands:
            if isinstance(command, Start):
                trial_on[command.node] = command.trial
                with_now[command.trial] = command.hparams
            elif isinstance(command, Adopt):
                with_now[trial_on[command.node]] = command.hparams
    records = world.ledger.trials
    assert {t: (r.best_score, r.best_hparams) for t, r in records.items() if t in best} == best
    assert any(record.best_hparams != record.hparams for t, record in records.items() if t in best)
