"""After a search: training on what the scheduler stopped, so that the curves are whole."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from simsched.coordinator import Coordinator
from simsched.ledger import Ledger
from simsched.messages import Checkpoint, Continue, Decision, Hparams, Report, Run, Stop, TrialId
from simsched.retries import Policy
from simsched.schedulers import CheckpointNeed, Plan


class Rest(NamedTuple):
    """A trial that was stopped early."""

    trial: TrialId
    hparams: Hparams
    step: int
    """Its newest milestone."""
    source: Checkpoint | None
    """Its newest checkpoint; without one it is trained from scratch."""


def rests(coordinator: Coordinator, ledger: Ledger) -> list[Rest]:
    """Return the trials that a search stopped, or cut off, in their order."""
    found = []
    for trial, record in sorted(ledger.trials.items()):
        if record.fate in ("stopped", "censored"):
            source = coordinator.shelf.newest(trial)
            step = 0 if source is None else source.step
            found.append(Rest(trial, record.hparams, step, source))
    return found


class Completion:
    """A scheduler that stops nobody: each trial goes on from where it was, to the end."""

    checkpoints: CheckpointNeed = "never"
    notes: tuple[str, ...] = ()

    def __init__(self, plan: Plan, trials: Sequence[Rest]) -> None:
        self.plan = plan
        self.left = deque(trials)
        self.running: set[TrialId] = set()

    def _next(self, step: int) -> int:
        length = self.plan.phase_length
        return min((step // length + 1) * length, self.plan.maximum)

    def ask(self) -> Run | None:
        """Give the node to the next trial."""
        if not self.left:
            return None
        rest = self.left.popleft()
        self.running.add(rest.trial)
        return Run(rest.trial, rest.hparams, self._next(rest.step), rest.source)

    def tell(self, report: Report) -> Decision:
        """Let the trial go on until its end."""
        if report.score is None or report.step >= self.plan.maximum:
            self.running.discard(report.trial)
            return Decision(Stop())
        return Decision(Continue(self._next(report.step)))

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """Leave a trial as it is."""
        self.running.discard(trial)
        return ()

    def done(self) -> bool:
        """Whether all have been trained to the end."""
        return not self.left and not self.running

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"left": len(self.left), "running": sorted(self.running)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        while len(self.left) > state["left"]:
            self.left.popleft()
        self.running = set(state["running"])


def completing(coordinator: Coordinator, ledger: Ledger, plan: Plan, policy: Policy) -> Coordinator:
    """Return the coordinator that completes a finished search."""
    trials = rests(coordinator, ledger)
    completing = Coordinator(Completion(plan, trials), policy)
    for rest in trials:
        if rest.source is not None:
            completing.shelf.add(rest.source)
    return completing
