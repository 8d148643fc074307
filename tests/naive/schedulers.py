"""The eight schedulers again, from their rules."""

from fractions import Fraction
from math import floor

from naive.base import Naive
from naive.rules import best_first, exact, mean, median, quantile, square_root
from naive.rungs import Asha, AshaStop, HyperBand, SuccessiveHalving
from simsched.draws import keyed
from simsched.messages import (
    Checkpoint,
    Continue,
    Exploit,
    Pause,
    Run,
    Stop,
    Verdict,
)


class RandomSearch(Naive):
    def decide(self, trial: int, step: int, score: float | None) -> tuple[Verdict, tuple[int, ...]]:
        if score is None or step == self.maximum or not self.goes_on(trial, step, score):
            self.note(trial, step, score)
            return Stop(), ()
        self.note(trial, step, score)
        return Continue(self.next_after(step)), ()

    def goes_on(self, trial: int, step: int, score: float) -> bool:
        """Whether a trial with this score goes on; `note` is called after it."""
        return True

    def note(self, trial: int, step: int, score: float | None) -> None:
        """Remember the report."""


class HyperTrick(RandomSearch):
    def setup(self) -> None:
        self.phase_scores: dict[int, list[Fraction | None]] = {}

    def goes_on(self, trial: int, step: int, score: float) -> bool:
        phase = self.milestones().index(step)
        r = exact(self.params.get("eviction_rate", 0.25))
        reports = [*self.phase_scores.get(phase, []), Fraction(score)]
        if len(reports) <= self.trials * (1 - square_root(r)) * (1 - r) ** phase:
            return True
        limit = quantile(reports, square_root(r))
        return limit is None or Fraction(score) >= limit

    def note(self, trial: int, step: int, score: float | None) -> None:
        phase = self.milestones().index(step)
        value = None if score is None else Fraction(score)
        self.phase_scores.setdefault(phase, []).append(value)


class MedianStopping(RandomSearch):
    def setup(self) -> None:
        self.scores: dict[int, list[float | None]] = {}  # by trial, one a milestone

    def goes_on(self, trial: int, step: int, score: float) -> bool:
        count = self.milestones().index(step) + 1
        if count <= self.params.get("grace", 1):
            return True
        means: list[float | None] = []
        for other, scores in self.scores.items():
            if other == trial:
                continue
            diverged_at = scores.index(None) + 1 if None in scores else count + 1
            if diverged_at == count:
                means.append(None)
            elif diverged_at > count and len(scores) >= count:
                means.append(mean(scores[:count]))
        limit = median(means)
        best = max(s for s in [*self.scores.get(trial, []), score] if s is not None)
        return limit is None or best >= limit

    def note(self, trial: int, step: int, score: float | None) -> None:
        self.scores.setdefault(trial, []).append(score)


class Pbt(Naive):
    def setup(self) -> None:
        self.newest: dict[int, float | None] = {}
        self.weights: dict[int, Checkpoint] = {}
        self.at: dict[int, int] = {}

    def milestones(self) -> list[int]:
        every = int(self.params.get("interval", 1)) * self.phase_length
        return [*range(every, self.maximum, every), self.maximum]

    def ask(self) -> Run | None:
        run = super().ask()
        if run is not None or not self.paused:
            return run
        trial = min(self.paused, key=lambda t: (self.at[t], t))
        return self.resume(trial, self.next_after(self.at[trial]), self.weights[trial])

    def donor(self, trial: int, step: int, score: float | None) -> int | None:
        """Whom to copy; None if the trial is not among the worst, or there is nobody."""
        ranking = best_first(self.newest)
        share = floor(exact(self.params.get("quantile", 0.25)) * len(ranking))
        if score is not None and trial not in ranking[len(ranking) - share :]:
            return None
        top = ranking[: max(1, share) if score is None else share]
        candidates = [
            t for t in top if self.newest[t] is not None and t in self.weights and t != trial
        ]
        if not candidates:
            return None
        draw = keyed(self.seed, "donor", trial, step).integers(len(candidates))
        return candidates[int(draw)]

    def decide(self, trial: int, step: int, score: float | None) -> tuple[Verdict, tuple[int, ...]]:
        self.newest[trial] = score
        self.at[trial] = step
        if step == self.maximum:
            return Stop(), ()
        donor = self.donor(trial, step, score)
        if donor is None and score is None:
            return Stop(), ()
        if donor is None:
            self.weights[trial] = Checkpoint(trial, step)
        else:
            self.weights[trial] = self.weights[donor]
            self.hparams[trial] = self.perturb(
                self.hparams[donor], (trial, step),
                self.params.get("perturb", 1.2), self.params.get("resample_probability", 0.25),
            )  # fmt: skip
        waiting = self.next_trial() is not None or any(self.at[t] < step for t in self.paused)
        if waiting:
            return Pause(save=donor is None), ()
        if donor is None:
            return Continue(self.next_after(step)), ()
        return Exploit(self.weights[trial], self.hparams[trial], self.next_after(step)), ()

    def abandoned(self, trial: int) -> tuple[int, ...]:
        self.newest.pop(trial, None)
        return ()


NAIVE: dict[str, type[Naive]] = {
    "random": RandomSearch,
    "hypertrick": HyperTrick,
    "successive-halving": SuccessiveHalving,
    "hyperband": HyperBand,
    "asha": Asha,
    "asha-stop": AshaStop,
    "median-stopping": MedianStopping,
    "pbt": Pbt,
}
