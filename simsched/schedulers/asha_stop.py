"""ASHA, the stopping variant (Li et al. 2020, arXiv 1810.05934).

Rungs end at base * eta^k phases, capped at the maximum. A trial goes on, in
place, if its score is among the best max(1, floor(n / eta)) of the n reports
of the rung so far, its own included; else it stops. Ties go to the lower trial
number. No pause, no checkpoint.
"""

import math
from typing import Any, ClassVar

from sortedcontainers import SortedList

from simsched.messages import Searcher, TrialId
from simsched.schedulers._base import Parameter, Plan, never_stops, rank_key, rung_ends, whole
from simsched.schedulers._in_place import InPlace
from simsched.schedulers.successive_halving import BASE, ETA


class AshaStop(InPlace):
    """Asynchronous Successive Halving that stops instead of pausing."""

    name = "asha-stop"
    summary = "asynchronous halving, stopping variant: no barrier, no preemption"
    parameters: ClassVar[tuple[Parameter, ...]] = (ETA, BASE)

    def __init__(
        self, plan: Plan, searcher: Searcher, *, eta: float = 2.0, base: float = 1.0
    ) -> None:
        super().__init__(plan, searcher)
        self.eta = eta
        self._set_milestones(rung_ends(plan, base, eta, self.name))
        if len(self.ends) == 1:
            self.notes = (never_stops(self.name, f"base={base:g}", plan),)
        self.reports: list[SortedList[tuple[float, TrialId]]] = [SortedList() for _ in self.ends]

    def goes_on(self, place: int, trial: TrialId, score: float | None) -> bool:
        """Whether the report is among the best of its rung so far."""
        reports = self.reports[place]
        mine = (rank_key(score), trial)
        reports.add(mine)
        place_in_rung: int = reports.bisect_left(mine)
        return place_in_rung < max(1, whole(len(reports) / self.eta))

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        rungs = [
            [[None if key == math.inf else key, trial] for key, trial in rung]
            for rung in self.reports
        ]
        return super().snapshot() | {"reports": rungs}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        super().restore(state)
        self.reports = [
            SortedList((math.inf if key is None else key, trial) for key, trial in rung)
            for rung in state["reports"]
        ]
