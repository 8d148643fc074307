"""The accounting: turns the stream of events and commands into timeline and trial results.

It sees what the journal holds and nothing else, so a timeline can be made while a run goes
on or from its journal afterwards, for simulated and live runs alike.
"""

import msgspec

from simsched.events import (
    Adopt,
    Command,
    End,
    Ended,
    Event,
    Hold,
    NodeUp,
    Reported,
    Save,
    Saved,
    Start,
    Train,
)
from simsched.messages import Decision, Hparams, Pause, Stop, TrialId
from simsched.results import Fate, Milestone
from simsched.timeline import KINDS, US_PER_S, Interval, Kind, Timeline


class TrialRecord(msgspec.Struct):
    """What is known of a trial so far; scores are those inside: larger is better."""

    hparams: Hparams
    milestones: int = 0
    step: int = 0
    best_score: float | None = None
    fate: Fate | None = None
    curve: list[Milestone] = []


class Ledger:
    """Keeps the books of one run. `maximum`: a trial's full length in resource units."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.intervals: list[Interval] = []
        self.node_us: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self.trials: dict[TrialId, TrialRecord] = {}
        self.preemptions = self.saves = self.loads = self.milestones = 0
        self.best: tuple[float, TrialId, int] | None = None
        """Best score so far, its trial, and when it was first reported."""
        self._open: dict[int, tuple[Kind, int, TrialId, int, int]] = {}
        """Of each node: kind, since, trial, attempt, step of what it does."""

    def observe(
        self,
        event: Event,
        decision: Decision | None,
        abandoned: tuple[TrialId, ...],
        commands: list[Command],
    ) -> None:
        """Take in one event with its answers."""
        at = event.at
        if isinstance(event, Reported):
            trial = self._close_leg(event)
            if decision is not None:
                self._report(event, trial, decision)
        elif isinstance(event, Ended):
            self.trials[self._close_leg(event)].fate = "censored"
            self._retire(abandoned)
        elif isinstance(event, NodeUp):
            self._open[event.node] = ("idle", at, -1, -1, -1)
        else:
            self._saved(event)
        for command in commands:
            self._command(command, at)

    def _saved(self, event: Saved) -> None:
        kind, since, trial, attempt, step = self._open[event.node]
        self._add(event.node, trial, attempt, kind, since, event.at, step)
        self._open[event.node] = ("wait", event.at, trial, attempt, step)

    def _close_leg(self, event: Reported | Ended) -> TrialId:
        """Split what the worker did since its command; from now on it waits for an answer."""
        node, at = event.node, event.at
        _, since, trial, attempt, step = self._open[node]
        started = since + event.start_us
        loaded = started + event.load_us
        self._add(node, trial, attempt, "start", since, started, step)
        self._add(node, trial, attempt, "load", started, loaded, step)
        self._add(node, trial, attempt, "train", loaded, at, step)
        self._open[node] = ("wait", at, trial, attempt, step)
        return trial

    def _add(
        self, node: int, trial: int, attempt: int, kind: Kind, start: int, end: int, step: int
    ) -> None:
        if end > start:
            self.intervals.append(Interval(node, trial, attempt, kind, start, end, step))
            self.node_us[kind] += end - start

    def _report(self, event: Reported, trial: TrialId, decision: Decision) -> None:
        record = self.trials[trial]
        self.milestones += 1
        record.milestones += 1
        score = event.score
        record.curve.append(Milestone(event.at / US_PER_S, event.step, score))
        if score is not None:
            record.step = event.step
            if record.best_score is None or score > record.best_score:
                record.best_score = score
            if self.best is None or score > self.best[0]:
                self.best = (score, trial, event.at)
        verdict = decision.verdict
        if isinstance(verdict, Stop):
            full = event.step == self.maximum
            record.fate = "diverged" if score is None else "finished" if full else "stopped"
        elif isinstance(verdict, Pause):
            self.preemptions += 1
        self._retire(decision.retired)

    def _retire(self, trials: tuple[TrialId, ...]) -> None:
        for trial in trials:
            self.trials[trial].fate = "stopped"

    def _command(self, command: Command, at: int) -> None:
        node, attempt = command.node, command.attempt
        kind, since, trial, old_attempt, step = self._open[node]
        self._add(node, trial, old_attempt, kind, since, at, step)
        if isinstance(command, Train):
            self._open[node] = ("train", at, trial, attempt, command.until)
        elif isinstance(command, End):
            self._open[node] = ("idle", at, -1, -1, -1)
        elif isinstance(command, Start):
            if command.trial not in self.trials:
                self.trials[command.trial] = TrialRecord(command.hparams)
            self._load(command.trial, command.hparams, loads=command.source is not None)
            self._open[node] = ("train", at, command.trial, attempt, command.until)
        elif isinstance(command, Save):
            self.saves += 1
            self._open[node] = ("save", at, trial, attempt, command.checkpoint.step)
        elif isinstance(command, Adopt):
            self._load(trial, command.hparams, loads=True)
            self._open[node] = ("train", at, trial, attempt, command.until)
        else:
            self._hold(command, at)

    def _hold(self, command: Hold, at: int) -> None:
        self._open[command.node] = ("wait", at, command.trial, command.attempt, -1)

    def _load(self, trial: TrialId, hparams: Hparams, *, loads: bool) -> None:
        if loads:
            self.loads += 1
            self.trials[trial].hparams = hparams

    def close(self, at: int) -> Timeline:
        """End the books at `at` (µs) and return the timeline, ordered by node and time."""
        for node, (kind, since, trial, attempt, step) in self._open.items():
            self._add(node, trial, attempt, kind, since, at, step)
        self.intervals.sort(key=lambda interval: (interval.node, interval.start_us))
        nodes = len(self._open)
        self._open = {}
        return Timeline(nodes, at, self.intervals)
