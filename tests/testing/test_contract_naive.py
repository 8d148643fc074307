"""Hypothesis drives every built-in scheduler beside its naive twin (`tests/naive`)."""

from functools import partial

import pytest
from hypothesis.stateful import run_state_machine_as_test
from naive.base import Naive
from naive.cases import SCHEDULERS
from naive.schedulers import NAIVE

from simsched.messages import Decision
from simsched.schedulers import Plan, build, parse
from simsched.testing.contract_machine import ContractMachine, chosen
from simsched.testing.contract_player import Player
from simsched.testing.contract_values import Configurations, Happening

PARAMETERS = {
    "successive-halving": ["", "eta=3", "eta=1.5,base=2"],
    "hyperband": ["", "eta=3"],
    "hypertrick": ["", "eviction_rate=0.64"],
    "pbt": ["", "quantile=0.5,interval=2", "quantile=0.1"],
    "asha": ["", "eta=3", "eta=1.5,base=2"],
    "asha-stop": ["", "eta=3"],
    "median-stopping": ["", "grace=0"],
    "random": [""],
}
NAMES = [
    f"{name}:{given}".rstrip(":") for name in SCHEDULERS for given in PARAMETERS[name]
]  # fmt: skip


class Twinned(Player):
    """A player that compares every answer with that of the naive twin."""

    def __init__(self, scheduler: str, plan: Plan) -> None:
        _, given = parse(scheduler)
        searcher = Configurations(plan.trials)
        self.twin: Naive = NAIVE[scheduler.partition(":")[0]](
            given, plan.trials, plan.phases, plan.phase_length, plan.seed, searcher.suggest,
            lambda hparams, key, factor, probability: searcher.perturb(
                hparams, key, factor=factor, resample_probability=probability
            ),
        )  # fmt: skip
        super().__init__(partial(build, scheduler), plan)

    def answered(self, happening: Happening, answer: object) -> None:
        what, trial, step, score = happening
        expected: object
        if what == "ask":
            expected = self.twin.ask()
        elif what == "tell":
            expected = self.twin.tell(trial, step, score)
        else:
            expected = self.twin.abandon(trial)
        self.must(answer == expected, f"the naive twin says {expected}")
        self.must(self.scheduler.done() == self.twin.done(), "the naive twin is of another mind")

    def tell(self, trial: int, score: float | None) -> Decision:
        # Whole numbers: the twin reckons exactly, and no comparison is to hinge on rounding.
        return super().tell(trial, None if score is None else float(round(score) % 1000))


class TwinnedMachine(ContractMachine):
    """Only running trials are lost here: the twins know no other way."""

    scheduler: str

    def begin_with(self, plan: Plan) -> Player:
        return Twinned(self.scheduler, plan)

    @property
    def losable(self) -> list[int]:
        return sorted(self.played.running)


def check_twins(scheduler: str, examples: int) -> None:
    made = type("Machine", (TwinnedMachine,), {"scheduler": scheduler})
    run_state_machine_as_test(made, settings=chosen(examples))


@pytest.mark.parametrize("scheduler", NAMES)
def test_any_sequence_of_events_gets_the_naive_answers(scheduler: str) -> None:
    check_twins(scheduler, 25)


@pytest.mark.long
@pytest.mark.parametrize("scheduler", NAMES)
def test_many_sequences_of_events_get_the_naive_answers(scheduler: str) -> None:
    check_twins(scheduler, 2000)
