"""Recorded curves, replayed: when a trial reaches a milestone, and with what score.

A cursor walks a curve row by row and never reads past the milestone it walks to. Only the
search for a neighbour after an exploit (`Neighbours`) looks further; it decides no verdict.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from simsched.errors import SimschedError
from simsched.messages import Hparams, TrialId, Unit
from simsched.space import SearchSpace
from simsched.traces import Trace


class Curve(msgspec.Struct, frozen=True, gc=False):
    """One recorded trial in one unit. `scores` may be one row shorter than the counters."""

    trace: int
    hparams: Hparams
    end: Literal["complete", "diverged", "censored"]
    times_us: Sequence[int]
    counts: Sequence[float]
    scores: Sequence[float]

    @property
    def length(self) -> float:
        """The last count."""
        return self.counts[-1]


def scored(trace: Trace) -> np.ndarray:
    """Return the scores of a trace; only its last row may lack one."""
    return trace.score[: len(trace.score) - int(math.isnan(trace.score[-1]))]


def curve_of(trace: Trace, unit: Unit, sign: float) -> Curve:
    """Prepare a trace: times in µs, the unit's counts, scores times `sign` (-1 for mode min)."""
    scores = scored(trace)
    if unit == "reports":
        counts = np.minimum(np.arange(1, len(trace.score) + 1), len(scores))
    else:
        counts = getattr(trace, unit)
    return Curve(
        trace.trial,
        trace.hparams,
        trace.end,
        # Tuples: the garbage collector does not walk those of numbers again and again.
        tuple(np.rint(trace.seconds * 1e6).astype(np.int64).tolist()),
        tuple(counts.tolist()),
        tuple((scores * sign).tolist()),
    )


class Leg(msgspec.Struct, frozen=True, gc=False):
    """A stretch of training: how long it takes at speed 1, how it ends, the score there."""

    duration_us: int
    outcome: Literal["milestone", "diverged", "censored"]
    score: float | None
    reached: float


class Cursor:
    """Walks one trial along its curve, and on along another one after an exploit."""

    __slots__ = ("curve", "row", "score", "trial", "until")

    def __init__(self, curve: Curve, trial: TrialId) -> None:
        self.curve = curve
        self.trial = trial
        self.row = -1
        self.score: float | None = None
        """Of the newest milestone."""
        self.until = 0
        """The newest milestone, in the trial's own count."""

    def advance(self, until: int) -> Leg:
        """Walk to the first row whose count is `until` or more, or to the curve's end.

        The score is the mean of the rows since the last milestone; if there are none, the last
        score stands. Only a curve's last row may lack a score, so the first milestone has one.

        Raises:
            SimschedError: the curve is complete and too short.
        """
        curve, counts = self.curve, self.curve.counts
        last = len(counts) - 1
        row = max(self.row, 0)
        while row < last and counts[row] < until:
            row += 1
        ended = counts[row] < until or not curve.scores
        if curve.end == "diverged" and (ended or row == last):
            return self._leg(last, "diverged", None)
        if ended:
            if curve.end == "censored":
                return self._leg(last, "censored", None)
            raise SimschedError(
                f"recorded trial {curve.trace} ends at {curve.length:,.10g}"
                f"{'' if curve.scores else ' without a score'}, "
                f"before the milestone at {until:,}; ask for fewer or shorter phases"
            )
        scores = curve.scores[self.row + 1 : row + 1]
        if scores:
            self.score = math.fsum(scores) / len(scores)
        return self._leg(row, "milestone", self.score)

    def _leg(
        self, row: int, outcome: Literal["milestone", "diverged", "censored"], score: float | None
    ) -> Leg:
        times_us = self.curve.times_us
        spent_us = times_us[row] - (times_us[self.row] if self.row >= 0 else 0)
        self.row = row
        return Leg(spent_us, outcome, score, self.curve.counts[row])


class Borrowed(Cursor):
    """A trial after an exploit: it goes on along somebody else's curve from `entry` on.

    Where too little curve is left, the last score and the mean pace stand, so such a leg
    never ends for want of a curve; it may diverge where the neighbour did.
    """

    __slots__ = ("ahead", "count", "us_per_unit")

    def __init__(self, curve: Curve, trial: TrialId, entry: int, step: int, score: float) -> None:
        super().__init__(curve, trial)
        self.row = entry
        self.score = score
        self.until = step
        self.ahead = curve.counts[entry] - step
        """What to add to the trial's own count to get the curve's."""
        self.count = curve.counts[entry]
        self.us_per_unit = curve.times_us[-1] / max(curve.counts[-1], 1e-9)

    def advance(self, until: int) -> Leg:
        """Walk on as `Cursor` does, and past the curve's end at its mean pace."""
        target = until + self.ahead
        curve, last = self.curve, len(self.curve.counts) - 1
        row = self.row
        while row < last and curve.counts[row] < target:
            row += 1
        if curve.end == "diverged" and row == last:
            return self._leg(last, "diverged", None)
        scores = curve.scores[self.row + 1 : row + 1]
        if scores:
            self.score = math.fsum(scores) / len(scores)
        beyond = max(0.0, target - max(self.count, curve.counts[row]))
        leg = self._leg(row, "milestone", self.score)
        self.count = max(target, curve.counts[row])
        return Leg(
            leg.duration_us + round(beyond * self.us_per_unit), "milestone", leg.score, until
        )


class Continuation(Protocol):
    """Where a trial goes on after an exploit."""

    def enter(
        self, trial: TrialId, hparams: Hparams, step: int, score: float, curve: Curve, /
    ) -> Cursor:
        """Return the cursor of a trial that has just taken a donor's weights.

        Args:
            trial: the trial that exploits.
            hparams: its new hyperparameters.
            step: its own count, which it keeps.
            score: the donor's.
            curve: the one that the donor was on.
        """
        ...

    def summary(self) -> dict[str, float]:
        """Return how approximate it was; nothing where it was not."""
        ...


class Neighbours:
    """Finds, after an exploit, the recorded curve to go on along.

    The nearest recorded trial in the search space (logarithmic and normalised), entered where
    its smoothed curve, the mean over one phase, first reaches the donor's score; at its best
    point if it never does.
    """

    def __init__(self, curves: Sequence[Curve], space: SearchSpace, phase_length: int) -> None:
        self.curves = [curve for curve in curves if curve.scores]
        self.space = space
        self.phase_length = phase_length
        self._tree: Any = None
        self._place_of: dict[int, int] = {}
        self._index_of: np.ndarray = np.empty(0, dtype=int)
        self._smoothed: dict[int, tuple[np.ndarray, int]] = {}
        self.exploits = 0
        self.own = 0
        self.distance = 0.0

    def enter(
        self, trial: TrialId, hparams: Hparams, step: int, score: float, own: Curve
    ) -> Borrowed:
        """Return the cursor of a trial that has just taken `hparams` and a donor's weights.

        Args:
            trial: the trial that exploits.
            hparams: its new hyperparameters.
            step: its own count, which it keeps.
            score: the donor's.
            own: the curve that the donor was on.
        """
        index, apart = self._nearest(hparams, own)
        curve = self.curves[index]
        self.exploits += 1
        self.own += curve is own
        self.distance += apart
        highest, best = self._smooth(index)
        entry = min(int(highest.searchsorted(score)), best)
        return Borrowed(curve, trial, entry, step, score)

    def _nearest(self, hparams: Hparams, own: Curve) -> tuple[int, float]:
        """Return the nearest curve and its distance.

        Of curves with the same hyperparameters it is the donor's own, else the first.
        """
        if self._tree is None:
            # Only who exploits pays for the import and the tree.
            from scipy.spatial import KDTree

            points = np.array([self.space.encode(curve.hparams) for curve in self.curves])
            unique, self._index_of = np.unique(points, axis=0, return_index=True)
            self._tree = KDTree(unique)
            self._place_of = {id(curve): place for place, curve in enumerate(self.curves)}
        apart, place = self._tree.query(self.space.encode(hparams))
        index = int(self._index_of[place])
        if own.hparams == self.curves[index].hparams:
            index = self._place_of.get(id(own), index)
        return index, float(apart)

    def _smooth(self, index: int) -> tuple[np.ndarray, int]:
        """Return the highest mean so far at each scored row, and the row of the highest of all.

        A row's mean is over the phase that ends there; rows before a first whole phase count
        only where no phase is whole.
        """
        if index not in self._smoothed:
            curve = self.curves[index]
            counts = np.asarray(curve.counts[: len(curve.scores)], dtype=float)
            total = np.concatenate([[0.0], np.cumsum(curve.scores)])
            first = np.searchsorted(counts, counts - self.phase_length, side="right")
            rows = np.arange(len(counts))
            means = (total[rows + 1] - total[first]) / (rows + 1 - first)
            if counts[-1] >= self.phase_length:
                means[counts < self.phase_length] = -np.inf
            self._smoothed[index] = np.maximum.accumulate(means), int(means.argmax())
        return self._smoothed[index]

    def summary(self) -> dict[str, float]:
        """Return how approximate it was: exploits, share on the donor's own curve, distance."""
        if not self.exploits:
            return {}
        return {
            "exploits": float(self.exploits),
            "own_curve_share": self.own / self.exploits,
            "mean_distance": self.distance / self.exploits,
        }
