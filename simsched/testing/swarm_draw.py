"""What a seed of the swarm draws: cluster, scheduler with settings, policy, curves, faults.

Every draw comes from one generator that the seed begins, so a seed is a whole story.
"""

import math
import random
from typing import Any, Literal, TypeAlias

import msgspec

from simsched.errors import SimschedError
from simsched.messages import Searcher
from simsched.retries import Policy
from simsched.schedulers import (
    REGISTRY,
    Parameter,
    Plan,
    Scheduler,
    SchedulerClass,
    registered,
)
from simsched.schedulers._base import available
from simsched.searchers import Given, Grid, RandomSearcher
from simsched.space import Categorical, Integer, Real, SearchSpace

SPACE = SearchSpace(
    {
        "rate": Real(1e-5, 1e-2, log=True),
        "length": Integer(2, 100, log=True),
        "discount": Categorical((0.9, 0.95, 0.99)),
    }
)
_POOL = [RandomSearcher(SPACE, 0).suggest(trial) for trial in range(32)]
"""Drawn once: what the hyperparameters are is nothing to the control plane."""
Scores: TypeAlias = Literal["ties", "rising", "noise", "extremes", "fixed"]
"""`fixed`: a trial has the same score at a milestone whenever it comes there."""


class Rates(msgspec.Struct, frozen=True):
    """How probable each fault is: of one stretch of work, or of one step of the world."""

    death: float = 0.0
    """A worker dies somewhere on its way."""
    stuck: float = 0.0
    """It stands still until the world loses patience, and may speak long afterwards."""
    lost: float = 0.0
    """Its message is lost, or comes when nobody waits for it any more."""
    slow: float = 0.0
    """It takes many times as long."""
    damage: float = 0.0
    """The checkpoint that it is to load is found damaged."""
    unsaved: float = 0.0
    """A save fails, or takes longer than the grace."""
    diverge: float = 0.0
    censor: float = 0.0
    """A trial's curve ends in mid-run."""
    full_disk: float = 0.0
    """From now on, for a while, no checkpoint can be saved."""
    loss: float = 0.0
    """A node is gone, unannounced."""
    notice: float = 0.0
    """A node will be gone soon."""
    stale: float = 0.0
    """A message of an older attempt arrives, once more or at last."""
    interrupt: float = 0.0
    crash: float = 0.0
    """The coordinator dies: in a batch of events, anywhere in what it wrote or carried out."""
    journal_full: float = 0.0
    """The disk is full in the middle of a record."""


OF_WORK = ("death", "stuck", "lost", "slow", "damage", "unsaved", "diverge", "censor")
"""Their rates are of a stretch of work; the others' of a step of the world, and are smaller."""


class Story(msgspec.Struct, frozen=True):
    """All that is drawn before a run begins."""

    seed: int
    scheduler: str
    """As the command line has it."""
    parameters: dict[str, Any]
    plan: Plan
    given: int
    """How many configurations there are; 0: as many as are wanted; -1: a small grid."""
    policy: Policy
    rates: Rates
    scores: Scores
    paces_us: tuple[int, ...]
    """By node: a resource unit's time."""
    costs_us: tuple[int, int, int]
    """Of a start, a load and a save."""
    late: tuple[int, ...]
    """Nodes that join when the run has begun."""
    calm_after: int
    """Steps of the world after which all faults cease."""

    def searcher(self) -> Searcher:
        """Make the searcher."""
        if self.given < 0:
            return Grid(SPACE, self.plan.seed, 2)
        if self.given:
            return Given(_POOL[: self.given], SPACE, self.plan.seed)  # type: ignore[arg-type]
        return Given(_POOL, SPACE, self.plan.seed)  # type: ignore[arg-type]

    def make_scheduler(self) -> Scheduler:
        """Make the scheduler, always the same."""
        return REGISTRY[self.scheduler](self.plan, self.searcher(), **self.parameters)

    @property
    def trials(self) -> int:
        """How many trials there are configurations for."""
        return available(self.searcher(), self.plan.trials)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.paces_us)

    def describe(self) -> str:
        """Return the scheduler and the cluster in one line."""
        settings = ",".join(f"{name}={value}" for name, value in self.parameters.items())
        return (
            f"{self.scheduler}{':' * bool(settings)}{settings}, {self.plan.trials} trials of "
            f"{self.plan.phases} phases on {self.nodes} nodes"
        )


def draw(seed: int) -> Story:
    """Draw the story of a seed."""
    dice = random.Random(f"swarm {seed}")
    # Those of others are left out, so that a seed is the same story wherever it runs.
    built_in = sorted(set(REGISTRY) - {each.name for each in registered()})
    scheduler = REGISTRY[dice.choice((*built_in, "pbt"))]
    plan, given = _plan(dice)
    nodes = dice.choice((1, 1, 2, 2, 3, 3, 4, 5, 8, 16))
    unit_us = dice.choice((0, 1, 1_000, 100_000))
    story = Story(
        seed=seed,
        scheduler=scheduler.name,
        parameters={},
        plan=plan,
        given=given,
        policy=_policy(dice, plan.phase_length * unit_us),
        rates=_rates(dice),
        scores=dice.choice(("ties", "rising", "noise", "extremes")),
        paces_us=tuple(unit_us * dice.choice((1, 1, 1, 2, 7)) for _ in range(nodes)),
        costs_us=tuple(dice.choice((0, 0, 1, 50_000, 2_000_000)) for _ in range(3)),  # type: ignore[arg-type]
        late=tuple(node for node in range(1, nodes) if dice.random() < 0.1),
        calm_after=dice.choice((0, 30, 100, 300, 1000)),
    )
    for _ in range(20):
        drawn = msgspec.structs.replace(story, parameters=_parameters(dice, scheduler))
        try:
            drawn.make_scheduler()
        except SimschedError:
            continue  # such as rungs less than a unit apart: draw again
        return drawn
    return story


def _plan(dice: random.Random) -> tuple[Plan, int]:
    trials = dice.choice((1, 2, 3, 5, 8, 9, 12, 16, 20, 27))
    plan = Plan(trials, dice.randint(1, 9), dice.choice((1, 2, 5, 10, 1000)), dice.randrange(1000))
    if dice.random() < 0.85:
        return plan, 0
    return plan, dice.choice((-1, dice.randint(1, trials)))


def _policy(dice: random.Random, phase_us: int) -> Policy:
    every_us = max(200_000, round(phase_us * dice.choice((0.3, 1.0, 3.0))))
    return Policy(
        save_at=dice.choice(("scheduler", "milestone")),
        retries=dice.choice((0, 1, 2, 3, 10, 1000)),
        backoff_us=dice.choice((0, 1, 1_000_000)),
        longest_backoff_us=dice.choice((1, 60_000_000)),
        node_failures=dice.choice((2, 4, 1000)),
        max_time_us=None if dice.random() < 0.85 else int(10 ** dice.uniform(4, 8)),
        delete=dice.random() < 0.6,
        keep_best=dice.choice((0, 1, 3)),
        lazy=dice.random() < 0.3,
        save_every_us=every_us if dice.random() < 0.3 else None,
        keep_stopped=dice.random() < 0.3,
    )


def _rates(dice: random.Random) -> Rates:
    if dice.random() < 0.03:
        return Rates()
    rates: dict[str, float] = {}
    for name in Rates.__struct_fields__:
        exponent = dice.uniform(-2, -0.6) if name in OF_WORK else dice.uniform(-2.5, -1)
        rates[name] = 0.0 if dice.random() < 0.45 else 10**exponent
    rates["censor"] /= 4
    return Rates(**rates)


def _parameters(dice: random.Random, scheduler: SchedulerClass) -> dict[str, Any]:
    """Draw about half of a scheduler's parameters; the others keep their defaults."""
    return {
        parameter.name: parameter.parse(scheduler.name, _value(dice, parameter))
        for parameter in scheduler.parameters
        if dice.random() < 0.6
    }


def _value(dice: random.Random, parameter: Parameter) -> float | int:
    low = max(parameter.above, parameter.at_least, -10.0)
    high = min(parameter.below, parameter.at_most)
    if parameter.kind is int:
        return math.ceil(low) + dice.randint(0, 3 if math.isinf(high) else int(high - low))
    if math.isinf(high):
        return low + dice.choice((0.25, 0.5, 1.0, 2.0, 3.0))
    share = dice.choice((0.01, 0.25, 0.5, 0.75, 0.99))
    return low + (high - low) * share
