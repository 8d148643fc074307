"""Curves over a run's time: what its nodes do, and the best score so far."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simsched.results import RunResult
from simsched.timeline import KINDS, US_PER_S, Intervals, Kind, Timeline

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mode: TypeAlias = Literal["max", "min"]


class Columns(NamedTuple):
    """A timeline's intervals as arrays of shape (intervals,); `kind` indexes `KINDS`."""

    node: Ints
    trial: Ints
    attempt: Ints
    kind: Ints
    start_us: Ints
    end_us: Ints
    step: Ints


class Steps(NamedTuple):
    """A step function: `value[i]` holds from `edge_s[i]` to `edge_s[i + 1]`.

    Shapes: `edge_s` (n + 1,), seconds, increasing; `value` (n,).
    """

    edge_s: Floats
    value: Floats

    def integral(self) -> float:
        """Return the integral over all of its time, in value × seconds."""
        return float(np.sum(self.value * np.diff(self.edge_s)))

    def binned(self, bins: int) -> "Steps":
        """Return the exact mean in each of `bins` equal bins; the integral stays as it is."""
        if len(self.value) == 0:
            return self
        area = np.concatenate([[0.0], np.cumsum(self.value * np.diff(self.edge_s))])
        edge_s = np.linspace(self.edge_s[0], self.edge_s[-1], bins + 1)
        # The area under a step function is piecewise linear: interpolation is exact.
        return Steps(edge_s, np.diff(np.interp(edge_s, self.edge_s, area)) / np.diff(edge_s))


class Best(NamedTuple):
    """The best score so far: from `time_s[i]` on it is `score[i]`. Shapes (n,), (n,)."""

    time_s: Floats
    score: Floats


def columns(timeline: Timeline) -> Columns:
    """Return the intervals as arrays, in order of node and start."""
    intervals = timeline.intervals
    table = (intervals if isinstance(intervals, Intervals) else Intervals(intervals)).table()
    arrays = [table[name].astype(np.int64) for name in Columns._fields]
    order = np.lexsort((arrays[4], arrays[0]))
    return Columns(*(values[order] for values in arrays))


def series(run: RunResult, kinds: Sequence[Kind] = ("train",)) -> Steps:
    """Return the share of the nodes that spend their time on `kinds`, exactly.

    With the default this is utilization over time: its integral is node-seconds of
    training over the number of nodes. A run that took no time has no steps.
    """
    timeline = run.timeline
    if timeline.end_us <= 0:
        return Steps(np.zeros(1), np.zeros(0))
    data = columns(timeline)
    wanted = np.isin(data.kind, [KINDS.index(kind) for kind in kinds])
    start_us, end_us = data.start_us[wanted], data.end_us[wanted]
    edge_us, place = np.unique(
        np.concatenate([start_us, end_us, [0, timeline.end_us]]), return_inverse=True
    )
    change = np.zeros(len(edge_us), dtype=np.int64)
    np.add.at(change, place[: len(start_us)], 1)
    np.add.at(change, place[len(start_us) : -2], -1)
    return Steps(edge_us / US_PER_S, np.cumsum(change)[:-1] / timeline.nodes)


def best_so_far(run: RunResult, mode: Mode) -> Best:
    """Return each improvement of the best score, over the milestones of all trials.

    `mode` "min": the best is the smallest. Without any score both arrays are empty.
    """
    sign = -1.0 if mode == "min" else 1.0
    reports = [
        (milestone.at_s, sign * milestone.score)
        for trial in run.trials
        for milestone in trial.curve
        if milestone.score is not None and math.isfinite(milestone.score)
    ]
    best: list[tuple[float, float]] = []
    for at_s, merit in sorted(reports, key=lambda report: (report[0], -report[1])):
        if not best or merit > best[-1][1]:
            best.append((at_s, merit))
    improved = np.array(best, dtype=np.float64).reshape(-1, 2)
    return Best(improved[:, 0], sign * improved[:, 1])


def mean_best(runs: Sequence[RunResult], mode: Mode) -> Best:
    """Return the mean over replications of the best score so far.

    It sets in where every replication that has any score has its first one; a
    replication that is over keeps its last.
    """
    curves = [curve for run in runs if len((curve := best_so_far(run, mode)).time_s)]
    if not curves:
        return Best(np.zeros(0), np.zeros(0))
    first_s = max(curve.time_s[0] for curve in curves)
    time_s = np.unique(np.concatenate([curve.time_s for curve in curves]))
    time_s = time_s[time_s >= first_s]
    held = [
        curve.score[np.searchsorted(curve.time_s, time_s, side="right") - 1] for curve in curves
    ]
    return Best(time_s, np.mean(held, axis=0))
