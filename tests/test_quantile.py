"""Quantiles of sorted scores, beside exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedList

from simsched.schedulers._quantile import WORST, quantile

scores = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@given(scores, st.integers(0, 64))
def test_it_is_the_exact_one(values: list[float], places: int) -> None:
    share = places / 64  # exact, and so is the position
    found = quantile(SortedList(values), share)
    ranked = [Fraction(value) for value in sorted(values)]
    position = (len(ranked) - 1) * Fraction(share)
    below = math.floor(position)
    above = min(below + 1, len(ranked) - 1)
    exact = ranked[below] + (ranked[above] - ranked[below]) * (position - below)
    assert found is not None
    error = abs(Fraction(found) - exact)
    relative = Fraction(2, 10**15) * max(abs(ranked[below]), abs(ranked[above]))
    assert error <= relative + Fraction(5e-324)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([-1.7e308, 1.7e308], 0.5, 0.0),
        ([-1.7e308, 1.7e308], 0.25, -0.85e308),
        ([WORST, 3.0], 0.5, None),
        ([WORST, 3.0], 1.0, 3.0),
        ([WORST, 1.0, 2.0], 0.5, 1.0),
        ([7.0], 0.3, 7.0),
    ],
)
def test_extremes_and_divergences(
    values: list[float], share: float, expected: float | None
) -> None:
    found = quantile(SortedList(values), share)
    assert found == (None if expected is None else pytest.approx(expected))
