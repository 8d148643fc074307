"""Median stopping (Golovin et al. 2017, "Google Vizier", section 3.2.2).

After `grace` milestones, which pass freely, a trial stops if its best score so
far is strictly below the median of the running mean scores, up to the same
step, of all other trials that have reached it. Vizier compares with completed
trials only; here running ones count too, because in a search that stops early
few are ever completed. A diverged trial's mean is below every score; where
nobody else has reached the step, the trial goes on.
"""

import math
from typing import Any, ClassVar

from sortedcontainers import SortedList

from simsched.messages import Searcher, TrialId
from simsched.schedulers._base import Parameter, Plan, never_stops
from simsched.schedulers._in_place import InPlace
from simsched.schedulers._quantile import WORST, quantile

SCALE = 2**1074
"""Every float is a whole multiple of 1 / SCALE."""


class MedianStopping(InPlace):
    """Stops a trial whose best is below the median of the others' running means."""

    name = "median-stopping"
    summary = "stops below the median of the others' running means; no preemption"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("grace", int, 1, "milestones that every trial passes freely", at_least=0),
    )

    def __init__(self, plan: Plan, searcher: Searcher, *, grace: int = 1) -> None:
        super().__init__(plan, searcher)
        self.grace = grace
        if grace >= plan.phases:
            self.notes = (never_stops(self.name, f"grace={grace}", plan),)
        self.means: list[SortedList[float]] = [SortedList() for _ in range(plan.phases)]
        self.history: dict[TrialId, tuple[int, float]] = {}
        """Exact sum of a running trial's scores in units of 1 / SCALE, and the best of them.

        Exact, because a mean that is rounded up would stop a trial of equal scores.
        """

    def goes_on(self, place: int, trial: TrialId, score: float | None) -> bool:
        """Compare with the others that were here, then add this one."""
        others = self.means[place]
        if score is None:
            others.add(WORST)
            self.history.pop(trial, None)
            return False
        total, best = self.history.get(trial, (0, -math.inf))
        numerator, denominator = score.as_integer_ratio()
        total, best = total + numerator * (SCALE // denominator), max(best, score)
        self.history[trial] = total, best
        median = quantile(others, 0.5) if others else None
        others.add(total / ((place + 1) * SCALE))
        stays = place < self.grace or median is None or best >= median
        if not stays or place + 1 == len(self.ends):
            del self.history[trial]
        return stays

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """Forget the trial; the means it reached stand."""
        self.history.pop(trial, None)
        return super().abandon(trial)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return super().snapshot() | {
            "means": [[None if m == WORST else m for m in place] for place in self.means],
            "history": [[trial, hex(total), b] for trial, (total, b) in self.history.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        super().restore(state)
        self.means = [
            SortedList(WORST if m is None else m for m in place) for place in state["means"]
        ]
        self.history = {trial: (int(total, 16), b) for trial, total, b in state["history"]}
