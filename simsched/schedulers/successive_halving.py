"""Successive Halving (Jamieson & Talwalkar 2015, arXiv 1502.07943).

Rung k ends at base * eta^k phases, capped at the maximum. Of the n trials
planned for a rung the best max(1, floor(n / eta)) go on, the others stop; the
1 keeps a bracket from drying out before the maximum. Rung sizes are those of
the plan: n, floor(n / eta), and so on.

A barrier: every trial that reaches the end of the rung is paused and saved,
the last one too if it survives; a last one that loses is stopped, unsaved.
Survivors resume best first, on any free node. A diverged trial is stopped at
once and never goes on. An abandoned trial leaves n as planned, the barrier no
longer waits for it. Ties go to the lower trial number.

With more trials than nodes this is preemption, and it is paid for.
"""

from collections import deque
from typing import Any, ClassVar

from simsched.messages import Checkpoint, Decision, Pause, Report, Run, Searcher, Stop, TrialId
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

ETA = Parameter("eta", float, 2.0, "one in eta goes on at each rung", above=1)
BASE = Parameter("base", float, 1.0, "phases to the first rung", above=0)
STOP, PAUSE = Stop(), Pause()


def rung_sizes(trials: int, rungs: int, eta: float) -> tuple[int, ...]:
    """Return how many trials each rung is planned for: repeated max(1, floor(n / eta))."""
    sizes = [trials]
    while len(sizes) < rungs:
        sizes.append(max(1, whole(sizes[-1] / eta)))
    return tuple(sizes)


class Bracket:
    """One run of Successive Halving over neighbouring trials, from `first` on."""

    def __init__(self, first: TrialId, sizes: tuple[int, ...], ends: tuple[int, ...]) -> None:
        self.first, self.sizes, self.ends = first, sizes, ends
        self.rung = 0
        self.ready: deque[TrialId] = deque(range(first, first + sizes[0]))
        """Who waits for a node in this rung, best first; in rung 0 the trials to start."""
        self.running: set[TrialId] = set()
        self.paused: dict[TrialId, float] = {}
        """The score of each trial that waits at the barrier."""

    def ask(self) -> tuple[TrialId, int, Checkpoint | None] | None:
        """Return the next trial, its milestone and its source."""
        if not self.ready:
            return None
        trial = self.ready.popleft()
        self.running.add(trial)
        source = Checkpoint(trial, self.ends[self.rung - 1]) if self.rung else None
        return trial, self.ends[self.rung], source

    def tell(self, report: Report) -> Decision:
        """Wait at the barrier, or open it."""
        trial = report.trial
        self.running.remove(trial)
        if self.rung == len(self.ends) - 1:
            return Decision(STOP)
        if report.score is not None:
            self.paused[trial] = report.score
        losers = self._open_barrier()
        if report.score is None or trial in losers:
            return Decision(STOP, tuple(t for t in losers if t != trial))
        return Decision(PAUSE, losers)

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """The barrier no longer waits for `trial`."""
        if trial in self.running:
            self.running.remove(trial)
        elif self.paused.pop(trial, None) is None:
            self.ready.remove(trial)
        return self._open_barrier()

    def _open_barrier(self) -> tuple[TrialId, ...]:
        """Start the next rung if nobody is missing; return who does not go on."""
        if self.ready or self.running or not self.paused:
            return ()
        ranked = sorted(self.paused, key=lambda trial: (rank_key(self.paused[trial]), trial))
        self.rung += 1
        go_on = self.sizes[self.rung]
        self.ready.extend(ranked[:go_on])
        self.paused.clear()
        return tuple(sorted(ranked[go_on:]))

    def done(self) -> bool:
        """Whether nothing is running, paused or to be started."""
        return not (self.ready or self.running or self.paused)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "rung": self.rung,
            "ready": list(self.ready),
            "running": sorted(self.running),
            "paused": [list(pair) for pair in self.paused.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        self.rung = state["rung"]
        self.ready = deque(state["ready"])
        self.running = set(state["running"])
        self.paused = dict(state["paused"])


class Brackets:
    """A scheduler made of brackets that share the cluster, the first one served first."""

    checkpoints: ClassVar[CheckpointNeed] = "pause"

    def __init__(self, searcher: Searcher, brackets: list[Bracket], notes: tuple[str, ...]) -> None:
        self.searcher = searcher
        self.brackets = brackets
        self.notes = notes
        self._bracket_of = [b for b in brackets for _ in range(b.sizes[0])]

    def ask(self) -> Run | None:
        """Serve the first bracket that has something to run."""
        for bracket in self.brackets:
            if (work := bracket.ask()) is not None:
                trial, until, source = work
                return Run(trial, configuration(self.searcher, trial), until, source)
        return None

    def tell(self, report: Report) -> Decision:
        """Leave it to the trial's bracket."""
        return self._bracket_of[report.trial].tell(report)

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """Leave it to the trial's bracket."""
        return self._bracket_of[trial].abandon(trial)

    def done(self) -> bool:
        """Whether every bracket is done."""
        return all(bracket.done() for bracket in self.brackets)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"brackets": [bracket.snapshot() for bracket in self.brackets]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        for bracket, saved in zip(self.brackets, state["brackets"], strict=True):
            bracket.restore(saved)


class SuccessiveHalving(Brackets):
    """One bracket over all trials."""

    name = "successive-halving"
    summary = "the best 1/eta of a rung go on together; a barrier, paid for with preemptions"
    parameters: ClassVar[tuple[Parameter, ...]] = (ETA, BASE)

    def __init__(
        self, plan: Plan, searcher: Searcher, *, eta: float = 2.0, base: float = 1.0
    ) -> None:
        ends = rung_ends(plan, base, eta, self.name)
        sizes = rung_sizes(available(searcher, plan.trials), len(ends), eta)
        notes = (never_stops(self.name, f"base={base:g}", plan),) if len(ends) == 1 else ()
        super().__init__(searcher, [Bracket(0, sizes, ends)], notes)
