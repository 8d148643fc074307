"""A run's schedule as a Gantt chart: nodes are rows, every trial has its colour."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from simsched.analysis.bars import BARS, ROWS, Sampled, drawable, kept
from simsched.analysis.cluster_words import NodeGroup, groups
from simsched.analysis.hover import Hover, named_kind
from simsched.analysis.node_rows import rows_layout
from simsched.analysis.palette import (
    AXIS,
    DOWN,
    FILLS,
    KEY,
    ON_TRIAL,
    SHADE,
    SURFACE,
    TEXT,
    TRIAL_COLORS,
    base_layout,
    mixed,
    trial_color,
)
from simsched.analysis.plotting import TimeUnit, drawn_at, named, time_axis, time_unit, titled
from simsched.analysis.series import Columns
from simsched.analysis.wording import duration, number, percent
from simsched.results import RunResult, Settings
from simsched.timeline import KINDS, US_PER_S, Kind

HATCHED_BARS = 900
"""With more bars than this, bars carry no trial numbers and no hatching."""


def gantt(
    run: RunResult, settings: Settings, *, end_s: float | None = None, bars: int = BARS
) -> go.Figure:
    """Return the chart of one run. The time axis ends at `end_s`, by default the run's end.

    At most `bars` bars are drawn; of more intervals some are merged, or the schedule is drawn
    from samples. The subtitle says so.
    """
    end_s = run.wall_time_s if end_s is None else end_s
    unit = time_unit(end_s)
    drawn = drawable(run.timeline, end_us=round(end_s * US_PER_S), limit=bars)
    rows, kinds = min(run.nodes, ROWS), groups(settings)
    row_px = max(4.0, min(26.0, 800 / rows))
    if isinstance(drawn, Sampled):
        hatched, traces = False, _picture(drawn, unit, kinds)
    else:
        hatched = len(drawn.bars.node) <= HATCHED_BARS and row_px >= 13
        traces = _bars(drawn.bars, Hover(run, settings), unit, hatched)
    figure = go.Figure(traces, layout={"meta": {"hatched": hatched}})
    best = _best(run, unit)
    if best is not None:
        figure.add_trace(best)
    figure.update_layout(_layout(run, rows, row_px, unit, end_s, kinds))
    facts = f"{duration(run.wall_time_s)}, utilization {percent(run.utilization)}"
    if settings.replications > 1:
        facts += f", replication {run.replication}"
    return titled(figure, named(run), f"{facts}. {drawn.note}".strip())


def _bars(bars: Columns, hover: Hover, unit: TimeUnit, hatched: bool) -> list[go.Bar]:
    """Return one trace per kind, and one grey one for its entry in the legend."""
    traces: list[go.Bar] = []
    for code, kind in enumerate(KINDS):
        chosen = kept(bars, bars.kind == code)
        if len(chosen.node) > 0:
            traces += [_trace(kind, chosen, unit, hover, hatched), _legend(kind, hatched)]
    return traces


def _picture(
    sampled: Sampled, unit: TimeUnit, kinds: Sequence[NodeGroup]
) -> list[go.Heatmap | go.Bar]:
    """Return a cell for each node and instant: the trial's colour, and the kind's shade on it."""
    every = sampled.every_us / US_PER_S / unit.seconds
    last = 0 if np.isnan(sampled.trial).all() else int(np.nanmax(sampled.trial))
    colors = min(last + 1, TRIAL_COLORS)
    place = {"x0": every / 2, "dx": every, "y0": 0, "dy": 1, "showscale": False, "ygap": 0.6}
    found = [kind for code, kind in enumerate(KINDS) if (sampled.kind == code).any()]
    rows = len(sampled.trial)
    parts = [(kind.first, kind.end, named_kind(kind)) for kind in kinds if kind.first < rows]
    return [
        *(
            go.Heatmap(
                z=sampled.trial[first:end] % TRIAL_COLORS,
                zmin=-0.5,
                zmax=colors - 0.5,
                colorscale=_steps([trial_color(trial) for trial in range(colors)]),
                customdata=sampled.trial[first:end],
                hoverongaps=False,
                hovertemplate=f"<b>trial %{{customdata}}</b><br>node %{{y}}{name}, %{{x:.4g}} "
                f"{unit.sign}<extra></extra>",
                **{**place, "y0": first},
            )
            for first, end, name in parts or [(0, rows, "")]
        ),
        go.Heatmap(
            z=sampled.kind,
            zmin=-0.5,
            zmax=len(KINDS) - 0.5,
            colorscale=_steps([_veil(kind, kind in found) for kind in KINDS]),
            hoverinfo="skip",
            **place,
        ),
        *(_legend(kind, hatched=False) for kind in found if kind != "idle"),
    ]


def _steps(colors: list[str]) -> list[tuple[float, str]]:
    """Return a colour scale that gives each whole number from 0 on its colour."""
    n = len(colors)
    return [(edge / n, color) for place, color in enumerate(colors) for edge in (place, place + 1)]


def _veil(kind: Kind, occurs: bool) -> str:
    """Return what lies on a trial's colour where a node does something else than train."""
    if kind == "down":
        return DOWN if occurs else AXIS
    red, green, blue = (int(ON_TRIAL[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{FILLS[kind].shade})"


def _trace(kind: Kind, bars: Columns, unit: TimeUnit, hover: Hover, hatched: bool) -> go.Bar:
    end_s = float(bars.end_us.max()) / US_PER_S
    # Names of colours, not numbers on a colour scale: patterned bars take no numbers.
    color = [_color(kind, trial, hatched) for trial in bars.trial.tolist()]
    marker: dict[str, Any] = {"color": color}
    if hatched:
        marker |= {"line": {"color": SURFACE, "width": 0.7}, "pattern": _pattern(kind)}
    return go.Bar(
        name=kind,
        legendgroup=kind,
        showlegend=False,
        orientation="h",
        base=drawn_at(bars.start_us / US_PER_S, unit, end_s),
        x=drawn_at((bars.end_us - bars.start_us) / US_PER_S, unit, end_s),
        y=bars.node.astype(np.int16),
        width=0.86,
        marker=marker,
        customdata=hover.rows(kind, bars),
        hovertemplate=hover.template(kind),
        **(_labels(bars) if hatched and kind == "train" else {}),
    )


def _color(kind: Kind, trial: int, hatched: bool) -> str:
    """Return a bar's colour: dense charts tell kinds apart by shades, others by hatching."""
    if kind == "down":
        return DOWN
    color = KEY if trial < 0 else trial_color(trial)
    return color if hatched else mixed(ON_TRIAL, color, FILLS[kind].shade)


def _pattern(kind: Kind) -> dict[str, Any]:
    """Return hatching in the trial's colour on the page's ground."""
    return {"shape": FILLS[kind].shape, "solidity": FILLS[kind].solidity, "size": 5}


def _legend(kind: Kind, hatched: bool) -> go.Bar:
    color = KEY if hatched else mixed(ON_TRIAL, KEY, FILLS[kind].shade)
    color = DOWN if kind == "down" else color
    return go.Bar(
        name=kind,
        legendgroup=kind,
        orientation="h",
        x=[None],
        y=[0],
        marker={"color": color, "pattern": _pattern(kind) if hatched else {}},
        hoverinfo="skip",
    )


def _labels(bars: Columns) -> dict[str, Any]:
    """Write a trial's number where it begins on a node, as far as there is room."""
    new = np.ones(len(bars.node), dtype=bool)
    new[1:] = (np.diff(bars.trial) != 0) | (np.diff(bars.node) != 0) | (np.diff(bars.attempt) != 0)
    return {
        "text": [
            str(trial) if is_new else "" for trial, is_new in zip(bars.trial, new, strict=True)
        ],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": ON_TRIAL, "size": 11},
    }


def _best(run: RunResult, unit: TimeUnit) -> go.Scatter | None:
    """Return a star where the best score was reported, if the timeline shows where."""
    if run.best_trial is None or run.time_to_best_s is None or run.best_score is None:
        return None
    at_us = round(run.time_to_best_s * US_PER_S)
    found = [
        each.node
        for each in run.timeline.intervals
        if each.trial == run.best_trial and each.start_us < at_us <= each.end_us
    ]
    if not found or found[0] >= ROWS:
        return None
    text = f"<b>best score {number(run.best_score)}</b><br>trial {run.best_trial}, "
    return go.Scatter(
        name="best score",
        x=[run.time_to_best_s / unit.seconds],
        y=[found[0]],
        mode="markers",
        marker={
            "symbol": "star",
            "size": 13,
            "color": TEXT,
            "line": {"color": SURFACE, "width": 1.5},
        },
        hovertemplate=f"{text}{duration(run.time_to_best_s)}<extra></extra>",
    )


def _layout(
    run: RunResult,
    rows: int,
    row_px: float,
    unit: TimeUnit,
    end_s: float,
    kinds: Sequence[NodeGroup],
) -> dict[str, Any]:
    wall = run.wall_time_s / unit.seconds
    layout = base_layout(
        barmode="overlay",
        bargap=0,
        height=round(rows * row_px + 140),
        uniformtext={"minsize": 9, "mode": "hide"},
        xaxis=time_axis(end_s, unit),
    )
    of_rows = rows_layout(rows, row_px, kinds)
    layout["yaxis"] = of_rows["yaxis"]
    layout["margin"] |= of_rows.get("margin", {})
    layout["shapes"] = [
        *of_rows.get("shapes", []),
        {
            "type": "line",
            "x0": wall,
            "x1": wall,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": TEXT, "width": 1.2, "dash": "dot"},
        },
    ]
    if wall < end_s / unit.seconds:
        layout["shapes"].append(
            {
                "type": "rect",
                "x0": wall,
                "x1": end_s / unit.seconds,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "layer": "below",
                "line": {"width": 0},
                "fillcolor": SHADE,
            }
        )
    return layout
