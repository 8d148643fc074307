"""ASHA, the promoting variant (Li et al. 2020, arXiv 1810.05934).

Rungs end at base * eta^k phases, capped at the maximum. n is the number of
reports of a rung so far. A trial that is in the top floor(n / eta) of its rung
at its own report goes on in place; others are paused. A free node takes the
promotable trial of the highest rung, that is, the best paused one that is in
the top floor(n / eta) by now, and else a new trial. Diverged trials rank last
and stop at once. Ties go to the lower trial number.

When a report leaves nothing running, nothing promotable and no trial to start,
no rung can ever grow: the reporting trial is stopped rather than paused, and
all paused ones retire.
"""

import math
from typing import Any, ClassVar

from sortedcontainers import SortedList

from simsched.messages import (
    Checkpoint,
    Continue,
    Decision,
    Pause,
    Report,
    Run,
    Searcher,
    Stop,
    TrialId,
)
from simsched.schedulers._base import (
    CheckpointNeed,
    Parameter,
    Plan,
    available,
    configuration,
    never_stops,
    rank_key,
    rung_ends,
    whole,
)
from simsched.schedulers.successive_halving import BASE, ETA


class Asha:
    """Promotes a trial as soon as its rung has enough reports."""

    name = "asha"
    summary = "asynchronous halving, promotion variant: no barrier, but pauses and resumes"
    parameters: ClassVar[tuple[Parameter, ...]] = (ETA, BASE)
    checkpoints: ClassVar[CheckpointNeed] = "pause"
    notes: tuple[str, ...] = ()

    def __init__(
        self, plan: Plan, searcher: Searcher, *, eta: float = 2.0, base: float = 1.0
    ) -> None:
        self.searcher = searcher
        self.eta = eta
        self.trials = available(searcher, plan.trials)
        self.ends = rung_ends(plan, base, eta, self.name)
        if len(self.ends) == 1:
            self.notes = (never_stops(self.name, f"base={base:g}", plan),)
        self._rung_of = {end: rung for rung, end in enumerate(self.ends)}
        self.started = 0
        self.running: set[TrialId] = set()
        self.reports: list[SortedList[tuple[float, TrialId]]] = [SortedList() for _ in self.ends]
        self.paused: list[SortedList[tuple[float, TrialId]]] = [SortedList() for _ in self.ends]
        self._nobody = [False] * len(self.ends)
        """Rungs known to have nobody to promote; only a report there changes that."""

    def ask(self) -> Run | None:
        """Promote from the highest rung that has someone, else start a new trial."""
        rung = self._promotable_rung()
        if rung is not None:
            _, trial = self.paused[rung].pop(0)
            source = Checkpoint(trial, self.ends[rung])
            until = self.ends[rung + 1]
        elif self.started < self.trials:
            trial, source, until = self.started, None, self.ends[0]
            self.started += 1
        else:
            return None
        self.running.add(trial)
        return Run(trial, configuration(self.searcher, trial), until, source)

    def _promotable_rung(self) -> int | None:
        for rung in range(len(self.ends) - 2, -1, -1):
            if self._nobody[rung]:
                continue
            paused = self.paused[rung]
            if paused and self._in_top(rung, paused[0]):
                return rung
            self._nobody[rung] = True
        return None

    def _in_top(self, rung: int, mine: tuple[float, TrialId]) -> bool:
        reports = self.reports[rung]
        place: int = reports.bisect_left(mine)
        return place < whole(len(reports) / self.eta)

    def tell(self, report: Report) -> Decision:
        """Go on in place, pause, or stop."""
        rung = self._rung_of[report.step]
        mine = (rank_key(report.score), report.trial)
        self.reports[rung].add(mine)
        self._nobody[rung] = False
        last = rung == len(self.ends) - 1
        if not last and report.score is not None and self._in_top(rung, mine):
            return Decision(Continue(self.ends[rung + 1]))
        self.running.remove(report.trial)
        if last or report.score is None:
            return Decision(Stop(), self._retire_if_over())
        self.paused[rung].add(mine)
        retired = self._retire_if_over()
        if retired:
            return Decision(Stop(), tuple(t for t in retired if t != report.trial))
        return Decision(Pause())

    def _retire_if_over(self) -> tuple[TrialId, ...]:
        over = self.started == self.trials and not self.running
        if not over or self._promotable_rung() is not None:
            return ()
        retired = sorted(trial for paused in self.paused for _, trial in paused)
        for paused in self.paused:
            paused.clear()
        return tuple(retired)

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """Forget a live trial; its reports stand."""
        if trial in self.running:
            self.running.remove(trial)
        else:
            for paused in self.paused:
                for entry in [entry for entry in paused if entry[1] == trial]:
                    paused.remove(entry)
        return self._retire_if_over()

    def done(self) -> bool:
        """Whether nothing is left to start, to promote or to wait for."""
        return self.started == self.trials and not self.running and not any(self.paused)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""

        def plain(rungs: list[Any]) -> list[list[list[Any]]]:
            return [[[None if k == math.inf else k, t] for k, t in rung] for rung in rungs]

        return {
            "started": self.started,
            "running": sorted(self.running),
            "reports": plain(self.reports),
            "paused": plain(self.paused),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""

        def ranked(rungs: list[Any]) -> list[Any]:
            return [SortedList((math.inf if k is None else k, t) for k, t in r) for r in rungs]

        self.started = state["started"]
        self.running = set(state["running"])
        self._nobody = [False] * len(self.ends)
        self.reports = ranked(state["reports"])
        self.paused = ranked(state["paused"])
