"""The schedulers: one file an algorithm, and their registry.

To add one, write a file with a class like those here and add it to `_BUILT_IN` below, or
call `register` on a class of your own.
"""

from typing import Any

from simsched.errors import SimschedError, nearest
from simsched.messages import Searcher
from simsched.schedulers._base import (
    CheckpointNeed,
    Parameter,
    Plan,
    Scheduler,
    SchedulerClass,
    configuration,
)
from simsched.schedulers._in_place import InPlace
from simsched.schedulers.asha import Asha
from simsched.schedulers.asha_stop import AshaStop
from simsched.schedulers.hyperband import HyperBand
from simsched.schedulers.hypertrick import HyperTrick
from simsched.schedulers.median_stopping import MedianStopping
from simsched.schedulers.pbt import PopulationBasedTraining
from simsched.schedulers.random_search import RandomSearch
from simsched.schedulers.successive_halving import SuccessiveHalving

_BUILT_IN: tuple[SchedulerClass, ...] = (
    SuccessiveHalving,
    HyperBand,
    HyperTrick,
    PopulationBasedTraining,
    Asha,
    AshaStop,
    MedianStopping,
    RandomSearch,
)

REGISTRY: dict[str, SchedulerClass] = {scheduler.name: scheduler for scheduler in _BUILT_IN}
"""Every scheduler by its name on the command line."""


def register(scheduler: SchedulerClass) -> SchedulerClass:
    """Make a scheduler of your own known by its `name`; usable as a class decorator.

    Raises:
        SimschedError: the name is taken.
    """
    if REGISTRY.setdefault(scheduler.name, scheduler) is not scheduler:
        raise SimschedError(f"a scheduler named {scheduler.name!r} is registered already")
    return scheduler


def registered() -> list[SchedulerClass]:
    """Return the schedulers that are not built in."""
    return [scheduler for scheduler in REGISTRY.values() if scheduler not in _BUILT_IN]


def parse(text: str) -> tuple[SchedulerClass, dict[str, Any]]:
    """Read "hypertrick" or "asha:eta=3,base=1" into a scheduler and its parameters.

    Raises:
        SimschedError: an unknown scheduler or parameter, or a value out of bounds.
    """
    name, _, rest = text.partition(":")
    scheduler = lookup(name)
    known = {parameter.name: parameter for parameter in scheduler.parameters}
    given: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise SimschedError(f"{name}: {item!r} must read key=value")
        if key not in known:
            has = ", ".join(known) or "none"
            raise SimschedError(
                f"{name}: unknown parameter {key!r}{nearest(key, list(known))}; it has: {has}"
            )
        if key in given:
            raise SimschedError(f"{name}: {key} is given twice")
        given[key] = known[key].parse(name, value)
    return scheduler, given


def lookup(name: str) -> SchedulerClass:
    """Return the scheduler of that name. Raises SimschedError, naming the nearest."""
    if name not in REGISTRY:
        raise SimschedError(
            f"unknown scheduler {name!r}{nearest(name, list(REGISTRY))}; "
            f"there are: {', '.join(REGISTRY)}"
        )
    return REGISTRY[name]


def build(text: str, plan: Plan, searcher: Searcher) -> Scheduler:
    """Make the scheduler that `text` names, for this plan. Raises SimschedError."""
    scheduler, given = parse(text)
    return scheduler(plan, searcher, **given)


__all__ = [
    "REGISTRY",
    "CheckpointNeed",
    "InPlace",
    "Parameter",
    "Plan",
    "Scheduler",
    "SchedulerClass",
    "build",
    "configuration",
    "lookup",
    "parse",
    "register",
    "registered",
]
