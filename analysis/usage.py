"""What the nodes of a live search used over time: a panel per node, or a picture of many."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import plotly.graph_objects as go

from simsched.analysis.bars import ROWS
from simsched.analysis.palette import GRID, MUTED, TEXT, Style, axis, base_layout, scheduler_style
from simsched.analysis.plotting import TimeUnit, drawn_at, escaped, time_axis, time_unit, titled
from simsched.analysis.series import Floats
from simsched.analysis.wording import bytes_of, count, duration, plural
from simsched.results import Comparison, Measured

Measure: TypeAlias = Literal["cpu", "gpu", "memory"]

PANELS = 12
"""Of more nodes than this a picture is drawn, a row a node."""
BINS = 480
"""A longer series is averaged, exactly, over so many equal stretches."""
PANEL_PX, GAP_PX = 40, 26
"""Height of a node's panel, and the room above it where the node's name stands."""
JOINED = 1.5
"""A gap between two samples of at most so many usual samples' lengths is no gap."""


class _Look(NamedTuple):
    """How a measure is called, drawn and written."""

    title: str
    note: str
    field: str
    style: Style
    written: Callable[[float], str]


class _Frame(NamedTuple):
    """What the parts of a figure share."""

    look: _Look
    unit: TimeUnit
    end_s: float
    top: float
    """Where the axis of the measure ends."""


def _percent(value: float) -> str:
    return f"{value:.0f} %"


_LOOKS: dict[Measure, _Look] = {
    "cpu": _Look(
        "CPU use",
        "Of each node's cores.",
        "cpu_percent",
        scheduler_style(0),
        _percent,
    ),
    "gpu": _Look(
        "GPU use",
        "Share of the time in which the node's GPU was busy.",
        "gpu_percent",
        scheduler_style(2),
        _percent,
    ),
    "memory": _Look(
        "GPU memory",
        "In use on the node's GPU.",
        "gpu_memory_bytes",
        scheduler_style(3),
        bytes_of,
    ),
}
MEASURES: tuple[Measure, ...] = tuple(_LOOKS)


class Use(NamedTuple):
    """A measure over time: it was `value[i]` from `from_s[i]` to `to_s[i]`. Shapes (n,)."""

    from_s: Floats
    to_s: Floats
    value: Floats

    @property
    def mean(self) -> float:
        """The mean over the time that was sampled."""
        length_s = self.to_s - self.from_s
        return float((self.value * length_s).sum() / length_s.sum())

    def averaged(self, end_s: float, bins: int) -> "Use":
        """Return the exact mean in each of `bins` equal bins that was sampled at all."""
        corner_s = np.column_stack([self.from_s, self.to_s]).ravel()
        length_s = self.to_s - self.from_s

        def up_to(edge_s: Floats, each: Floats) -> Floats:
            # The area under a step function is piecewise linear: interpolation is exact.
            area = np.column_stack([np.zeros_like(each), each]).ravel().cumsum()
            return np.asarray(np.interp(edge_s, corner_s, area))

        edge_s = np.linspace(0.0, end_s, bins + 1)
        sampled_s = np.diff(up_to(edge_s, length_s))
        area = np.diff(up_to(edge_s, length_s * self.value))
        there = sampled_s > 1e-6 * (end_s / bins)
        return Use(edge_s[:-1][there], edge_s[1:][there], area[there] / sampled_s[there])


def use_of(measured: Measured, node: int, measure: Measure, end_s: float) -> Use:
    """Return what a node used up to the search's end, in order; without samples it is empty."""
    field = _LOOKS[measure].field
    found = sorted(
        (sample.at_s, sample.over_s, value)
        for sample in measured.usage
        if sample.node == node and (value := getattr(sample, field)) is not None
    )
    at_s, over_s, value = np.array(found, dtype=np.float64).reshape(-1, 3).T
    to_s = np.minimum(at_s, end_s)
    before_s = np.concatenate([[0.0], to_s[:-1]]) if len(to_s) else to_s
    from_s = np.maximum(at_s - over_s, before_s)
    kept = to_s > from_s
    return Use(from_s[kept], to_s[kept], value[kept])


def usage(comparison: Comparison, measure: Measure) -> go.Figure | None:
    """Return a measure of the nodes of a live search over time; None where it was not sampled."""
    if comparison.measured is None:
        return None
    measured, run, look = comparison.measured, comparison.runs[0], _LOOKS[measure]
    end_s = run.wall_time_s
    uses = [use_of(measured, node, measure, end_s) for node in range(run.nodes)]
    if not any(len(use.value) for use in uses):
        return None
    uses = [use.averaged(end_s, BINS) if len(use.value) > BINS else use for use in uses]
    frame = _Frame(look, time_unit(end_s), end_s, _top(measure, uses))
    if run.nodes <= PANELS:
        figure, note = _panels(uses, [_name(measured, node) for node in range(run.nodes)], frame)
    else:
        figure, note = _picture(uses, frame)
    return titled(figure, look.title, f"{look.note}{note}")


def _name(measured: Measured, node: int) -> str:
    known = node < len(measured.nodes)
    return f"node {node}, {measured.nodes[node]}" if known else f"node {node}"


def _top(measure: Measure, uses: Sequence[Use]) -> float:
    """Return what the axis reaches to: all there is, or a round number above the most memory."""
    most = max(float(use.value.max()) for use in uses if len(use.value))
    if measure != "memory":
        return max(100.0, most)
    size = 10.0 ** math.floor(math.log10(max(most, 1.0)))
    return next(top for step in (1, 2, 5, 10) if (top := step * size) >= most)


def _panels(uses: Sequence[Use], names: Sequence[str], frame: _Frame) -> tuple[go.Figure, str]:
    """Return a panel per node, and what there is to add to the note."""
    look, unit, end_s, top = frame
    height = len(uses) * (PANEL_PX + GAP_PX)
    figure = go.Figure(layout=base_layout(height=height + 132, showlegend=False, hovermode="x"))
    for index, (use, name) in enumerate(zip(uses, names, strict=True)):
        number = "" if index == 0 else str(index + 1)
        upper = 1 - (index * (PANEL_PX + GAP_PX) + GAP_PX) / height
        figure.layout[f"yaxis{number}"] = axis(
            domain=[max(0.0, upper - PANEL_PX / height), upper],
            range=[0, top * 1.02],
            tickvals=[top / 2, top],
            ticktext=[look.written(top / 2), look.written(top)],
            fixedrange=True,
            automargin=False,
            anchor="x",
        )
        said = "not sampled"
        if len(use.value):
            figure.add_traces(_steps(use, name, f"y{number}", frame))
            said = f"mean {look.written(use.mean)}"
        figure.add_annotation(
            text=f"<b>{escaped(name)}</b>  {said}",
            xref="paper", x=0, xanchor="left",
            yref=f"y{number} domain", y=1, yanchor="bottom",
            showarrow=False, font={"color": TEXT, "size": 12},
        )  # fmt: skip
    figure.update_layout(
        xaxis=time_axis(end_s, unit, anchor=f"y{len(uses)}", domain=[0, 1]), hoverdistance=30
    )
    return figure, ""


def _steps(use: Use, name: str, yaxis: str, frame: _Frame) -> list[go.Scatter]:
    """Return a node's steps, and what fills them. Where nothing was sampled there is a gap."""
    usual_s = float(np.median(use.to_s - use.from_s))
    joined = [*(use.from_s[1:] - use.to_s[:-1] <= JOINED * usual_s).tolist(), False]
    time_s: list[float] = []
    value: list[float | None] = []
    for from_s, to_s, each, on in zip(*(v.tolist() for v in use), joined, strict=True):
        time_s.append(from_s)
        value.append(round(each, 1))
        if not on:
            time_s += [to_s, to_s]
            value += [round(each, 1), None]
    look: dict[str, Any] = {
        "x": drawn_at(np.array(time_s), frame.unit, frame.end_s), "mode": "lines", "yaxis": yaxis,
    }  # fmt: skip
    line = {"shape": "hv", "color": frame.look.style.color}
    return [
        go.Scatter(
            y=[each or 0.0 for each in value],
            line={**line, "width": 0},
            fill="tozeroy",
            fillcolor=frame.look.style.faint,
            hoverinfo="skip",
            **look,
        ),
        go.Scatter(
            y=value,
            name=escaped(name),
            line={**line, "width": 1.2},
            customdata=[None if each is None else frame.look.written(each) for each in value],
            hovertemplate="%{customdata}<extra></extra>",
            **look,
        ),
    ]


def _picture(uses: Sequence[Use], frame: _Frame) -> tuple[go.Figure, str]:
    """Return a cell for each node and stretch of time, and what there is to add to the note."""
    look, unit, end_s, top = frame
    rows = min(len(uses), ROWS)
    cells = np.full((rows, BINS), np.nan, dtype=np.float32)
    for row, use in enumerate(uses[:rows]):
        if len(use.value):
            filled = use.averaged(end_s, BINS)
            cells[row, np.rint(filled.from_s / end_s * BINS).astype(int)] = filled.value.round(1)
    every = end_s / BINS / unit.seconds
    row_px = max(4.0, min(26.0, 800 / rows))
    figure = go.Figure(
        go.Heatmap(
            z=cells, zmin=0, zmax=top, x0=every / 2, dx=every, y0=0, dy=1, ygap=0.6,
            colorscale=[[0, GRID], [1, look.style.color]],
            hoverongaps=False,
            hovertemplate=f"node %{{y}}, %{{x:.4g}} {unit.sign}: %{{z:,.0f}}<extra></extra>",
            colorbar=_scale(look, top),
        ),
        layout=base_layout(
            height=round(rows * row_px + 140), hovermode="closest", showlegend=False
        ),
    )  # fmt: skip
    label = max(1, round(18 / row_px))
    figure.update_layout(
        xaxis=time_axis(end_s, unit),
        yaxis=axis(
            range=[rows - 0.5, -0.5], tickvals=list(range(0, rows, label)), showgrid=False,
            automargin=False, title={"text": plural(rows, "node"), "font": {"color": MUTED}},
        ),
    )  # fmt: skip
    note = f" Each cell is a mean over {duration(end_s / BINS)}."
    if len(uses) > rows:
        note += f" The first {rows} of {count(len(uses))} nodes are shown."
    return figure, note


def _scale(look: _Look, top: float) -> dict[str, Any]:
    return {
        "thickness": 10,
        "outlinewidth": 0,
        "tickvals": [0, top / 2, top],
        "ticktext": [look.written(value) for value in (0, top / 2, top)],
        "tickfont": {"color": MUTED},
    }
