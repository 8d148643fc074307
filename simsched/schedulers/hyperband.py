"""HyperBand (Li et al. 2018, arXiv 1603.06560).

R is a trial's full length, in phases. Brackets s = smax … 0, smax =
floor(log_eta R), each a Successive Halving of n = ceil(B/R * eta^s / (s+1))
trials from r = R * eta^-s, all sharing the cluster at once; a free node goes
to the most exploratory bracket that has something to run. HyperBand's own
budget is B = (smax + 1) * R. Here the number of trials is given: B is the
largest budget whose total does not exceed it, and what is left over goes to
the most exploratory bracket. With fewer trials than brackets the most
exploratory brackets are dropped, with a note. Lengths that are not whole are
rounded to whole resource units. Trials are numbered bracket by bracket, the
most exploratory first.
"""

import math
from fractions import Fraction
from typing import ClassVar

from simsched.errors import SimschedError
from simsched.messages import Searcher
from simsched.schedulers._base import Parameter, Plan, available, rung_ends
from simsched.schedulers.successive_halving import ETA, Bracket, Brackets, rung_sizes

MOST = 200
"""Brackets; nobody has use for more, and their exact arithmetic gets slow."""


def deepest(phases: int, eta: float) -> int:
    """Return smax = floor(log_eta phases), without the rounding of a floating logarithm.

    Raises:
        SimschedError: it is above 200.
    """
    if math.log(phases) / math.log(eta) > MOST:
        raise SimschedError(
            f"hyperband: eta={eta:g} gives more than {MOST} brackets with {phases} phases; "
            "make eta larger"
        )
    s, length = 0, Fraction(eta)
    while length <= phases:
        s, length = s + 1, length * Fraction(eta)
    return s


def budgeted(brackets: int, eta: float, budget: Fraction) -> list[int]:
    """Return the trials of brackets s = brackets - 1 … 0 under a budget B/R = `budget`."""
    return [math.ceil(budget * Fraction(eta) ** s / (s + 1)) for s in range(brackets - 1, -1, -1)]


def allotted(trials: int, brackets: int, eta: float) -> list[int]:
    """Return the trials of brackets s = brackets - 1 … 0 when `trials` are given in all.

    The total is a step function of B that rises just after n_s becomes whole, so the largest
    budget within the total is one of those points; they are searched from both sides.
    """
    low, high = 0, trials  # in trials of the most exploratory bracket
    s_top = brackets - 1
    per_trial = (s_top + 1) / Fraction(eta) ** s_top  # B/R for each of its trials
    while low < high:
        middle = (low + high + 1) // 2
        if sum(budgeted(brackets, eta, middle * per_trial)) <= trials:
            low = middle
        else:
            high = middle - 1
    # Between these two points only the other brackets change; try each of their points.
    best = low * per_trial
    for s in range(brackets - 1):
        unit = (s + 1) / Fraction(eta) ** s
        point = math.floor((low + 1) * per_trial / unit) * unit
        while point > best and sum(budgeted(brackets, eta, point)) > trials:
            point -= unit
        best = max(best, point)
    counts = budgeted(brackets, eta, best) if best > 0 else [1] * brackets
    counts[0] += trials - sum(counts)
    return counts


class HyperBand(Brackets):
    """Several Successive Halvings, from many short trials to few long ones."""

    name = "hyperband"
    summary = "several successive halvings at once, from many short trials to few full ones"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ETA,
        Parameter("brackets", int, None, "how many; floor(log_eta phases) + 1 if left out",
                  at_least=1),
    )  # fmt: skip

    def __init__(
        self, plan: Plan, searcher: Searcher, *, eta: float = 2.0, brackets: int | None = None
    ) -> None:
        most = deepest(plan.phases, eta) + 1
        if brackets is not None and brackets > most:
            raise SimschedError(
                f"hyperband: brackets={brackets} must be from 1 to {most} "
                f"with {plan.phases} phases and eta={eta:g}"
            )
        count = brackets or most
        trials = available(searcher, plan.trials)
        notes: tuple[str, ...] = ()
        if trials < count:
            kept = f"{trials} of {count} brackets, the least exploratory"
            notes = (f"{kept}, as there are {trials} trials",)
            count = trials
        made: list[Bracket] = []
        first = 0
        for s, size in zip(range(count - 1, -1, -1), allotted(trials, count, eta), strict=True):
            ends = rung_ends(plan, plan.phases / eta**s, eta, self.name)
            made.append(Bracket(first, rung_sizes(size, len(ends), eta), ends))
            first += size
        super().__init__(searcher, made, notes)
