"""What the contract suite and its players share: what is said to a scheduler, and in what words."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from simsched.messages import Hparams, Key, Report, Searcher, TrialId
from simsched.schedulers import Plan, Scheduler

Make: TypeAlias = Callable[[Plan, Searcher], Scheduler]
Happening: TypeAlias = tuple[str, TrialId, int, float | None]
"""What a scheduler was called with: "ask", "tell" or "abandon"; trial, step and score, or -1."""

Answer = TypeVar("Answer")

ASK: Happening = ("ask", -1, -1, None)


class ContractError(AssertionError):
    """A scheduler broke the protocol; the message ends with all that was said to it."""


class Configurations:
    """A searcher that has `count` configurations, each of which shows where it came from."""

    def __init__(self, count: int) -> None:
        self.count = count

    def suggest(self, trial: TrialId) -> Hparams | None:
        """Return the configuration of a trial, or None when there is none left."""
        return {"x": float(trial), "how": "drawn"} if trial < self.count else None

    def perturb(
        self, hparams: Hparams, key: Key, *, factor: float, resample_probability: float
    ) -> Hparams:
        """Return a configuration that names what it was made of."""
        x = float(hparams["x"]) * factor + resample_probability
        return {"x": x, "how": f"from {hparams['how']} by {key}"[:80]}


def as_text(snapshot: dict[str, Any]) -> str:
    """Return a snapshot as JSON. Raises ContractError where that would change or refuse it."""
    try:
        text = json.dumps(snapshot, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractError(f"a snapshot must hold JSON values only: {error}") from None
    if json.loads(text) != snapshot:
        raise ContractError(
            f"a snapshot must hold JSON values only (lists, not tuples; text as keys): {snapshot}"
        )
    return text


def repeat(scheduler: Scheduler, history: list[tuple[Happening, object]]) -> str | None:
    """Say the same to another scheduler; return how it answers otherwise, None if it does not."""
    for number, ((what, trial, step, score), expected) in enumerate(history):
        answer: object
        if what == "ask":
            answer = scheduler.ask()
        elif what == "tell":
            answer = scheduler.tell(Report(trial, step, score))
        else:
            answer = scheduler.abandon(trial)
        if answer != expected:
            happening = (what, trial, step, score)
            return f"event {number}, {happening}: first {expected}, now {answer}"
    return None
