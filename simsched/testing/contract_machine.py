"""A Hypothesis state machine that says anything a world may say to a scheduler."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from simsched.schedulers import Plan
from simsched.testing.contract_checks import LENGTH, SCORES, play, player
from simsched.testing.contract_player import Player
from simsched.testing.contract_values import repeat

SCORE = st.none() | st.integers(-2, 2).map(float) | st.floats(-1e6, 1e6)


class ContractMachine(RuleBasedStateMachine):
    """Asks, reports, loses trials, reloads and repeats in any order; a `Player` checks.

    A subclass says in `begin_with` what is played.
    """

    played: Player

    def begin_with(self, plan: Plan) -> Player:
        """Return the player of this run."""
        raise NotImplementedError

    @initialize(trials=st.integers(1, 9), phases=st.integers(1, 6), seed=st.integers(0, 3))
    def begin(self, trials: int, phases: int, seed: int) -> None:
        """A run begins."""
        self.played = self.begin_with(Plan(trials, phases, LENGTH, seed))

    def _pick(self, trials: list[int], which: int) -> int:
        return trials[which % len(trials)]

    @rule()
    def ask(self) -> None:
        """A node is free."""
        self.played.ask()

    @precondition(lambda self: self.played.running)
    @rule(which=st.integers(0, 8), score=SCORE)
    def tell(self, which: int, score: float | None) -> None:
        """A trial reports."""
        self.played.tell(self._pick(sorted(self.played.running), which), score)

    @precondition(lambda self: self.losable)
    @rule(which=st.integers(0, 8))
    def abandon(self, which: int) -> None:
        """A trial is lost."""
        self.played.abandon(self._pick(self.losable, which))

    @property
    def losable(self) -> list[int]:
        """The trials that may be lost now."""
        return self.played.live

    @rule()
    def reload(self) -> None:
        """The scheduler is made anew from its snapshot."""
        self.played.reload()

    @rule()
    def replay(self) -> None:
        """The scheduler is made anew from its history."""
        played = self.played
        fresh = played.fresh()
        difference = repeat(fresh, played.history)
        if difference is not None:
            played.fail(f"told the same again it answers otherwise; {difference}")
        played.scheduler = fresh

    def teardown(self) -> None:
        """Whatever happened, the run can be brought to its end."""
        if hasattr(self, "played"):
            play(self.played, random.Random(0), 2, SCORES["few-levels"])


def machine(begin_with: Callable[[Plan], Player]) -> type[ContractMachine]:
    """Return the state machine whose runs are played by what `begin_with` makes."""

    def begin(_: ContractMachine, plan: Plan) -> Player:
        return begin_with(plan)

    return type("Machine", (ContractMachine,), {"begin_with": begin})


def check_any_sequence(
    scheduler: str, examples: int, *, starts_all: bool = True, **options: Any
) -> None:
    """Let Hypothesis look for a sequence of events that breaks the contract.

    Args:
        scheduler: as the command line names it.
        examples: how many sequences are tried.
        starts_all: whether every trial must have been started when all is done.
        options: further settings of Hypothesis.

    Raises:
        ContractError: the shortest sequence that was found.
    """
    made = machine(lambda plan: player(scheduler, plan, starts_all=starts_all))
    run_state_machine_as_test(made, settings=chosen(examples, **options))


def chosen(examples: int, **options: Any) -> settings:
    """Return settings of Hypothesis that do not depend on the machine's speed."""
    unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=examples, stateful_step_count=40, deadline=None,
        suppress_health_check=unhurried, report_multiple_bugs=False, **options,
    )  # fmt: skip
