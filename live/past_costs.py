"""What a live search's starts, saves, loads and hand-overs took, and what failures cost it.

The timeline of a run has its own clock, the coordinator's; the rows of a trial have the worker's.
From a command that lets a trial train to the report of its milestone the coordinator's clock runs
a little longer than the worker's between the rows of the two milestones: messages, the journal's
sync, what is trained beyond the row. That is the hand-over of the milestone.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec

from simsched.errors import SimschedError
from simsched.events import (
    Adopt,
    End,
    Ended,
    Failed,
    Hold,
    Parked,
    Recovered,
    Reported,
    Save,
    Saved,
    Snapped,
    Start,
    Train,
)
from simsched.journal import Record
from simsched.live.past_run import PastRun
from simsched.messages import TrialId
from simsched.replay import Cursor, Curve, Leg

CostKind: TypeAlias = Literal["start", "load", "save", "adopt", "hand-over"]
COST_KINDS: tuple[CostKind, ...] = get_args(CostKind)
Place: TypeAlias = tuple[TrialId, int]
"""A trial, and the milestone that it trains towards, or that is saved."""
NO_ROWS = "its rows end before it"
RETRAINED = "its rows were lost and trained again"
_Timed: TypeAlias = Start | Train | Adopt | Save
_Outcome: TypeAlias = Reported | Saved | Failed | Parked | Ended


class Cost(msgspec.Struct, frozen=True):
    """How long something took, in µs."""

    samples: int
    mean_us: int
    median_us: int
    least_us: int
    most_us: int


class Score(NamedTuple):
    """A milestone's score as the journal has it, and as the replay's rule finds it."""

    trial: TrialId
    step: int
    told: float | None
    found: float | None
    """None where the trial diverged."""
    why: str | None
    """Why there is none to compare with."""

    @property
    def agrees(self) -> bool:
        """Whether both are equal to the last digit, or cannot be and it is known why."""
        return self.told == self.found if self.why is None else self.why == RETRAINED


class Lost(msgspec.Struct, frozen=True):
    """What failures and interruptions did, which no simulation repeats."""

    failures: int
    interruptions: int
    """Sessions that ended before the search."""
    node_us: int
    """Node time spent on starting, loading and training again, and on saves to stop."""


class Measured(NamedTuple):
    """What was measured in a run."""

    costs: dict[CostKind, Cost]
    places: dict[CostKind, dict[Place, int]]
    """Each sample, in µs."""
    scores: list[Score]
    """Of all milestones, in the order of the journal."""
    lost: Lost


def measure(run: PastRun) -> Measured:
    """Return what a run's starts, saves, loads and hand-overs took, and check its scores."""
    books = _Books(run)
    for record in run.records:
        books.take(record)
    costs = {kind: _cost(list(found.values())) for kind, found in books.places.items() if found}
    return Measured(costs, books.places, books.scores, books.lost())


def _cost(samples: Sequence[int]) -> Cost:
    return Cost(
        len(samples), round(fmean(samples)), round(median(samples)), min(samples), max(samples)
    )


class _Walk:
    """Walks every trial along its curve, as a replay does."""

    def __init__(self, curves: Sequence[Sequence[Curve]]) -> None:
        self._curves = curves
        self._place = [0] * len(curves)
        self._cursors = [Cursor(pieces[0], trial) for trial, pieces in enumerate(curves)]

    def advance(self, trial: TrialId, step: int) -> Leg | str:
        """Return the stretch up to a milestone, or why there is none."""
        try:
            leg = self._cursors[trial].advance(step)
        except SimschedError:
            return NO_ROWS
        if leg.outcome == "censored":
            return NO_ROWS
        pieces, place = self._curves[trial], self._place[trial] + 1
        if leg.outcome == "diverged" and place < len(pieces):
            self._place[trial] = place
            self._cursors[trial] = Cursor(pieces[place], trial)
        return leg


class _Books:
    """Takes in a journal, record by record."""

    def __init__(self, run: PastRun) -> None:
        self.places: dict[CostKind, dict[Place, int]] = {kind: {} for kind in COST_KINDS}
        self.scores: list[Score] = []
        self._walk = _Walk(run.curves)
        self._retrained = run.retrained
        self._open: dict[int, tuple[_Timed, int]] = {}
        """By node: the command that is carried out, and since when."""
        self._trials: dict[int, TrialId] = {}
        """By attempt."""
        self._broken: set[TrialId] = set()
        """Trials that were broken off since their last milestone."""
        self._snapped: dict[int, tuple[int, ...]] = {}
        """By attempt: start, load, redo and save of its command, told with saves in mid-phase."""
        self._failures = self._interruptions = self._lost_us = 0

    def lost(self) -> Lost:
        """Return what failures and interruptions did."""
        return Lost(self._failures, self._interruptions, self._lost_us)

    def take(self, record: Record) -> None:
        """Take in an event and what was commanded."""
        event = record.event
        if isinstance(event, Recovered):
            self._interruptions += 1
            self._broken.update(self._trials[each.attempt] for each, _ in self._open.values())
        elif isinstance(event, Snapped):
            before = self._snapped.get(event.attempt, (0, 0, 0, 0))
            spent = (event.start_us, event.load_us, event.redo_us, event.save_us)
            self._snapped[event.attempt] = tuple(map(sum, zip(before, spent, strict=True)))
        elif isinstance(event, _Outcome):
            begun = self._open.get(event.node)
            if begun is not None and begun[0].attempt == event.attempt:
                del self._open[event.node]
                self._close(record, event, *begun)
        for command in record.commands:
            if isinstance(command, Start):
                self._trials[command.attempt] = command.trial
            if isinstance(command, _Timed):
                self._open[command.node] = command, event.at
            elif isinstance(command, End | Hold):
                self._open.pop(command.node, None)

    def _close(self, record: Record, event: _Outcome, command: _Timed, since: int) -> None:
        trial = self._trials[command.attempt]
        if isinstance(event, Saved):
            if isinstance(command, Save):
                place = trial, command.checkpoint.step
                self.places["save"].setdefault(place, event.at - since)
            return
        if isinstance(event, Ended):
            return
        start, load, redo, save = self._snapped.pop(event.attempt, (0, 0, 0, 0))
        if start or load or redo or save:
            since += save
            event = msgspec.structs.replace(
                event,
                start_us=event.start_us + start,
                load_us=event.load_us + load,
                redo_us=event.redo_us + redo,
            )
        if trial in self._broken:
            self._lost_us += event.start_us + event.load_us
        self._lost_us += event.redo_us
        if isinstance(event, Reported):
            self._reported(record, event, command, since, trial)
            self._broken.discard(trial)
            return
        if isinstance(event, Parked):
            self._lost_us += event.save_us
        else:
            self._failures += 1
            self._lost_us += event.at - since if isinstance(command, Save) else event.save_us
        self._broken.add(trial)

    def _reported(
        self, record: Record, event: Reported, command: _Timed, since: int, trial: TrialId
    ) -> None:
        place = trial, event.step
        if isinstance(command, Start | Adopt):
            kind: CostKind = "start" if isinstance(command, Start) else "adopt"
            self.places[kind].setdefault(place, event.start_us)
            if command.source is not None:
                self.places["load"].setdefault(place, event.load_us)
        if record.decision is None:
            return  # it is told for the second time, to be saved
        leg = self._walk.advance(trial, event.step)
        why = leg if isinstance(leg, str) else RETRAINED if place in self._retrained else None
        found = None if isinstance(leg, str) else leg.score
        self.scores.append(Score(trial, event.step, event.score, found, why))
        if why is None and not isinstance(leg, str) and trial not in self._broken:
            spent_us = event.at - since - event.start_us - event.load_us - event.redo_us
            self.places["hand-over"][place] = spent_us - leg.duration_us
