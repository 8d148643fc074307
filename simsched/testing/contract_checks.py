"""The contract of a scheduler as functions; `SchedulerContract` runs them under pytest.

Each takes the scheduler as the command line names it, plays runs to it, and raises
`ContractError` at the first answer that breaks the contract.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import numpy as np

from simsched.schedulers import Plan, build
from simsched.testing.contract_player import Player
from simsched.testing.contract_values import as_text, repeat

Scores: TypeAlias = Callable[[random.Random, int, int], float | None]
"""Draws the score of a trial at a step; None diverges."""

LENGTH = 60
"""Resource units in a phase; many a rung ends at a whole one."""
PLAN = Plan(9, 8, LENGTH)
SMALL = Plan(6, 4, LENGTH)
SIZES = ((9, 1), (9, 3), (9, 20), (1, 1), (1, 4), (2, 2), (23, 4))
"""Trials and nodes: one node, some, more nodes than trials, one trial, a crowd."""
PHASES = (1, 2, 3, 8)

SCORES: dict[str, Scores] = {
    "random": lambda dice, _trial, _step: dice.gauss(0, 1),
    "equal": lambda _dice, _trial, _step: 1.5,
    "few-levels": lambda dice, _trial, _step: float(dice.randint(0, 2)),
    "rising": lambda _dice, trial, step: step * (1 + trial / 10),
    "later-is-better": lambda _dice, trial, _step: float(trial),
    "earlier-is-better": lambda _dice, trial, _step: float(-trial),
    "huge-and-tiny": lambda dice, _trial, _step: dice.choice([1e300, -1e300, 5e-324, -0.0, 0.0]),
    "some-diverge": lambda dice, _trial, _step: None if dice.random() < 0.2 else dice.gauss(0, 1),
    "all-diverge": lambda _dice, _trial, _step: None,
    "all-diverge-later": lambda _dice, _trial, step: None if step > LENGTH else 1.0,
}

ORDERS: dict[str, Callable[[random.Random, Player], int]] = {
    "random": lambda dice, played: dice.choice(sorted(played.running)),
    "one-after-the-other": lambda _dice, played: min(played.running),
    "last-come-first-served": lambda _dice, played: max(played.running),
    "the-leader-runs-away": lambda _dice, played: max(
        played.running, key=lambda trial: (played.running[trial], trial)
    ),
    "in-step": lambda _dice, played: min(
        played.running, key=lambda trial: (played.running[trial], trial)
    ),
}
"""Who of the running ones reports next."""


def player(
    scheduler: str, plan: Plan, configurations: int | None = None, *, starts_all: bool = True
) -> Player:
    """Return a player of the named scheduler. Raises SimschedError where a plan is refused."""
    return Player(partial(build, scheduler), plan, configurations, starts_all=starts_all)


def play(
    played: Player,
    dice: random.Random,
    nodes: int,
    scores: Scores,
    *,
    order: str = "random",
    losing: float = 0.0,
    reloading: float = 0.0,
) -> None:
    """Play a run to its end.

    Args:
        played: from where it is.
        dice: draws the order, and whatever else is left to chance.
        nodes: are kept busy.
        scores: what is reported.
        order: of `ORDERS`, in which reports arrive.
        losing: share of events at which a live trial, running or paused, is abandoned.
        reloading: share of events before which the scheduler is made anew from a snapshot.
    """
    while True:
        if dice.random() < reloading:
            played.reload()
        while len(played.running) < nodes:
            if played.ask() is None:
                break
        if not played.running:
            return
        if dice.random() < losing:
            played.abandon(dice.choice(played.live))
            continue
        trial = ORDERS[order](dice, played)
        played.tell(trial, scores(dice, trial, played.running[trial]))


def check_runs(
    scheduler: str, trials: int, nodes: int, scores: str, *, starts_all: bool = True
) -> None:
    """Whole runs of several lengths keep the protocol, and end."""
    for seed, phases in enumerate(PHASES):
        plan = Plan(trials, phases, LENGTH, seed)
        play(
            player(scheduler, plan, starts_all=starts_all), random.Random(seed), nodes,
            SCORES[scores],
        )  # fmt: skip


def check_orders(scheduler: str, seed: int, *, starts_all: bool = True) -> None:
    """Runs of every size end whatever the order, with divergence, losses and reloads."""
    dice = random.Random(seed)
    plan = Plan(dice.randint(1, 20), dice.choice(PHASES), LENGTH, dice.randint(0, 99))
    played = player(scheduler, plan, starts_all=starts_all)
    scores, order = SCORES[dice.choice(list(SCORES))], dice.choice(list(ORDERS))
    losing, reloading = dice.choice([0.0, 0.03, 0.2]), dice.choice([0.0, 0.1])
    play(
        played, dice, dice.randint(1, 8), scores,
        order=order, losing=losing, reloading=reloading,
    )  # fmt: skip


def check_searcher_runs_out(scheduler: str, *, starts_all: bool = True) -> None:
    """A searcher with fewer configurations than trials ends the run sooner, and orderly."""
    for configurations in (1, 2, 5):
        played = player(scheduler, PLAN, configurations, starts_all=starts_all)
        play(played, random.Random(configurations), 3, SCORES["some-diverge"])


def check_divergence_at_every_report(scheduler: str, *, starts_all: bool = True) -> None:
    """A run in which any one report is the first of a divergence keeps the protocol."""
    first = recorded(scheduler, starts_all=starts_all)
    reports = sum(happening[0] == "tell" for happening, _ in first.history)
    for diverging in range(reports):
        count = iter(range(reports * PLAN.trials))

        def scores(
            dice: random.Random, _trial: int, _step: int,
            count: Iterator[int] = count, diverging: int = diverging,
        ) -> float | None:  # fmt: skip
            score = dice.gauss(0, 1)
            return None if next(count) == diverging else score

        play(player(scheduler, PLAN, starts_all=starts_all), random.Random(7), 3, scores)


def recorded(
    scheduler: str, seed: int = 7, plan: Plan = PLAN, *, starts_all: bool = True
) -> Player:
    """Return a player that has seen a whole run, with divergence and losses if `seed` is odd."""
    played = player(scheduler, plan, starts_all=starts_all)
    dice = random.Random(seed)
    play(
        played, dice, 3, SCORES["some-diverge" if seed % 2 else "random"], losing=0.05 * (seed % 2)
    )
    return played


@contextmanager
def _other_global_generators() -> Iterator[None]:
    """Turn the global random generators, which nothing may use, to another place."""
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(20190217)
    np.random.seed(20190217)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)  # noqa: NPY002


def check_same_answers_again(scheduler: str, *, starts_all: bool = True) -> None:
    """A fresh scheduler that is told the same answers the same, whatever else goes on."""
    for seed in range(6):
        first = recorded(scheduler, seed, starts_all=starts_all)
        with _other_global_generators():
            fresh, beside = first.fresh(), first.fresh()
            for number, entry in enumerate(first.history):
                # Another one at work beside it, some events behind: they must share nothing.
                difference = repeat(fresh, [entry])
                if number >= 5:
                    difference = difference or repeat(beside, [first.history[number - 5]])
                if difference is not None:
                    first.fail(f"told the same again it answers otherwise; {difference}")
        if as_text(fresh.snapshot()) != as_text(first.scheduler.snapshot()):
            first.fail("told the same again its state is another")


def check_snapshot_at_every_moment(scheduler: str, *, starts_all: bool = True) -> None:
    """A snapshot holds all, shares nothing with the scheduler, and loads at every moment."""
    for seed in range(2):
        first = recorded(scheduler, seed, starts_all=starts_all)
        again = first.fresh()
        for number in range(len(first.history)):
            snapshot = again.snapshot()
            text = as_text(snapshot)
            restored, state = first.fresh(), json.loads(text)
            restored.restore(state)
            difference = repeat(restored, first.history[number:])
            if difference is not None:
                first.fail(f"restored before event {number} it goes on otherwise; {difference}")
            if json.dumps(state) != text:
                first.fail("a scheduler changed the snapshot that it was restored from")
            repeat(again, [first.history[number]])
            if json.dumps(snapshot) != text:
                first.fail(f"a snapshot taken before event {number} changed when work went on")


def check_abandonment_at_every_moment(scheduler: str, *, starts_all: bool = True) -> None:
    """After every event any live trial may be lost, or all of them, and the run still ends."""
    first = recorded(scheduler, 4, SMALL, starts_all=starts_all)
    for length in range(1, len(first.history)):
        for trial in (*_after(first, length, starts_all=starts_all).live, None):
            played = _after(first, length, starts_all=starts_all)
            if trial is not None:
                played.abandon(trial)
            while trial is None and played.live:
                played.abandon(played.live[0])
            play(played, random.Random(length), 3, SCORES["random"])


def _after(first: Player, length: int, *, starts_all: bool) -> Player:
    """Return a player that has seen the beginning of another one's run."""
    played = Player(lambda *_: first.fresh(), first.plan, starts_all=starts_all)
    for (what, trial, _, score), _ in first.history[:length]:
        if what == "ask":
            played.ask()
        elif what == "tell":
            played.tell(trial, score)
        else:
            played.abandon(trial)
    return played
