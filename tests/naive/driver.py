"""Feeds a scheduler and its naive twin the same events, and compares every answer."""

import json
from random import Random

import pytest

from naive.base import Naive
from naive.cases import CountingSearcher, SearchCase
from naive.rules import NoSuchRungsError
from naive.schedulers import NAIVE
from simsched.errors import SimschedError
from simsched.messages import Report, Run
from simsched.schedulers import Plan, Scheduler, build


def make(case: SearchCase) -> Scheduler:
    plan = Plan(case.trials, case.phases, case.phase_length, case.seed)
    return build(case.text, plan, CountingSearcher(case.configurations))


class Pair:
    """A scheduler and its naive twin, fed the same events; every answer is compared."""

    def __init__(self, case: SearchCase) -> None:
        self.case = case
        self.searcher = CountingSearcher(case.configurations)
        self.twin: Naive = NAIVE[case.scheduler](
            case.params, case.trials, case.phases, case.phase_length, case.seed,
            self.searcher.suggest,
            lambda hparams, key, factor, probability: self.searcher.perturb(
                hparams, key, factor=factor, resample_probability=probability
            ),
        )  # fmt: skip
        self.scheduler = make(case)
        self.running: dict[int, int] = {}  # trial: the milestone it works towards
        self.log: list[str] = []

    def same(self, event: str, given: object, expected: object) -> None:
        self.log.append(f"{event}: {expected}")
        assert given == expected, "\n".join([str(self.case), *self.log, f"but got {given}"])

    def ask(self) -> Run | None:
        before = self.scheduler.snapshot()
        run = self.scheduler.ask()
        self.same("ask", run, self.twin.ask())
        if run is None:
            self.same("snapshot after ask", self.scheduler.snapshot(), before)
        else:
            self.running[run.trial] = run.until
        return run

    def tell(self, trial: int, score: float | None) -> None:
        step = self.running.pop(trial)
        expected = self.twin.tell(trial, step, score)
        decision = self.scheduler.tell(Report(trial, step, score))
        self.same(f"tell {trial} {step} {score}", decision, expected)
        until = getattr(decision.verdict, "until", None)
        if until is not None:
            self.running[trial] = until

    def abandon(self, trial: int) -> None:
        del self.running[trial]
        expected = self.twin.abandon(trial)
        self.same(f"abandon {trial}", self.scheduler.abandon(trial), expected)

    def reload(self) -> None:
        """Write the scheduler to JSON, and go on with one that was read back."""
        text = json.dumps(self.scheduler.snapshot())
        self.scheduler = make(self.case)
        self.scheduler.restore(json.loads(text))
        self.same("snapshot read back", json.dumps(self.scheduler.snapshot()), text)


def play(case: SearchCase) -> int:
    """Feed both the same random events until they are done; return how many there were."""
    try:
        pair = Pair(case)
    except NoSuchRungsError:
        with pytest.raises(SimschedError, match="less than one resource unit"):
            make(case)
        return 0
    random = Random(case.events_seed)
    diverging, losing, reloading = (random.choice((0, 0.05, 0.3)) for _ in range(3))
    spread = random.choice((1, 3, 10, 1000))
    eager = random.choice((0.3, 0.9))  # how full the cluster is kept
    events = 0
    while True:
        pair.same("done", pair.scheduler.done(), pair.twin.done())
        if random.random() < reloading:
            pair.reload()
        asks = not pair.running or random.random() < eager
        if asks and pair.ask() is None and not pair.running:
            break
        if pair.running and random.random() < 0.7:
            events += 1
            trial = random.choice(sorted(pair.running))
            if random.random() < losing:
                pair.abandon(trial)
            else:
                score = float(random.randint(-spread, spread))
                pair.tell(trial, None if random.random() < diverging else score)
    assert pair.scheduler.done(), "\n".join([str(case), *pair.log, "nothing to do, yet not done"])
    return events
