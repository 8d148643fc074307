"""How far trials are on their recorded curves, where training can be lost and done again.

A trial's path is the training it has behind it since it began, or since it last took a donor's
weights, in microseconds at speed 1. Its milestones lie on the path; a checkpoint is a place on
one. A worker that starts from a checkpoint trains from that place to the next milestone, and
what it passes below the highest place that was ever reached is done again.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from simsched.events import Adopt, Start
from simsched.messages import Checkpoint, Hparams, TrialId
from simsched.replay import Continuation, Cursor, Curve, Leg


class Place(NamedTuple):
    """The next milestone on a trial's path, or where its curve ends."""

    end_us: int
    outcome: Literal["milestone", "diverged", "censored"]
    score: float | None
    reached: float
    until: int


class Spent(NamedTuple):
    """What became of a worker's time since its command, beside training, in µs."""

    start_us: int
    load_us: int
    redo_us: int
    wait_us: int


class Stretch:
    """One command of a worker from its beginning: waiting, starting, loading, training."""

    def __init__(self, now: int) -> None:
        self._times = {"start": 0, "load": 0, "wait": 0}
        self._doing: str | None = None
        self._since = now
        self.place: Place | None = None
        """What is trained towards, from when training begins."""
        self._from_us = self._began = self._redo_us = 0
        self._rate = 1.0
        self.duration_us = 0
        """Of training, if nothing happens."""
        self.stopped_at: int | None = None
        """When it was told to save and leave."""

    def doing(self, what: Literal["start", "load", "wait"], now: int) -> None:
        """Something begins that is not training."""
        self._doing, self._since = what, now

    def did(self, now: int) -> None:
        """It is done."""
        if self._doing is not None:
            self._times[self._doing] += now - self._since
        self._doing = None

    def begin(self, now: int, from_us: int, place: Place, high_us: int, rate: float) -> None:
        """Training begins at a place of the path, at a speed."""
        self.place, self._from_us, self._began, self._rate = place, from_us, now, rate
        self.duration_us = round((place.end_us - from_us) / rate)
        self._redo_us = max(0, round((min(place.end_us, high_us) - from_us) / rate))

    def spent(self, now: int) -> Spent:
        """Return what the time until now went into."""
        times = dict(self._times)
        if self._doing is not None:
            times[self._doing] += now - self._since
        redo_us = 0 if self.place is None else min(self._redo_us, self._elapsed(now))
        return Spent(times["start"], times["load"], redo_us, times["wait"])

    def place_us(self, now: int) -> int:
        """Return where on the path the worker is."""
        assert self.place is not None  # noqa: S101 - nobody asks before training has begun
        return min(self.place.end_us, self._from_us + int(self._elapsed(now) * self._rate))

    def _elapsed(self, now: int) -> int:
        return (now if self.stopped_at is None else self.stopped_at) - self._began


class _Path(msgspec.Struct, eq=False):
    """Training without a break; `origin` and `count`: where a donor's weights came in."""

    origin: Checkpoint | None
    count: float


class _Trial(msgspec.Struct):
    """A trial's truth: what was told of it, whatever its workers have lost since."""

    cursor: Cursor
    path: _Path
    hparams: Hparams
    done_us: int = 0
    """The newest milestone's place."""
    until: int = 0
    """That milestone."""
    reached: float = 0.0
    high_us: int = 0
    leg: Leg | None = None
    """The way to `leg_until`, once it was looked up."""
    leg_until: int = 0


class _Kept(msgspec.Struct, frozen=True):
    path: _Path
    hparams: Hparams
    place_us: int
    count: float
    score: float | None
    curve: Curve


class Progress:
    """Where all trials of a simulation are."""

    def __init__(self, curves: Sequence[Curve], continuation: Continuation) -> None:
        self._curves = curves
        self._continuation = continuation
        self._trials: dict[TrialId, _Trial] = {}
        self._kept: dict[Checkpoint, _Kept] = {}

    def take_up(self, command: Start) -> int:
        """A worker starts: return the place that it trains from."""
        trial, source = command.trial, command.source
        known = self._trials.get(trial)
        if source is None:
            if known is None:
                cursor = Cursor(self._curves[trial], trial)
                self._trials[trial] = _Trial(cursor, _Path(None, 0.0), command.hparams)
            return 0
        assert known is not None  # noqa: S101 - a trial without a past has no source
        kept, same = self._kept[source], known.hparams == command.hparams
        if same and kept.path is known.path and kept.count == command.count:
            return kept.place_us
        path = known.path
        if not (same and path.origin == source and path.count == command.count):
            self._exploit(trial, command.hparams, source, command.count)
        return 0

    def adopt(self, trial: TrialId, command: Adopt) -> int:
        """A worker takes a donor's weights: return the place that it trains from."""
        self._exploit(trial, command.hparams, command.source, self._trials[trial].reached)
        return 0

    def _exploit(self, trial: TrialId, hparams: Hparams, source: Checkpoint, count: float) -> None:
        known, kept = self._trials[trial], self._kept[source]
        score = 0.0 if kept.score is None else kept.score
        cursor = self._continuation.enter(trial, hparams, known.until, score, kept.curve)
        self._trials[trial] = _Trial(
            cursor, _Path(source, count), hparams, until=known.until, reached=known.reached
        )

    def towards(self, trial: TrialId, until: int) -> Place:
        """Return where a milestone is: the next one, or the newest if its save was lost.

        Raises:
            SimschedError: the curve is complete and too short.
        """
        known = self._trials[trial]
        if until == known.until:
            cursor = known.cursor
            return Place(known.done_us, "milestone", cursor.score, known.reached, until)
        if known.leg is None or known.leg_until != until:
            known.leg, known.leg_until = known.cursor.advance(until), until
            known.cursor.until = until
        leg = known.leg
        return Place(known.done_us + leg.duration_us, leg.outcome, leg.score, leg.reached, until)

    def arrived(self, trial: TrialId, place: Place) -> None:
        """A worker has reached a place and tells it."""
        known = self._trials[trial]
        known.done_us, known.until, known.reached = place.end_us, place.until, place.reached
        known.high_us = max(known.high_us, place.end_us)
        known.leg = None

    def stopped(self, trial: TrialId, place_us: int, place: Place) -> float:
        """A worker stops on its way to a place: return the trial's count there, rounded down.

        Between two milestones the count is taken to grow evenly.
        """
        known = self._trials[trial]
        known.high_us = max(known.high_us, place_us)
        if place_us <= known.done_us:
            whole, part, low, high = known.done_us, place_us, 0.0, known.reached
        else:
            whole, part = place.end_us - known.done_us, place_us - known.done_us
            low, high = known.reached, place.reached
        return float(int(low + (high - low) * part / whole)) if whole else low

    def reached(self, trial: TrialId) -> float:
        """Return the trial's count at its newest milestone."""
        return self._trials[trial].reached

    def high_us(self, trial: TrialId) -> int:
        """Return the highest place that was ever reached on the trial's present path."""
        return self._trials[trial].high_us

    def keep(
        self, checkpoint: Checkpoint, trial: TrialId, place_us: int, count: float | None = None
    ) -> None:
        """A trial is saved as it is at a place; `count` is its own there, if in mid-phase."""
        known = self._trials[trial]
        self._kept[checkpoint] = _Kept(
            known.path, known.hparams, place_us, known.reached if count is None else count,
            known.cursor.score, known.cursor.curve,
        )  # fmt: skip
