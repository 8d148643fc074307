"""Arithmetic that several of the naive schedulers need, all of it exact."""

import statistics
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, isqrt


class NoSuchRungsError(ValueError):
    """Two rungs would end at the same resource count, or the first one at 0."""


Ranked = tuple[bool, float, int]


def exact(value: float) -> Fraction:
    """The number that was written: 0.1 is a tenth, not the float nearest to it."""
    return Fraction(str(value))


def square_root(value: Fraction) -> Fraction:
    """The root; to 60 digits where it is irrational (no comparison hinges on the rest)."""
    top, bottom = isqrt(value.numerator), isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def rank(score: float | None, trial: int) -> Ranked:
    """Sort key, best first: high scores, then low trial numbers, None last."""
    return (score is None, 0.0 if score is None else -score, trial)


def best_first(scores: dict[int, float | None]) -> list[int]:
    """The trials of {trial: score}, best first."""
    return sorted(scores, key=lambda trial: rank(scores[trial], trial))


def quantile(values: list[Fraction | None], share: Fraction) -> Fraction | None:
    """Linear interpolation between order statistics; None (below everything) sorts first.

    Returns None where the lower neighbour is None.
    """
    numbers = sorted(v for v in values if v is not None)
    ordered: list[Fraction | None] = [None] * (len(values) - len(numbers)) + list(numbers)
    place = share * (len(ordered) - 1)
    below = floor(place)
    lower = ordered[below]
    if lower is None or place == below:
        return lower
    upper = ordered[below + 1]
    assert upper is not None
    return lower + (upper - lower) * (place - below)


def mean(values: list[float | None]) -> float:
    """The exact mean, rounded once: equal scores have a mean equal to them."""
    known = [value for value in values if value is not None]
    assert len(known) == len(values)
    return statistics.mean(known)


def median(values: list[float | None]) -> float | None:
    """Linear interpolation, floating point; None (below everything) where the lower one is."""
    numbers = sorted(v for v in values if v is not None)
    ordered: list[float | None] = [None] * (len(values) - len(numbers)) + list(numbers)
    if not ordered:
        return None
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return None if lower is None or upper is None else lower + (upper - lower) * 0.5


def rung_ends(first: Fraction, eta: Fraction, phase_length: int, maximum: int) -> list[int]:
    """Resource counts at which rungs end: first·eta^k phases, whole units, then the maximum."""
    ends: list[int] = []
    length = first
    while (end := floor(length * phase_length + Fraction(1, 2))) < maximum:
        ends.append(end)
        length *= eta
    ends.append(maximum)
    if any(end <= before for before, end in zip([0, *ends], ends, strict=False)):
        raise NoSuchRungsError(f"rungs end at {ends}")
    return ends


def largest_bracket(phases: int, eta: Fraction) -> int:
    """floor(log_eta phases)."""
    s = 0
    while eta ** (s + 1) <= phases:
        s += 1
    return s


def bracket_sizes(trials: int, phases: int, eta: Fraction) -> list[tuple[int, int]]:
    """(s, number of trials) for HyperBand, most exploratory bracket first."""
    count = min(largest_bracket(phases, eta) + 1, trials)
    shares = {s: eta**s / (s + 1) / phases for s in range(count)}  # n_s = ceil(B · share)

    def sizes(budget: Fraction) -> dict[int, int]:
        return {s: ceil(budget * share) for s, share in shares.items()}

    # ceil is continuous from the left, so the largest budget is a point where a bracket is full.
    budgets = [m / share for share in shares.values() for m in range(1, trials + 1)]
    largest = max(b for b in budgets if sum(sizes(b).values()) <= trials)
    given = sizes(largest)
    given[count - 1] += trials - sum(given.values())
    return [(s, given[s]) for s in reversed(range(count))]
