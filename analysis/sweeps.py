"""What more nodes (or more trials) bring: one figure for each quantity."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import plotly.graph_objects as go

from simsched.analysis.palette import Style, axis, base_layout
from simsched.analysis.plotting import TimeUnit, escaped, named, scheduler_styles, time_unit, titled
from simsched.analysis.statistics import Interval, Row, summarize
from simsched.analysis.wording import duration, number, percent
from simsched.results import Comparison

Quantity: TypeAlias = Literal["wall_time", "utilization", "node_hours"]
WIDE = 6
"""From this ratio of the largest to the smallest number on, nodes are on a log axis."""


class _Measure(NamedTuple):
    title: str
    value: Callable[[Row], Interval]
    written: Callable[[float], str]


_MEASURES: dict[Quantity, _Measure] = {
    "wall_time": _Measure("Wall time", lambda row: row.wall_time_s, duration),
    "utilization": _Measure("Utilization", lambda row: row.utilization, percent),
    "node_hours": _Measure("Node-hours", lambda row: row.node_hours, number),
}
QUANTITIES: tuple[Quantity, ...] = tuple(_MEASURES)


def sweep(comparison: Comparison, quantity: Quantity) -> go.Figure:
    """Return a quantity against the number of nodes, a line per scheduler.

    With one number of nodes it is drawn against the number of trials; where both vary,
    each number of trials has a line of its own. Bars are 95 % intervals.
    """
    rows = summarize(comparison)
    measure = _MEASURES[quantity]
    by_nodes = len({row.nodes for row in rows}) > 1
    counts = sorted({row.nodes if by_nodes else row.workers for row in rows})
    largest = max(measure.value(row).high or measure.value(row).mean for row in rows)
    unit = time_unit(largest) if quantity == "wall_time" else TimeUnit(1, "")
    beside = {"orientation": "v", "x": 1.02, "xanchor": "left", "y": 1, "yanchor": "top"}
    figure = go.Figure(layout=base_layout(height=360, hovermode="closest"))
    figure.update_layout(legend=beside)
    for name, style, group in _lines(comparison, rows, by_nodes):
        place = [row.nodes if by_nodes else row.workers for row in group]
        figure.add_trace(_trace(name, style, place, group, measure, unit))
    figure.update_layout(
        xaxis=_count_axis(counts, "nodes" if by_nodes else "trials"),
        yaxis=axis(
            rangemode="tozero",
            nticks=7,
            tickformat=".0%" if quantity == "utilization" else "",
            ticksuffix=f" {unit.sign}" if unit.sign else "",
        ),
    )
    return titled(figure, measure.title, _subtitle(rows, by_nodes))


def _lines(
    comparison: Comparison, rows: Sequence[Row], by_nodes: bool
) -> list[tuple[str, Style, list[Row]]]:
    """Return (escaped) name, look and rows of each line, rows by rising number."""
    styles = scheduler_styles(comparison)
    workers = sorted({row.workers for row in rows}) if by_nodes else [0]
    found = []
    for scheduler, style in styles.items():
        for index, number_of_trials in enumerate(workers):
            group = [
                row
                for row in rows
                if row.scheduler == scheduler and (not by_nodes or row.workers == number_of_trials)
            ]
            if not group:
                continue
            group.sort(key=lambda row: (row.nodes, row.workers))
            several = f", {number_of_trials} trials" if len(workers) > 1 else ""
            dash = ("solid", "dash", "dot", "dashdot")[index % 4] if several else style.dash
            name = escaped(named(max(group, key=lambda row: row.approximate))) + several
            found.append((name, style._replace(dash=dash), group))
    return found


def key(comparison: Comparison) -> list[tuple[str, Style]]:
    """Return name and look of each line of a sweep, for a legend that several figures share."""
    rows = summarize(comparison)
    by_nodes = len({row.nodes for row in rows}) > 1
    return [(name, style) for name, style, _ in _lines(comparison, rows, by_nodes)]


def _trace(
    name: str,
    style: Style,
    place: Sequence[int],
    rows: Sequence[Row],
    measure: _Measure,
    unit: TimeUnit,
) -> go.Scatter:
    values = [measure.value(row) for row in rows]
    spread = [value.spread for value in values]
    bars: dict[str, Any] = {"visible": False}
    if any(each is not None for each in spread):
        halves = [(each or 0.0) / unit.seconds for each in spread]
        bars = {"array": halves, "thickness": 1.2, "width": 4, "color": style.color}
    texts = [
        measure.written(value.mean) + (f" ±{measure.written(half)}" if half is not None else "")
        for value, half in zip(values, spread, strict=True)
    ]
    return go.Scatter(
        x=list(place),
        y=[value.mean / unit.seconds for value in values],
        error_y=bars,
        name=name,
        mode="lines+markers",
        line={"color": style.color, "dash": style.dash, "width": 2.2},
        marker={"symbol": style.symbol, "size": 8, "color": style.color},
        customdata=[
            [text, f"{row.nodes} nodes, {row.workers} trials"]
            for text, row in zip(texts, rows, strict=True)
        ],
        hovertemplate=f"<b>{name}</b><br>%{{customdata[0]}}<br>%{{customdata[1]}}<extra></extra>",
    )


def _count_axis(counts: Sequence[int], title: str) -> dict[str, Any]:
    wide = counts[-1] >= WIDE * counts[0]
    return axis(
        type="log" if wide else "linear",
        tickvals=list(counts),
        ticktext=[str(each) for each in counts],
        title={"text": title, "standoff": 8},
    )


def _subtitle(rows: Sequence[Row], by_nodes: bool) -> str:
    against = "nodes" if by_nodes else "trials"
    several = max(row.replications for row in rows) > 1
    return f"against the number of {against}{'; bars: 95 % intervals' if several else ''}"
