"""What schedulers have in common: the protocol, the plan of a run, declared parameters.

A scheduler is a state machine. It knows no clock, process, file or random generator: it is
asked for work when a node is free, is told every score, and answers.
"""

import math
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from simsched.errors import SimschedError
from simsched.messages import Decision, Hparams, Report, Run, Searcher, TrialId

CheckpointNeed: TypeAlias = Literal["never", "pause", "milestone"]


class Plan(msgspec.Struct, frozen=True):
    """What a run gives every scheduler: its trials, and how long the longest one may be."""

    trials: int
    phases: int
    phase_length: int
    """Resource units (episodes, steps, …) in a phase."""
    seed: int = 0

    @property
    def maximum(self) -> int:
        """The full length of a trial in resource units."""
        return self.phases * self.phase_length


class Parameter(msgspec.Struct, frozen=True):
    """One parameter of a scheduler, with its bounds; `default` None means that it is derived."""

    name: str
    kind: type[int] | type[float]
    default: float | int | None
    doc: str
    above: float = -math.inf
    below: float = math.inf
    at_least: float = -math.inf
    at_most: float = math.inf

    @property
    def allowed(self) -> str:
        """The allowed range in words, e.g. "a number above 0 and below 1"."""
        bounds = " and ".join(
            f"{name} {value:g}"
            for name, value in (
                ("above", self.above),
                ("at least", self.at_least),
                ("below", self.below),
                ("at most", self.at_most),
            )
            if math.isfinite(value)
        )
        words = "a whole number" if self.kind is int else "a number"
        return f"{words} {'of ' * bounds.startswith('at')}{bounds}".rstrip()

    def parse(self, scheduler: str, value: object) -> float | int | None:
        """Return `value` (text or number) as this parameter's kind.

        Raises:
            SimschedError: it is no such number, or out of bounds.
        """
        if self.default is None and value in (None, "auto"):
            return None
        try:
            number = self.kind(value)  # type: ignore[arg-type, call-overload]
            inside = self.above < number < self.below and self.at_least <= number <= self.at_most
            exact = not isinstance(value, float) or number == value
        except (TypeError, ValueError, OverflowError):
            inside = exact = False
        if not (inside and exact):
            raise SimschedError(f"{scheduler}: {self.name}={value} must be {self.allowed}")
        parsed: float | int = number
        return parsed


class Scheduler(Protocol):
    """What the coordinator asks of a scheduler. Built in or your own, this is all of it."""

    @property
    def checkpoints(self) -> CheckpointNeed:
        """The least it needs: none, one at each pause, or one at every milestone but the last."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should be told about how the plan was fitted; most often nothing."""
        ...

    def ask(self) -> Run | None:
        """A node is free: say what it should run. None leaves the state unchanged."""
        ...

    def tell(self, report: Report) -> Decision:
        """Say what becomes of the trial that reports, and which paused ones are now over."""
        ...

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """A live trial cannot go on (its retries are spent). Return who retires through that."""
        ...

    def done(self) -> bool:
        """Whether all is over; then no trial is running or paused."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take up the state that `snapshot` gave, on a scheduler made with the same arguments."""
        ...


class SchedulerClass(Protocol):
    """What the registry asks of a scheduler's class."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    checkpoints: CheckpointNeed
    __module__: str

    def __call__(self, *args: Any, **parameters: Any) -> Scheduler:
        """Make one: `Class(plan, searcher, **parameters)`."""
        ...


def available(searcher: Searcher, trials: int) -> int:
    """Return how many of `trials` the searcher can supply: a grid or a list may be shorter."""
    if searcher.suggest(trials - 1) is not None:
        return trials
    low, high = 0, trials - 1  # suggest(low - 1) exists, suggest(high) does not
    while low < high:
        middle = (low + high) // 2
        if searcher.suggest(middle) is None:
            high = middle
        else:
            low = middle + 1
    return low


def whole(value: float) -> int:
    """Return floor(value), where a quotient that is whole is not missed by a rounding error."""
    return math.floor(value + 1e-9)


def configuration(searcher: Searcher, trial: TrialId) -> Hparams:
    """Return the hyperparameters of a trial that `available` has counted."""
    hparams = searcher.suggest(trial)
    if hparams is None:
        raise LookupError(f"the searcher has no trial {trial} any more")
    return hparams


def never_stops(name: str, what: str, plan: Plan) -> str:
    """Return the note for a setting that leaves no milestone at which anything is decided."""
    return f"{name}: {what} is not below the {plan.phases} phases, so nothing is stopped early"


def rung_ends(plan: Plan, base: float, eta: float, name: str) -> tuple[int, ...]:
    """Return where rungs end, in resource units: base·eta^k phases, rounded, the last the maximum.

    Raises:
        SimschedError: rounding makes two rungs end at one place, or the first at 0.
    """
    ends: list[int] = []
    length = base * plan.phase_length
    while (end := math.floor(length + 0.5)) < plan.maximum:
        if end <= (ends[-1] if ends else 0):
            raise SimschedError(
                f"{name}: rungs at {base:g}, {base * eta:g}, … phases of {plan.phase_length} (eta="
                f"{eta:g}) round to less than one resource unit apart; make phases or eta larger"
            )
        ends.append(end)
        length *= eta
    return (*ends, plan.maximum)


def rank_key(score: float | None) -> float:
    """Return what sorts scores best first; None, a divergence, comes last."""
    return math.inf if score is None else -score
