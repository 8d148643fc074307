"""Axes that figures share: time in a readable unit, and ranges with a little room."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from simsched.analysis.palette import axis


class TimeUnit(NamedTuple):
    """A unit of a time axis, its length in seconds and its sign behind the numbers."""

    seconds: float
    sign: str


def time_unit(end_s: float) -> TimeUnit:
    """Return the unit in which a time axis up to `end_s` reads well."""
    for limit_s, unit in (
        (0.2, TimeUnit(1e-3, "ms")),
        (180, TimeUnit(1, "s")),
        (3 * 3600, TimeUnit(60, "min")),
        (96 * 3600, TimeUnit(3600, "h")),
    ):
        if end_s <= limit_s:
            return unit
    return TimeUnit(86400, "d")


def time_axis(end_s: float, unit: TimeUnit, **changes: Any) -> dict[str, Any]:
    """Return the axis from 0 to `end_s`, a hair longer so that the end can be seen."""
    end = end_s / unit.seconds if end_s > 0 else 1.0
    return axis(
        **{
            "range": [0, end * 1.004],
            "ticksuffix": f" {unit.sign}",
            "nticks": 9,
            "minallowed": 0,
            "maxallowed": end * 1.02,
            **changes,
        }
    )


def padded(values: Sequence[float], share: float = 0.05) -> list[float] | None:
    """Return the range of the values with room at both ends; None without values."""
    if not values:
        return None
    low, high = min(values), max(values)
    room = share * (high - low) or share * max(1.0, abs(high))
    return [low - room, high + room]
