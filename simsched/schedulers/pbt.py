"""PBT, Population Based Training (Jaderberg et al. 2017, arXiv 1711.09846).

All trials form one population; at each interval (in phases) a member reports.
Truncation selection: members are ranked by their newest score, n of them have
one. A member among the bottom floor(q * n) takes the weights of one drawn from
the top floor(q * n), and that one's hyperparameters, perturbed or resampled;
it keeps its own step count. A diverged member does the same (drawing from at
least the best one), or stops if nobody has weights to give.

With a population larger than the cluster the members take turns: after an
interval a member yields its node when a strictly less advanced one waits, and
a free node takes the least advanced one that waits. Every turn is a preemption
that is paid for. A member that exploits and must also yield saves nothing and
comes back from the donor's weights.

Donors must be durable, so every milestone saves but the last of a trial, and
those of a member whose weights are being replaced. A donor gives the weights
that its newest save, or the donor it took after, holds.
"""

import math
from typing import Any, ClassVar

import msgspec
from sortedcontainers import SortedList

from simsched.draws import keyed
from simsched.messages import (
    Checkpoint,
    Continue,
    Decision,
    Exploit,
    Hparams,
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
    whole,
)

STOP = Decision(Stop())


class Member(msgspec.Struct):
    """One trial of the population."""

    hparams: Hparams
    step: int = 0
    score: float | None = None
    reported: bool = False
    weights: Checkpoint | None = None
    """Where the weights of its newest milestone are durable; it resumes from there."""


class PopulationBasedTraining:
    """Evolves weights and hyperparameters; the weak copy the strong."""

    name = "pbt"
    summary = "a population in which the weak copy the strong; members take turns on the nodes"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("quantile", float, 0.25, "share that copies, and share that is copied",
                  above=0, at_most=0.5),
        Parameter("interval", int, 1, "phases between two exploits", at_least=1),
        Parameter("resample_probability", float, 0.25, "chance that a hyperparameter is drawn anew",
                  at_least=0, at_most=1),
        Parameter("perturb", float, 1.2, "factor a hyperparameter is multiplied or divided by",
                  above=1),
    )  # fmt: skip
    checkpoints: ClassVar[CheckpointNeed] = "milestone"
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        plan: Plan,
        searcher: Searcher,
        *,
        quantile: float = 0.25,
        interval: int = 1,
        resample_probability: float = 0.25,
        perturb: float = 1.2,
    ) -> None:
        self.plan = plan
        self.searcher = searcher
        self.quantile = quantile
        self.stride = interval * plan.phase_length
        self.resample_probability = resample_probability
        self.factor = perturb
        if self.stride >= plan.maximum:
            self.notes = (never_stops(self.name, f"interval={interval}", plan),)
        self.trials = available(searcher, plan.trials)
        self.started = 0
        self.members: dict[TrialId, Member] = {}
        self.running: set[TrialId] = set()
        self.waiting: SortedList[tuple[int, TrialId]] = SortedList()
        """Paused members by (step, trial)."""
        self.ranking: SortedList[tuple[float, TrialId]] = SortedList()

    def ask(self) -> Run | None:
        """Give the node to the least advanced member that waits."""
        if self.started < self.trials:
            trial = self.started
            self.members[trial] = Member(configuration(self.searcher, trial))
            self.started += 1
        elif self.waiting:
            _, trial = self.waiting.pop(0)
        else:
            return None
        self.running.add(trial)
        member = self.members[trial]
        return Run(trial, member.hparams, self._next(member), member.weights)

    def _next(self, member: Member) -> int:
        return min(member.step + self.stride, self.plan.maximum)

    def tell(self, report: Report) -> Decision:
        """Rank the member anew; let it exploit, yield, go on or stop."""
        trial = report.trial
        member = self.members[trial]
        if member.reported:
            self.ranking.remove((rank_key(member.score), trial))
        member.step, member.score, member.reported = report.step, report.score, True
        self.ranking.add((rank_key(report.score), trial))
        if report.step == self.plan.maximum:
            self.running.remove(trial)
            return STOP
        donor = self._donor(trial, member)
        if donor is not None:
            member.weights = donor.weights
            member.hparams = self.searcher.perturb(
                donor.hparams, (trial, report.step), factor=self.factor,
                resample_probability=self.resample_probability,
            )  # fmt: skip
        elif report.score is None:
            self.running.remove(trial)
            return STOP
        else:
            member.weights = Checkpoint(trial, report.step)
        if self._somebody_waits_below(report.step):
            self.running.remove(trial)
            self.waiting.add((member.step, trial))
            return Decision(Pause(save=donor is None))
        until = self._next(member)
        if donor is not None and donor.weights is not None:
            return Decision(Exploit(donor.weights, member.hparams, until))
        return Decision(Continue(until))

    def _somebody_waits_below(self, step: int) -> bool:
        if self.started < self.trials:
            return True
        return bool(self.waiting) and self.waiting[0][0] < step

    def _donor(self, trial: TrialId, member: Member) -> Member | None:
        """Return whom the member copies, if it must copy anybody."""
        ranked = len(self.ranking)
        share = whole(self.quantile * ranked)
        diverged = member.score is None
        place = self.ranking.bisect_left((rank_key(member.score), trial))
        if not diverged and place < ranked - share:
            return None
        # The top share without divergences. All of it has weights: whoever reported a score
        # before its last milestone has, and where the first milestone is the last, nobody asks.
        finite = self.ranking.bisect_left((math.inf, -1))
        candidates = min(max(1, share) if diverged else share, finite)
        if not candidates:
            return None
        rng = keyed(self.plan.seed, "donor", trial, member.step)
        return self.members[self.ranking[int(rng.integers(candidates))][1]]

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """Take a live member out of the population."""
        member = self.members[trial]
        if member.reported:
            self.ranking.remove((rank_key(member.score), trial))
            member.reported = False
        self.running.discard(trial)
        self.waiting.discard((member.step, trial))
        return ()

    def done(self) -> bool:
        """Whether every member has been trained to the end."""
        return self.started == self.trials and not self.running and not self.waiting

    def held(self) -> set[Checkpoint]:
        """Return the checkpoints that a member may yet come back from, or copy."""
        return {m.weights for m in self.members.values() if m.weights is not None}

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "started": self.started,
            "members": [[trial, msgspec.to_builtins(m)] for trial, m in self.members.items()],
            "running": sorted(self.running),
            "waiting": [list(pair) for pair in self.waiting],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot."""
        self.started = state["started"]
        self.members = {t: msgspec.convert(m, Member) for t, m in state["members"]}
        self.running = set(state["running"])
        self.waiting = SortedList((step, trial) for step, trial in state["waiting"])
        self.ranking = SortedList(
            (rank_key(m.score), t) for t, m in self.members.items() if m.reported
        )
