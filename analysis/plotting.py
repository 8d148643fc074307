"""What the figures share: lines of schedulers, titles, time axes, ranges."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from simsched.analysis.palette import MUTED, TEXT, Style, axis, scheduler_style
from simsched.analysis.series import Floats
from simsched.analysis.statistics import Row, grouped
from simsched.results import Comparison, RunResult


class Line(NamedTuple):
    """A scheduler on the cluster that a figure shows: its replications and its look.

    `name` is for Plotly and for HTML: it is escaped.
    """

    name: str
    runs: list[RunResult]
    style: Style


class TimeUnit(NamedTuple):
    """A unit of a time axis, its length in seconds and its sign behind the numbers."""

    seconds: float
    sign: str


def lines(comparison: Comparison, nodes: int | None, workers: int | None) -> list[Line]:
    """Return the schedulers on one cluster, by default on that of the first run."""
    first = comparison.runs[0]
    place = (nodes or first.nodes, workers or first.workers)
    groups = grouped(comparison)
    styles = scheduler_styles(comparison)
    return [
        Line(escaped(named(runs[0])), runs, styles[key[0]])
        for key, runs in groups.items()
        if key[1:] == place
    ]


def scheduler_styles(comparison: Comparison) -> dict[str, Style]:
    """Return the look of each scheduler, by its place in the comparison."""
    names = dict.fromkeys(run.scheduler for run in comparison.runs)
    return {name: scheduler_style(index) for index, name in enumerate(names)}


def named(run: RunResult | Row) -> str:
    """Return the scheduler's name with what must be known about its figures, as plain text."""
    return f"{run.scheduler}{' (approximate)' if run.approximate else ''}"


def escaped(text: str) -> str:
    """Keep Plotly from reading a name as its own HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def titled(figure: go.Figure, title: str, subtitle: str) -> go.Figure:
    """Give a figure its title and what is to be said about it; both texts are plain."""
    figure.update_layout(
        title={
            "text": escaped(title),
            "font": {"size": 15, "color": TEXT},
            "x": 0,
            "xref": "paper",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 14},
            "subtitle": {"text": escaped(subtitle), "font": {"size": 12, "color": MUTED}},
        }
    )
    return figure


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
            # A label at the edge that comes and goes would move the margin to and fro.
            "automargin": False,
            "minallowed": 0,
            "maxallowed": end * 1.02,
            **changes,
        }
    )


def drawn_at(time_s: Floats, unit: TimeUnit, end_s: float) -> Floats:
    """Return times in a unit, without digits that no screen can show."""
    end = max(end_s / unit.seconds, 1e-9)
    return np.round(time_s / unit.seconds, max(0, 6 - math.floor(math.log10(end))))


def padded(values: Sequence[float], share: float = 0.05) -> list[float] | None:
    """Return the range of the values with room at both ends; None without values."""
    if not values:
        return None
    low, high = min(values), max(values)
    room = share * (high - low) or share * max(1.0, abs(high))
    return [low - room, high + room]
