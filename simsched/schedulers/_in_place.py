"""Schedulers that never pause: at each milestone a trial goes on in place or stops.

Trials start in the order of their numbers and keep their node until they are over, so
there is nothing to checkpoint and nothing to hand over.
"""

from typing import Any, ClassVar

from simsched.messages import Continue, Decision, Report, Run, Searcher, Stop, TrialId
from simsched.schedulers._base import CheckpointNeed, Parameter, Plan, available, configuration

STOP = Decision(Stop())


class InPlace:
    """Base of such schedulers; a subclass says in `goes_on` who stays."""

    parameters: ClassVar[tuple[Parameter, ...]] = ()
    checkpoints: ClassVar[CheckpointNeed] = "never"
    notes: tuple[str, ...] = ()

    def __init__(self, plan: Plan, searcher: Searcher) -> None:
        self.searcher = searcher
        self.trials = available(searcher, plan.trials)
        self.started = 0
        self.running: set[TrialId] = set()
        self._set_milestones(
            tuple(plan.phase_length * phase for phase in range(1, plan.phases + 1))
        )

    def _set_milestones(self, ends: tuple[int, ...]) -> None:
        self.ends = ends
        self._place = {end: place for place, end in enumerate(ends)}
        self._continue = [Decision(Continue(end)) for end in ends[1:]]

    def goes_on(self, place: int, trial: TrialId, score: float | None) -> bool:
        """Take in the score of milestone `place` (from 0); say whether the trial goes on.

        It is called for every report, diverged and last ones too, whose trials end anyhow.
        """
        raise NotImplementedError

    def ask(self) -> Run | None:
        """Start the next trial, if there is one left."""
        if self.started == self.trials:
            return None
        trial = self.started
        self.started += 1
        self.running.add(trial)
        return Run(trial, configuration(self.searcher, trial), self.ends[0])

    def tell(self, report: Report) -> Decision:
        """Stop the trial or let it go on in place."""
        place = self._place[report.step]
        goes_on = self.goes_on(place, report.trial, report.score)
        if goes_on and report.score is not None and place + 1 < len(self.ends):
            return self._continue[place]
        self.running.remove(report.trial)
        return STOP

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """Forget a running trial; its earlier reports stand."""
        self.running.remove(trial)
        return ()

    def done(self) -> bool:
        """Whether every trial has been started and is over."""
        return self.started == self.trials and not self.running

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"started": self.started, "running": sorted(self.running)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        self.started = state["started"]
        self.running = set(state["running"])
