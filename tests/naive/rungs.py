"""The four schedulers that have rungs."""

from fractions import Fraction
from math import floor

from naive.base import Naive
from naive.rules import best_first, bracket_sizes, exact, rung_ends
from simsched.messages import (
    Checkpoint,
    Continue,
    Pause,
    Run,
    Stop,
    Verdict,
)


class Rungs(Naive):
    """ASHA, both variants: what has been reported at each rung."""

    def setup(self) -> None:
        self.eta = exact(self.params.get("eta", 2))
        base = exact(self.params.get("base", 1))
        self.ends = rung_ends(base, self.eta, self.phase_length, self.maximum)
        self.reports: list[dict[int, float | None]] = [{} for _ in self.ends]
        self.rung: dict[int, int] = {}

    def milestones(self) -> list[int]:
        return self.ends

    def ask(self) -> Run | None:
        run = self.start(self.ends[0])
        if run is not None:
            self.rung[run.trial] = 0
        return run

    def report(self, trial: int, score: float | None) -> int:
        """Take the report down; return the trial's place in its rung, the best being 0."""
        reports = self.reports[self.rung[trial]]
        reports[trial] = score
        return best_first(reports).index(trial)

    def go_on(self, trial: int) -> int:
        """Move the trial up a rung; return that rung's end."""
        self.rung[trial] += 1
        return self.ends[self.rung[trial]]

    def is_last(self, trial: int) -> bool:
        return self.rung[trial] == len(self.ends) - 1


class AshaStop(Rungs):
    def decide(self, trial: int, step: int, score: float | None) -> tuple[Verdict, tuple[int, ...]]:
        place = self.report(trial, score)
        top = max(1, floor(len(self.reports[self.rung[trial]]) / self.eta))
        if score is None or self.is_last(trial) or place >= top:
            return Stop(), ()
        return Continue(self.go_on(trial)), ()


class Asha(Rungs):
    def top(self, rung: int) -> int:
        return floor(len(self.reports[rung]) / self.eta)

    def promotable(self) -> int | None:
        for rung in reversed(range(len(self.ends) - 1)):
            ranking = best_first(self.reports[rung])
            waiting = [t for t in ranking if t in self.paused and self.rung[t] == rung]
            if waiting and ranking.index(waiting[0]) < self.top(rung):
                return waiting[0]
        return None

    def ask(self) -> Run | None:
        trial = self.promotable()
        if trial is None:
            return super().ask()
        source = Checkpoint(trial, self.ends[self.rung[trial]])
        return self.resume(trial, self.go_on(trial), source)

    def at_the_end(self, without: int | None = None) -> bool:
        others = [t for t in self.running if t != without]
        return not others and self.next_trial() is None and self.promotable() is None

    def decide(self, trial: int, step: int, score: float | None) -> tuple[Verdict, tuple[int, ...]]:
        place = self.report(trial, score)
        if score is not None and not self.is_last(trial) and place < self.top(self.rung[trial]):
            return Continue(self.go_on(trial)), ()
        if self.at_the_end(without=trial):
            return Stop(), self.retire(list(self.paused))
        return (Stop() if score is None or self.is_last(trial) else Pause()), ()

    def abandoned(self, trial: int) -> tuple[int, ...]:
        return self.retire(list(self.paused)) if self.at_the_end() else ()


class Bracket:
    """One run of Successive Halving over trials with given numbers."""

    def __init__(self, trials: list[int], ends: list[int], eta: Fraction) -> None:
        self.to_start = list(trials)
        self.ends = ends
        self.eta = eta
        self.planned = len(trials)
        self.rung = 0
        self.present = list(trials)  # who is in this rung and not lost
        self.reports: dict[int, float | None] = {}
        self.to_resume: list[int] = []

    def open(self) -> tuple[list[int], list[int]] | None:
        """If all in the rung have reported: (who goes on, who is out), best first."""
        if any(t not in self.reports for t in self.present) or self.rung == len(self.ends) - 1:
            return None
        planned = max(1, floor(self.planned / self.eta))
        ranking = [t for t in best_first(self.reports) if self.reports[t] is not None]
        self.planned = planned
        self.rung += 1
        self.present = ranking[:planned]
        self.to_resume = ranking[:planned]
        self.reports = {}
        return ranking[:planned], ranking[planned:]


class HyperBand(Naive):
    def setup(self) -> None:
        eta = exact(self.params.get("eta", 2))
        self.brackets: list[Bracket] = []
        first = 0
        for s, count in bracket_sizes(self.trials, self.phases, eta):
            ends = rung_ends(self.phases / eta**s, eta, self.phase_length, self.maximum)
            self.brackets.append(Bracket(list(range(first, first + count)), ends, eta))
            first += count

    def next_trial(self) -> int | None:
        return min((t for b in self.brackets for t in b.to_start), default=None)

    def ask(self) -> Run | None:
        for bracket in self.brackets:
            if bracket.to_start:
                return self.start_trial(bracket.to_start.pop(0), bracket.ends[0])
            if bracket.to_resume:
                trial = bracket.to_resume.pop(0)
                source = Checkpoint(trial, bracket.ends[bracket.rung - 1])
                return self.resume(trial, bracket.ends[bracket.rung], source)
        return None

    def of(self, trial: int) -> Bracket:
        return next(b for b in self.brackets if trial in b.present)

    def decide(self, trial: int, step: int, score: float | None) -> tuple[Verdict, tuple[int, ...]]:
        bracket = self.of(trial)
        if bracket.rung == len(bracket.ends) - 1:
            return Stop(), ()
        bracket.reports[trial] = score
        opened = bracket.open()
        if opened is None:
            return (Stop() if score is None else Pause()), ()
        on, out = opened
        retired = self.retire([t for t in out if t != trial])
        return (Pause() if trial in on else Stop()), retired

    def abandoned(self, trial: int) -> tuple[int, ...]:
        bracket = self.of(trial)
        bracket.present.remove(trial)
        opened = bracket.open()
        return () if opened is None else self.retire(opened[1])


class SuccessiveHalving(HyperBand):
    def setup(self) -> None:
        eta = exact(self.params.get("eta", 2))
        base = exact(self.params.get("base", 1))
        ends = rung_ends(base, eta, self.phase_length, self.maximum)
        self.brackets = [Bracket(list(range(self.trials)), ends, eta)]
