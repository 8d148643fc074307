"""The charts of a report's page: which there are, what they say, and their JSON."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from simsched.analysis.figures import (
    MEASURES,
    QUANTITIES,
    best_so_far,
    curves,
    gantt,
    sweep,
    usage,
    utilization,
)
from simsched.analysis.learning import score_span
from simsched.analysis.plotting import lines
from simsched.analysis.statistics import grouped
from simsched.analysis.wording import count, plural
from simsched.results import Comparison
from simsched.timeline import KINDS, Kind

PLACES = 12
"""Of more clusters than this, the page shows the charts of the first ones."""
BARS_IN_ALL = 48_000
"""Bars of all Gantt charts of a page together."""
BARS_AT_LEAST = 300
"""Bars that each Gantt chart may have at any rate."""

BEST_PX = 600
"""The chart of best scores is as high as its neighbour, but no higher than this."""


class Chart(NamedTuple):
    """A chart of the page. `title`, `note` and `label` are plain text."""

    identifier: str
    title: str
    note: str
    label: str
    """What people hear who cannot see it."""
    figure: go.Figure
    linked: str
    """Charts with the same word here are zoomed together; empty for none."""


class Place(NamedTuple):
    """The charts of one cluster size and number of trials."""

    name: str
    best: Chart
    utilization: Chart
    gantts: list[Chart]
    curves: list[Chart]


def sweep_charts(comparison: Comparison) -> list[Chart]:
    """Return a chart per quantity where nodes or trials vary; else none."""
    if len(_clusters(comparison)) < 2:
        return []
    charts = []
    for quantity in QUANTITIES:
        figure = sweep(comparison, quantity)
        # The page has one legend for all of them.
        figure.layout.showlegend = False
        charts.append(_chart(f"sweep-{quantity.replace('_', '-')}", figure))
    return charts


def _clusters(comparison: Comparison) -> list[tuple[int, int]]:
    return list(dict.fromkeys((nodes, workers) for _, nodes, workers in grouped(comparison)))


def kinds(found: Sequence[Place], *, hatched: bool) -> list[Kind]:
    """Return the kinds of time that the hatched (or the shaded) Gantt charts show."""
    names = {
        trace.name
        for place in found
        for chart in place.gantts
        if chart.figure.layout.meta["hatched"] is hatched
        for trace in chart.figure.data
    }
    return [kind for kind in KINDS if kind in names]


def places(comparison: Comparison) -> tuple[list[Place], str]:
    """Return the charts of each cluster, and a sentence on those left out (mostly empty)."""
    clusters = _clusters(comparison)
    shown = clusters[:PLACES]
    gantts = sum(key[1:] in shown for key in grouped(comparison))
    bars = max(BARS_AT_LEAST, min(4000, BARS_IN_ALL // gantts))
    found = [
        _place(comparison, index, nodes, workers, bars)
        for index, (nodes, workers) in enumerate(shown)
    ]
    if len(clusters) == len(shown):
        return found, ""
    return found, (
        f"Charts are shown for the first {PLACES} of {count(len(clusters))} cluster sizes; "
        "the table and the charts above have them all."
    )


def _place(comparison: Comparison, index: int, nodes: int, workers: int, bars: int) -> Place:
    shown = lines(comparison, nodes, workers)
    firsts = [line.runs[0] for line in shown]
    end_s = max(run.wall_time_s for run in firsts)
    span = score_span(firsts)
    settings, time = comparison.settings, f"time-{index}"
    name = f"{plural(nodes, 'node')}, {plural(workers, 'trial')}"
    best = _chart(f"best-{index}", best_so_far(comparison, nodes=nodes, workers=workers), name)
    panels = utilization(comparison, nodes=nodes, workers=workers)
    over_time = _chart(f"utilization-{index}", panels, name, linked=time)
    beside = over_time.figure.layout.height
    best.figure.layout.height = min(BEST_PX, max(best.figure.layout.height, beside))
    return Place(
        name=name,
        best=best,
        utilization=over_time,
        gantts=[
            _chart(
                f"gantt-{index}-{place}",
                gantt(run, settings, end_s=end_s, bars=bars).update_layout(showlegend=False),
                f"Gantt chart, {name}",
                linked=time,
            )
            for place, run in enumerate(firsts)
        ],
        curves=[
            _chart(
                f"curves-{index}-{place}",
                curves(run, settings, score_range=span),
                f"learning curves, {name}",
            )
            for place, run in enumerate(firsts)
        ],
    )


def usage_charts(comparison: Comparison) -> list[Chart]:
    """Return what the nodes of a live search were measured to use; none of a simulation's."""
    return [
        _chart(f"use-{measure}", figure, "by node", linked="time-0")
        for measure in MEASURES
        if (figure := usage(comparison, measure)) is not None
    ]


def _chart(identifier: str, figure: go.Figure, kind: str = "", linked: str = "") -> Chart:
    """Take the title out of a figure: it becomes a heading of the page."""
    title, note = figure.layout.title.text, figure.layout.title.subtitle.text
    figure.layout.title = None
    legend = figure.layout.showlegend is not False
    top, bottom = 30 if legend else 6, 30 if figure.layout.xaxis.title.text is None else 44
    margin = figure.layout.margin
    figure.layout.height -= margin.t + margin.b - top - bottom
    margin.update(t=top, b=bottom)
    title, note = _plain(title), _plain(note)
    label = f"{title}{f' ({kind})' if kind else ''}. {note}"
    return Chart(identifier, title, note, label, figure, linked)


def _plain(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def payload(charts: list[Chart], dark: dict[str, str]) -> str:
    """Return the JSON that the page's script draws from, safe inside a script element."""
    values: dict[str, Any] = {
        "dark": dark,
        "charts": [
            {
                "id": chart.identifier,
                "linked": chart.linked,
                **{
                    key: value
                    for key, value in json.loads(chart.figure.to_json(engine="json")).items()
                    if key in ("data", "layout")
                },
            }
            for chart in charts
        ],
    }
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, escape in (("<", "\\u003c"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        text = text.replace(character, escape)
    return text
