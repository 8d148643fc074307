"""Figures over a search's time: what the nodes do, and the best score so far."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from simsched.analysis.glossary import kinds_spent, occupied
from simsched.analysis.palette import TEXT, axis, base_layout
from simsched.analysis.plotting import (
    Line,
    TimeUnit,
    drawn_at,
    lines,
    padded,
    time_axis,
    time_unit,
    titled,
)
from simsched.analysis.series import Best, Floats, Steps, mean_best, series
from simsched.analysis.series import best_so_far as improvements
from simsched.analysis.wording import duration, percent
from simsched.results import Comparison
from simsched.timeline import KINDS, NOT_OCCUPIED

BINS = 480
"""A longer utilization curve is averaged, exactly, over so many equal stretches."""
PANEL_PX = 64
"""Height of one scheduler's panel in the chart of utilization over time."""
ALONE_PX = 240
"""Height of the panel where there is only one."""
GAP_PX = 30
"""Room between two panels, where the scheduler's name stands."""
OF_ALL = " The chart is of all nodes; the percentages are of those in service."
"""Said where nodes were out of service."""
OCCUPIED = tuple(kind for kind in KINDS if kind not in NOT_OCCUPIED)


def utilization(
    comparison: Comparison, *, nodes: int | None = None, workers: int | None = None
) -> go.Figure:
    """Return a panel per scheduler: the share of its nodes that train, over time.

    Shown is the first replication on the cluster of `nodes` and `workers`, by default
    the first one.
    """
    shown = lines(comparison, nodes, workers)
    end_s = max(line.runs[0].wall_time_s for line in shown)
    unit = time_unit(end_s)
    panel_px = PANEL_PX if len(shown) > 1 else ALONE_PX
    height = len(shown) * (panel_px + GAP_PX)
    figure = go.Figure(layout=base_layout(height=height + 132, showlegend=False, hovermode="x"))
    for index, line in enumerate(shown):
        _panel(figure, line, index, unit, panel_px, height)
    figure.update_layout(
        xaxis=time_axis(end_s, unit, anchor=f"y{len(shown)}", domain=[0, 1]), hoverdistance=30
    )
    several = any(len(line.runs) > 1 for line in shown)
    spent = kinds_spent(line.runs[0] for line in shown)
    return titled(
        figure,
        "Node utilization over time",
        "Solid: share of the nodes that train. Faint: nodes taken by "
        f"{occupied(spent, train=False)}.{OF_ALL if 'down' in spent else ''}"
        f"{' Replication 0.' if several else ''}",
    )


def _panel(
    figure: go.Figure, line: Line, index: int, unit: TimeUnit, panel_px: int, height: int
) -> None:
    """Add one scheduler's panel, the `index`-th from above."""
    number = "" if index == 0 else str(index + 1)
    top = 1 - (index * (panel_px + GAP_PX) + GAP_PX) / height
    figure.update_layout(
        {
            f"yaxis{number}": axis(
                domain=[max(0.0, top - panel_px / height), top],
                range=[0, 1.02],
                tickvals=[0.5, 1],
                tickformat=".0%",
                fixedrange=True,
                automargin=False,
                anchor="x",
            )
        }
    )
    run = line.runs[0]
    look: dict[str, Any] = {"yaxis": f"y{number}", "mode": "lines", "fill": "tozeroy"}
    for kinds, color, word in (
        (OCCUPIED, line.style.faint, "occupied"),
        (("train",), line.style.color, "training"),
    ):
        time_s, share = _drawn(series(run, kinds))
        figure.add_trace(
            go.Scatter(
                x=drawn_at(time_s, unit, run.wall_time_s),
                y=share,
                name=f"{line.name}: {word}",
                line={"shape": "hv", "width": 0, "color": color},
                fillcolor=color,
                hovertemplate=f"%{{y:.0%}} {word}<extra></extra>",
                **look,
            )
        )
    figure.add_annotation(
        text=f"<b>{line.name}</b>  {percent(run.utilization)} of {duration(run.wall_time_s)}",
        xref="paper",
        x=0,
        xanchor="left",
        yref=f"y{number} domain",
        y=1,
        yanchor="bottom",
        showarrow=False,
        font={"color": TEXT, "size": 12},
    )


def _drawn(steps: Steps) -> tuple[Floats, Floats]:
    """Return the corners of a step function that ends at nought, averaged where it is long."""
    if len(steps.value) == 0:
        return np.zeros(1), np.zeros(1)
    if len(steps.value) > BINS:
        steps = steps.binned(BINS)
    return steps.edge_s, np.append(steps.value, 0.0)


def best_so_far(
    comparison: Comparison, *, nodes: int | None = None, workers: int | None = None
) -> go.Figure:
    """Return the best score so far over time, a line per scheduler up to its end.

    With several replications the line is their mean, and the first replication is thin.
    """
    shown = lines(comparison, nodes, workers)
    mode = comparison.settings.mode
    end_s = max(run.wall_time_s for line in shown for run in line.runs)
    unit = time_unit(end_s)
    figure = go.Figure(layout=base_layout(height=400, hovermode="closest"))
    for line in shown:
        first, several = improvements(line.runs[0], mode), len(line.runs) > 1
        if several:
            _add_best(figure, line, first, line.runs[0].wall_time_s, unit, thin=True)
        mean = mean_best(line.runs, mode) if several else first
        _add_best(figure, line, mean, max(run.wall_time_s for run in line.runs), unit)
    scores = [float(y) for trace in figure.data for y in trace.y]
    metric = comparison.settings.metric
    figure.update_layout(
        xaxis=time_axis(end_s, unit),
        yaxis=axis(title={"text": metric}, range=padded(scores), nticks=7),
    )
    says = "smaller is better" if mode == "min" else "larger is better"
    if any(len(line.runs) > 1 for line in shown):
        says += "; thick: mean over the replications, thin: replication 0"
    return titled(figure, "Best score over time", f"{metric}, {says}. A mark is the search's end.")


def _add_best(
    figure: go.Figure, line: Line, best: Best, end_s: float, unit: TimeUnit, *, thin: bool = False
) -> None:
    if len(best.time_s) == 0:
        return
    time_s = np.append(best.time_s, max(end_s, best.time_s[-1]))
    score = np.append(best.score, best.score[-1])
    # The mark at the end: sizes of 0 are not drawn.
    size = [0] * len(best.time_s) + [0 if thin else 9]
    figure.add_trace(
        go.Scatter(
            x=drawn_at(time_s, unit, end_s),
            y=score,
            name=line.name,
            legendgroup=line.name,
            showlegend=not thin,
            mode="lines+markers",
            line={
                "shape": "hv",
                "width": 1 if thin else 2.4,
                "color": line.style.color,
                "dash": "solid" if thin else line.style.dash,
            },
            opacity=0.45 if thin else 1,
            marker={
                "size": size,
                "symbol": line.style.symbol,
                "color": line.style.color,
                "opacity": 1,
                "line": {"width": 0},
            },
            cliponaxis=False,
            customdata=[duration(at_s) for at_s in time_s.tolist()],
            hovertemplate=f"<b>{line.name}</b><br>%{{y:.4g}} at %{{customdata}}<extra></extra>",
        )
    )
