"""Quantiles of scores that arrive one by one, kept sorted as they come."""

import math

from sortedcontainers import SortedList

WORST = -math.inf
"""Stands for a divergence (a score of None) among sorted scores."""


def quantile(ranked: "SortedList[float]", q: float) -> float | None:
    """Return the q-quantile with linear interpolation between order statistics.

    That is Hyndman & Fan's type 7, NumPy's default. None means that it is below every
    score: its lower neighbour is a divergence.
    """
    position = (len(ranked) - 1) * q
    if abs(position - round(position)) < 1e-9:
        position = round(position)  # a whole position must not be missed by a rounding error
    below = math.floor(position)
    low: float = ranked[below]
    if low == WORST:
        return None
    share = position - below
    if share == 0:
        return low
    high: float = ranked[below + 1]
    apart = high - low
    # Of the largest numbers even the distance is too large.
    return low + apart * share if apart < math.inf else low * (1 - share) + high * share
