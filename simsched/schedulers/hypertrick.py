"""HyperTrick (Heinrich & Frosio 2019, arXiv 1902.02725).

W0 trials, Np phases, eviction rate r; phases p are counted from 0. When a
trial reports the score of phase p, and k reports of phase p are now in, its
own included:

- k <= W0 * (1 - sqrt(r)) * (1 - r)^p: it goes on (data collection);
- otherwise it is stopped if its score is strictly below the sqrt(r)-quantile
  of all phase-p scores so far, its own included (linear interpolation);
- a diverged trial ranks below every score and is stopped at once;
- after the last phase it stops.

No pause, no checkpoint, no barrier. With scores that say nothing W0 * (1 -
r)^(p+1) trials are expected to survive phase p, and the expected completion
rate, work done over W0 * Np, is E[alpha] = (1 - (1 - r)^Np) / (r * Np), at
least (1 - sqrt(r)) * E[alpha].
"""

import math
from typing import Any, ClassVar

from sortedcontainers import SortedList

from simsched.messages import Searcher, TrialId
from simsched.schedulers._base import Parameter, Plan
from simsched.schedulers._in_place import InPlace
from simsched.schedulers._quantile import WORST, quantile


class HyperTrick(InPlace):
    """Evicts by quantile, phase by phase, without waiting for anybody."""

    name = "hypertrick"
    summary = "stops below a quantile of the scores so far; no barrier, no preemption"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("eviction_rate", float, 0.25, "share r of the trials a phase evicts", 0, 1),
    )

    def __init__(self, plan: Plan, searcher: Searcher, *, eviction_rate: float = 0.25) -> None:
        super().__init__(plan, searcher)
        self.order = math.sqrt(eviction_rate)
        self.collect = [
            # A whole limit must not be missed by a rounding error: 10 * (1 - 0.8) is below 2.
            math.floor(self.trials * (1 - self.order) * (1 - eviction_rate) ** phase + 1e-9)
            for phase in range(plan.phases)
        ]
        self.scores: list[SortedList[float]] = [SortedList() for _ in range(plan.phases)]

    def goes_on(self, place: int, trial: TrialId, score: float | None) -> bool:  # noqa: ARG002
        """Collect data first, then keep what is not below the quantile."""
        scores = self.scores[place]
        scores.add(WORST if score is None else score)
        if score is None:
            return False
        if len(scores) <= self.collect[place]:
            return True
        bar = quantile(scores, self.order)
        return bar is None or score >= bar

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        scores = [[None if s == WORST else s for s in phase] for phase in self.scores]
        return super().snapshot() | {"scores": scores}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        super().restore(state)
        self.scores = [
            SortedList(WORST if s is None else s for s in phase) for phase in state["scores"]
        ]
