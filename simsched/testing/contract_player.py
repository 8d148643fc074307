"""Plays the world to one scheduler, and checks every answer against the protocol.

What is checked is what the coordinator relies on (`simsched.schedulers.Scheduler` and the rules
in `docs/architecture.md`): who may run, whose milestones lie where, from which checkpoints
trials go on, who is over. Needs nothing but simsched, so a state machine, a test or a debugger
may drive it.
"""

import json
import math
from collections.abc import Callable
from typing import NoReturn

from simsched.messages import (
    Checkpoint,
    Continue,
    Decision,
    Exploit,
    Hparams,
    Pause,
    Report,
    Run,
    Stop,
    TrialId,
)
from simsched.schedulers import Plan, Scheduler
from simsched.testing.contract_values import (
    ASK,
    Answer,
    Configurations,
    ContractError,
    Happening,
    Make,
    as_text,
)


class Player:
    """One scheduler, what it was told, and what a world would know by now.

    Args:
        make: builds the scheduler.
        plan: of the run.
        configurations: how many the searcher has; as many as trials if left out.
        starts_all: whether every trial must have been started when all is done.
    """

    def __init__(
        self, make: Make, plan: Plan, configurations: int | None = None, *, starts_all: bool = True
    ) -> None:
        self.plan = plan
        self.trials = plan.trials if configurations is None else min(plan.trials, configurations)
        self.starts_all = starts_all
        self._make = make
        self.scheduler = self.fresh()
        self.need = self.scheduler.checkpoints
        self.history: list[tuple[Happening, object]] = []
        """Everything that happened, each with the scheduler's answer."""
        self.running: dict[TrialId, int] = {}
        """Trial to the milestone that it is heading for."""
        self.paused: set[TrialId] = set()
        self.over: set[TrialId] = set()
        self.step: dict[TrialId, int] = {}
        """Started trial to its newest milestone, 0 before the first."""
        self.durable: set[Checkpoint] = set()
        self._origin: dict[TrialId, Checkpoint] = {}
        """What a restart would go on from: the newest save, or the donor's taken since."""

    def fresh(self) -> Scheduler:
        """Return another scheduler that has been told nothing yet."""
        return self._make(self.plan, Configurations(self.trials))

    @property
    def live(self) -> list[TrialId]:
        """The trials that are running or paused."""
        return sorted({*self.running, *self.paused})

    def log(self) -> str:
        """Return all that was said so far."""
        lines = [f"{happening} -> {answer}" for happening, answer in self.history]
        return "\n".join([f"{self.plan}, {self.trials} trials", *lines])

    def fail(self, reason: str) -> NoReturn:
        """Say what is wrong, and how it came to it. Raises ContractError."""
        raise ContractError(f"{reason}\n{self.log()}")

    def must(self, condition: bool, reason: str) -> None:
        """Fail unless the condition holds."""
        if not condition:
            self.fail(reason)

    def ask(self) -> Run | None:
        """A node is free; return what the scheduler would have it run."""
        before = as_text(self.scheduler.snapshot())
        run = self._call(ASK, lambda: self.scheduler.ask())
        if run is None:
            self.must(
                as_text(self.scheduler.snapshot()) == before,
                "`ask` gave None and yet changed the state",
            )
            if not self.running:
                self.must(self.scheduler.done(), "nothing runs, nothing is to be run, yet not done")
        else:
            self._check_run(run)
            self.paused.discard(run.trial)
            self.step.setdefault(run.trial, 0)
            self.running[run.trial] = run.until
            if run.source is not None:
                self._origin[run.trial] = run.source
        self._settle()
        return run

    def _check_run(self, run: Run) -> None:
        trial = run.trial
        if trial not in self.step:
            number = len(self.step)
            self.must(trial == number, f"trial {trial} was started; the next number is {number}")
            self.must(trial < self.trials, f"trial {trial} was started; there are {self.trials}")
        else:
            self.must(trial not in self.running, f"trial {trial} is to run, and runs already")
            self.must(trial not in self.over, f"trial {trial} is to run, and is over")
            self.must(
                run.source is not None,
                f"trial {trial} is to go on after {self.step[trial]} without a checkpoint",
            )
        self._check_milestone(trial, run.until)
        if run.source is not None:
            self._check_source(trial, run.source)
        self._check_hparams(run.hparams)

    def _check_milestone(self, trial: TrialId, until: int) -> None:
        self.must(type(until) is int, f"the milestone {until!r} of trial {trial} is no integer")
        step, maximum = self.step.get(trial, 0), self.plan.maximum
        self.must(
            step < until <= maximum,
            f"the milestone {until} of trial {trial} must be above {step} and at most {maximum}",
        )

    def _check_source(self, trial: TrialId, source: Checkpoint) -> None:
        self.must(
            self.need != "never", f"trial {trial} is to go on from {source}; none are ever saved"
        )
        self.must(
            source in self.durable,
            f"trial {trial} is to go on from {source}, which was never saved, or was deleted as "
            f"nothing held it; there are {sorted((c.trial, c.step) for c in self.durable)}",
        )

    def _check_hparams(self, hparams: Hparams) -> None:
        good = isinstance(hparams, dict) and all(
            isinstance(name, str)
            and isinstance(value, float | int | str | bool)
            and not (isinstance(value, float) and not math.isfinite(value))
            for name, value in hparams.items()
        )
        self.must(good, f"{hparams!r} are no hyperparameters")

    def tell(self, trial: TrialId, score: float | None) -> Decision:
        """A running trial reaches its milestone; return what becomes of it."""
        step = self.running[trial]
        report = Report(trial, step, score)
        decision = self._call(("tell", trial, step, score), lambda: self.scheduler.tell(report))
        self.must(isinstance(decision, Decision), f"`tell` gave {decision!r}, not a Decision")
        self.step[trial] = step
        verdict = decision.verdict
        if isinstance(verdict, Continue | Exploit):
            self.must(
                score is not None or isinstance(verdict, Exploit),
                f"trial {trial} diverged and is to go on",
            )
            self._check_milestone(trial, verdict.until)
            self.running[trial] = verdict.until
            if isinstance(verdict, Exploit):
                self._check_source(trial, verdict.donor)
                self._check_hparams(verdict.hparams)
                self._origin[trial] = verdict.donor
            elif self.need == "milestone":
                self._save(trial)
        else:
            self.must(isinstance(verdict, Pause | Stop), f"{verdict!r} is no verdict")
            del self.running[trial]
            if isinstance(verdict, Pause):
                self._pause(trial, step, score, save=verdict.save)
            else:
                self.over.add(trial)
        self._retire(decision.retired, trial)
        self._settle()
        return decision

    def _pause(self, trial: TrialId, step: int, score: float | None, *, save: bool) -> None:
        self.must(self.need != "never", f"trial {trial} is paused; checkpoints are never saved")
        self.must(step < self.plan.maximum, f"trial {trial} is paused at its full length")
        self.must(
            score is not None or not save, f"trial {trial} diverged, and its weights are to be kept"
        )
        self.paused.add(trial)
        if save:
            self._save(trial)

    def _save(self, trial: TrialId) -> None:
        self._origin[trial] = Checkpoint(trial, self.step[trial])
        self.durable.add(self._origin[trial])

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        """A live trial cannot go on; return who retires through that."""
        self.running.pop(trial, None)
        self.paused.discard(trial)
        self.over.add(trial)
        retired = self._call(("abandon", trial, -1, None), lambda: self.scheduler.abandon(trial))
        self._retire(retired, trial)
        self._settle()
        return retired

    def _retire(self, retired: tuple[TrialId, ...], speaker: TrialId) -> None:
        self.must(isinstance(retired, tuple), f"the retired must be a tuple, not {retired!r}")
        self.must(len(set(retired)) == len(retired), f"{retired} retire more than once")
        self.must(speaker not in retired, f"trial {speaker} itself is among the retired {retired}")
        for trial in retired:
            self.must(trial in self.paused, f"trial {trial} retires, and is not paused")
            self.paused.discard(trial)
            self.over.add(trial)

    def _call(self, happening: Happening, call: Callable[[], Answer]) -> Answer:
        try:
            answer = call()
        except Exception as error:
            error.add_note(f"{self.log()}\n{happening} -> {error!r}")
            raise
        self.history.append((happening, answer))
        self.answered(happening, answer)
        return answer

    def answered(self, happening: Happening, answer: object) -> None:
        """Take note of an answer; whoever compares it with another one's does so here."""

    def _settle(self) -> None:
        """What must hold after every event; checkpoints that nothing can need are deleted."""
        held = getattr(self.scheduler, "held", None)
        if self.need != "milestone" or held is not None:
            needed = {self._origin[trial] for trial in self.live if trial in self._origin}
            self.durable &= needed | (set() if held is None else held())
        if not self.scheduler.done():
            return
        self.must(not self.running, f"done, yet {sorted(self.running)} run")
        self.must(not self.paused, f"done, yet {sorted(self.paused)} are paused")
        self.must(self.scheduler.ask() is None, "done, yet `ask` has something to run")
        self.must(
            len(self.step) == self.trials or not self.starts_all,
            f"done after {len(self.step)} of {self.trials} trials",
        )

    def reload(self) -> None:
        """Go on with a fresh scheduler that took up a snapshot of this one."""
        text = as_text(self.scheduler.snapshot())
        self.scheduler = self.fresh()
        self.scheduler.restore(json.loads(text))
        self.must(
            as_text(self.scheduler.snapshot()) == text,
            f"a snapshot read back differs: {text} became {self.scheduler.snapshot()}",
        )
