"""The accounting: turns the stream of events and commands into timeline and trial results.

It sees what the journal holds and nothing else, so a timeline can be made while a run goes
on or from its journal afterwards, for simulated and live runs alike.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from simsched.events import (
    Adopt,
    Command,
    End,
    Ended,
    Event,
    Failed,
    Hold,
    Keep,
    NodeCommand,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Over,
    Parked,
    Reported,
    Save,
    Saved,
    Snapped,
    Start,
    Train,
    Withdraw,
)
from simsched.messages import Decision, Hparams, Pause, Stop, TrialId
from simsched.results import Fate, Milestone
from simsched.timeline import KINDS, US_PER_S, Intervals, Kind, Timeline

_OF_AN_ATTEMPT = frozenset((Reported, Saved, Failed, Parked, Ended, Snapped))
_Open: TypeAlias = tuple[Kind, int, TrialId, int, int]
"""What a node is doing: kind, since, trial, attempt, step."""


class TrialRecord(msgspec.Struct):
    """What is known of a trial so far; scores are those inside: larger is better."""

    hparams: Hparams
    milestones: int = 0
    step: int = 0
    work: int = 0
    """Resource units trained up to milestones with a score."""
    reported: int = 0
    """The newest milestone, with a score or without."""
    best_score: float | None = None
    best_hparams: Hparams | None = None
    """With which the best score was trained; an exploit changes `hparams` afterwards."""
    fate: Fate | None = None
    curve: list[Milestone] = []


class Ledger:
    """Keeps the books of one run. `maximum`: a trial's full length in resource units."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.intervals = Intervals()
        self.node_us: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self.trials: dict[TrialId, TrialRecord] = {}
        self.preemptions = self.saves = self.loads = self.milestones = self.failures = 0
        self.best: tuple[float, TrialId, int] | None = None
        """Best score so far, its trial, and when it was first reported."""
        self.last_us = 0
        """Time of the newest event."""
        self.newest_trial: TrialId | None = None
        """Whose milestone was told last."""
        self._leaving: set[int] = set()
        self._paused: set[TrialId] = set()
        """Trials that were told to pause, and whose node nobody has taken yet."""
        self._open: dict[int, _Open] = {}
        self._take: dict[type, Callable[[Any], object]] = {
            Reported: self._close_leg, Saved: self._saved, Ended: self._ended, NodeUp: self._up,
            NodeLeaving: self._leaves, NodeDown: self._down, Failed: self._failed,
            Parked: self._parked, Snapped: self._snapped,
        }  # fmt: skip
        """What each event ends."""
        self._begin: dict[type, Callable[[Any, int, TrialId], _Open]] = {
            Start: self._start, Save: self._save, Adopt: self._adopt,
            Train: self._train, Hold: self._hold, End: self._end,
            Withdraw: self._withdraw, Keep: self._keep,
        }  # fmt: skip
        """What each command begins (`Park` lets go on what goes on).

        The trial is the one that was on the node before.
        """

    def observe(
        self,
        event: Event,
        decision: Decision | None,
        abandoned: tuple[TrialId, ...],
        commands: list[Command],
    ) -> None:
        """Take in one event with its answers."""
        self.last_us = at = event.at
        what = type(event)
        if what in _OF_AN_ATTEMPT and event.attempt != self._open[event.node][3]:  # type: ignore[union-attr]
            return  # from an older attempt: the coordinator has dropped it too
        take = self._take.get(what)
        if take is not None:
            take(event)
        if what is Reported and decision is not None:
            self._report(event, decision)  # type: ignore[arg-type]
        if abandoned:
            self._retire(abandoned)
        for command in commands:
            begin = self._begin.get(type(command))
            if begin is not None:
                self._command(command, at, begin)  # type: ignore[arg-type]
            elif type(command) is Over:
                self.trials[command.trial].fate = command.fate

    def _up(self, event: NodeUp) -> None:
        if event.node in self._open:
            self._stop_doing(event.node, event.at)
        self._leaving.discard(event.node)
        self._open[event.node] = ("idle", event.at, -1, -1, -1)

    def _leaves(self, event: NodeLeaving) -> None:
        self._leaving.add(event.node)
        if self._open[event.node][0] == "idle":
            self._stop_doing(event.node, event.at)
            self._open[event.node] = ("grace", event.at, -1, -1, -1)

    def _ended(self, event: Ended) -> None:
        self.trials[self._close_leg(event)].fate = "censored"

    def _saved(self, event: Saved) -> None:
        kind, since, trial, attempt, step = self._open[event.node]
        self._add(event.node, trial, attempt, kind, since, event.at, step)
        self._open[event.node] = ("wait", event.at, trial, attempt, step)

    def _stop_doing(self, node: int, at: int) -> tuple[TrialId, int, int]:
        """Close what a node does; return its trial, attempt and step."""
        kind, since, trial, attempt, step = self._open[node]
        self._add(node, trial, attempt, kind, since, at, step)
        return trial, attempt, step

    def _down(self, event: NodeDown) -> None:
        if event.node not in self._open:
            pass  # it is out of service from the beginning
        elif event.attempt and self._open[event.node][0] == "train":
            self._ends_saving(event)
        else:
            self._stop_doing(event.node, event.at)
        self._leaving.discard(event.node)
        self._open[event.node] = ("down", event.at, -1, -1, -1)

    def _failed(self, event: Failed) -> None:
        self.failures += 1
        if self._open[event.node][0] == "train":
            self._ends_saving(event)
        else:
            trial, attempt, step = self._stop_doing(event.node, event.at)
            self._open[event.node] = ("wait", event.at, trial, attempt, step)

    def _ends_saving(self, event: NodeDown | Failed | Snapped | Parked) -> None:
        """Close what a worker did since its command, of which it saved in the end."""
        _, since, trial, attempt, step = self._open[event.node]
        began = max(since, event.at - event.save_us)
        self._close_leg(event, began)
        self._add(event.node, trial, attempt, "save", began, event.at, step)
        self._open[event.node] = ("wait", event.at, trial, attempt, step)

    def _parked(self, event: Parked) -> None:
        kind, since, trial, attempt, step = self._open[event.node]
        if kind == "train":
            self._ends_saving(event)
        else:
            began = max(since, event.at - event.save_us)
            self._add(event.node, trial, attempt, kind, since, began, step)
            self._add(event.node, trial, attempt, "save", began, event.at, step)
            self._open[event.node] = ("wait", event.at, trial, attempt, step)
        self.saves += event.step >= 0

    def _snapped(self, event: Snapped) -> None:
        kind, _, trial, attempt, step = self._open[event.node]
        if event.step < 0 or kind != "train":
            return
        self._ends_saving(event)
        self._open[event.node] = ("train", event.at, trial, attempt, step)
        self.saves += 1

    def _close_leg(
        self, event: Reported | Ended | Failed | Parked | Snapped | NodeDown, at: int | None = None
    ) -> TrialId:
        """Split what the worker did since its command; from now on it waits for an answer.

        What does not fit in is cut off: a worker that has reported, and only then learns that
        it is to park, says once more what its report said.
        """
        node, at = event.node, event.at if at is None else at
        _, since, trial, attempt, step = self._open[node]
        if event.wait_us:
            until = min(since + event.wait_us, at)
            self._add(node, trial, attempt, "wait", since, until, step)
            since = until
        if event.start_us:
            until = min(since + event.start_us, at)
            self._add(node, trial, attempt, "start", since, until, step)
            since = until
        if event.load_us:
            until = min(since + event.load_us, at)
            self._add(node, trial, attempt, "load", since, until, step)
            since = until
        if event.redo_us:
            until = min(since + event.redo_us, at)
            self._add(node, trial, attempt, "redo", since, until, step)
            since = until
        self._add(node, trial, attempt, "train", since, at, step)
        self._open[node] = ("wait", at, trial, attempt, step)
        return trial

    def _add(
        self, node: int, trial: int, attempt: int, kind: Kind, start: int, end: int, step: int
    ) -> None:
        if end > start:
            self.intervals.add(node, trial, attempt, kind, start, end, step)
            self.node_us[kind] += end - start

    def _report(self, event: Reported, decision: Decision) -> None:
        trial = self._open[event.node][2]
        record = self.trials[trial]
        self.newest_trial = trial
        self.milestones += 1
        record.milestones += 1
        score = event.score
        record.curve.append(Milestone(event.at / US_PER_S, event.step, score))
        if score is not None:
            record.step = event.step
            record.work += event.step - record.reported
            if record.best_score is None or score > record.best_score:
                record.best_score, record.best_hparams = score, record.hparams
            if self.best is None or score > self.best[0]:
                self.best = (score, trial, event.at)
        record.reported = event.step
        verdict = decision.verdict
        if isinstance(verdict, Stop):
            full = event.step == self.maximum
            record.fate = "diverged" if score is None else "finished" if full else "stopped"
        elif isinstance(verdict, Pause):
            self.preemptions += 1
            self._paused.add(trial)
        if decision.retired:
            self._retire(decision.retired)

    def _retire(self, trials: tuple[TrialId, ...]) -> None:
        for trial in trials:
            self.trials[trial].fate = "stopped"

    def _command(
        self, command: NodeCommand, at: int, begin: Callable[[Any, int, TrialId], _Open]
    ) -> None:
        node = command.node
        kind, since, trial, attempt, step = self._open[node]
        if at > since:
            if kind == "train" and step <= self.trials[trial].reported:
                kind = "redo"  # its worker was ended on its second way to a milestone it had told
            self._add(node, trial, attempt, kind, since, at, step)
        self._open[node] = begin(command, at, trial)

    def _start(self, command: Start, at: int, _: TrialId) -> _Open:
        trial = command.trial
        if trial not in self.trials:
            self.trials[trial] = TrialRecord(command.hparams)
        if command.source is not None:
            self.loads += 1
            self.trials[trial].hparams = command.hparams
        return "train", at, trial, command.attempt, command.until

    def _save(self, command: Save, at: int, trial: TrialId) -> _Open:
        self.saves += 1
        return "save", at, trial, command.attempt, command.checkpoint.step

    def _adopt(self, command: Adopt, at: int, trial: TrialId) -> _Open:
        self.loads += 1
        self.trials[trial].hparams = command.hparams
        return "train", at, trial, command.attempt, command.until

    def _train(self, command: Train, at: int, trial: TrialId) -> _Open:
        self._not_taken(trial)
        return "train", at, trial, command.attempt, command.until

    def _hold(self, command: Hold, at: int, _: TrialId) -> _Open:
        return "wait", at, command.trial, command.attempt, -1

    def _keep(self, command: Keep, at: int, trial: TrialId) -> _Open:
        return "held", at, trial, command.attempt, -1

    def _not_taken(self, trial: TrialId) -> None:
        """A paused trial has kept its node until it went on, or was over: no preemption."""
        if trial in self._paused:
            self._paused.discard(trial)
            self.preemptions -= 1

    def _withdraw(self, _command: Withdraw, at: int, _: TrialId) -> _Open:
        return "down", at, -1, -1, -1

    def _end(self, command: End, at: int, trial: TrialId) -> _Open:
        if self._open[command.node][0] == "held" and self.trials[trial].fate is not None:
            self._not_taken(trial)
        self._paused.discard(trial)
        kind: Kind = "grace" if command.node in self._leaving else "idle"
        return kind, at, -1, -1, -1

    def close(self, at: int) -> Timeline:
        """End the books at `at` (µs) and return the timeline, ordered by node and time."""
        for node, (kind, since, trial, attempt, step) in self._open.items():
            self._add(node, trial, attempt, kind, since, at, step)
        self.intervals = self.intervals.in_order()
        nodes = len(self._open)
        self._open = {}
        return Timeline(nodes, at, self.intervals)
