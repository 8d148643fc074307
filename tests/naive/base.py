"""What all naive schedulers share: trials in their order, who is running, who is paused."""

from collections.abc import Callable

from simsched.messages import (
    Checkpoint,
    Decision,
    Hparams,
    Pause,
    Run,
    Stop,
    Verdict,
)

Suggest = Callable[[int], Hparams | None]
Perturb = Callable[[Hparams, tuple[int, ...], float, float], Hparams]
Params = dict[str, float]


class Naive:
    """What all share: trials in their order, who is running, who is paused."""

    def __init__(
        self, params: Params, trials: int, phases: int, phase_length: int, seed: int,
        suggest: Suggest, perturb: Perturb,
    ) -> None:  # fmt: skip
        self.params = params
        # A searcher that runs out leaves fewer trials; the plan is made for those there are.
        self.trials = next((t for t in range(trials) if suggest(t) is None), trials)
        self.phases = phases
        self.phase_length = phase_length
        self.maximum = phases * phase_length
        self.seed = seed
        self.suggest = suggest
        self.perturb = perturb
        self.started: list[int] = []
        self.running: list[int] = []
        self.paused: list[int] = []
        self.hparams: dict[int, Hparams] = {}
        self.setup()

    def setup(self) -> None:
        """Read the parameters."""

    def milestones(self) -> list[int]:
        """Every resource count at which a trial reports."""
        return [self.phase_length * (p + 1) for p in range(self.phases)]

    def next_after(self, step: int) -> int:
        return min(m for m in self.milestones() if m > step)

    def next_trial(self) -> int | None:
        """The trial that would start next, or None if there is none to start."""
        trial = len(self.started)
        return trial if trial < self.trials else None

    def start(self, until: int) -> Run | None:
        trial = self.next_trial()
        return None if trial is None else self.start_trial(trial, until)

    def start_trial(self, trial: int, until: int) -> Run:
        hparams = self.suggest(trial)
        assert hparams is not None
        self.started.append(trial)
        self.running.append(trial)
        self.hparams[trial] = hparams
        return Run(trial, hparams, until)

    def resume(self, trial: int, until: int, source: Checkpoint) -> Run:
        self.paused.remove(trial)
        self.running.append(trial)
        return Run(trial, self.hparams[trial], until, source)

    def retire(self, trials: list[int]) -> tuple[int, ...]:
        for trial in trials:
            self.paused.remove(trial)
        return tuple(sorted(trials))

    def ask(self) -> Run | None:
        return self.start(self.milestones()[0])

    def tell(self, trial: int, step: int, score: float | None) -> Decision:
        assert trial in self.running
        verdict, retired = self.decide(trial, step, score)
        if isinstance(verdict, Stop | Pause):
            self.running.remove(trial)
        if isinstance(verdict, Pause):
            self.paused.append(trial)
        return Decision(verdict, retired)

    def decide(self, trial: int, step: int, score: float | None) -> tuple[Verdict, tuple[int, ...]]:
        raise NotImplementedError

    def abandon(self, trial: int) -> tuple[int, ...]:
        self.running.remove(trial)
        return self.abandoned(trial)

    def abandoned(self, trial: int) -> tuple[int, ...]:
        return ()

    def done(self) -> bool:
        return self.next_trial() is None and not self.running and not self.paused
