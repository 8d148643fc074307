"""A run's schedule as a Gantt chart: nodes are rows, every trial has its colour."""

from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from simsched.analysis.palette import (
    AXIS,
    FILLS,
    KEY,
    MUTED,
    ON_TRIAL,
    SHADE,
    SURFACE,
    TEXT,
    axis,
    base_layout,
    mixed,
    trial_color,
)
from simsched.analysis.plotting import TimeUnit, named, time_axis, time_unit, titled
from simsched.analysis.series import Columns, columns
from simsched.analysis.wording import count, duration, number, percent, plural
from simsched.results import RunResult, Settings, TrialResult
from simsched.timeline import KINDS, US_PER_S, Kind, Timeline

BARS = 4000
"""So many bars are drawn at most."""
ROWS = 256
"""So many nodes are drawn at most."""
LABELLED_BARS = 900
"""With more bars than this, bars carry no trial numbers."""
INVISIBLE = 1 / 4000
"""A stretch shorter than this share of the time axis is less than a pixel wide."""


class Drawn(NamedTuple):
    """What is left of a timeline to draw, and what was left out, in words."""

    bars: Columns
    note: str


def gantt(
    run: RunResult, settings: Settings, *, end_s: float | None = None, bars: int = BARS
) -> go.Figure:
    """Return the chart of one run. The time axis ends at `end_s`, by default the run's end.

    At most `bars` bars are drawn; what was merged or left out stands in the subtitle.
    """
    end_s = run.wall_time_s if end_s is None else end_s
    unit = time_unit(end_s)
    drawn = drawable(run.timeline, end_us=round(end_s * US_PER_S), limit=bars)
    rows = min(run.nodes, ROWS)
    row_px = max(4.0, min(26.0, 800 / rows))
    labelled = len(drawn.bars.node) <= LABELLED_BARS and row_px >= 13
    figure = go.Figure(_traces(run, settings, drawn.bars, unit, labelled))
    best = _best(run, unit)
    if best is not None:
        figure.add_trace(best)
    figure.update_layout(_layout(run, rows, row_px, unit, end_s))
    facts = f"{duration(run.wall_time_s)}, utilization {percent(run.utilization)}"
    return titled(figure, named(run), f"{facts}. {drawn.note}".strip())


def drawable(timeline: Timeline, *, end_us: int, limit: int) -> Drawn:
    """Leave out what cannot be seen, then what is too much, and say so.

    Idle time is never drawn. Up to `limit` intervals stay as they are. Of more, those of
    less than a pixel go, neighbouring ones of the same trial and kind are merged (their
    milestones then share a bar), and of what is still too much the longest are kept.
    """
    data = columns(timeline)
    seen = (data.kind != KINDS.index("idle")) & (data.end_us > data.start_us)
    said: list[str] = []
    if timeline.nodes > ROWS:
        seen &= data.node < ROWS
        said.append(f"The first {ROWS} of {count(timeline.nodes)} nodes are shown.")
    bars = _kept(data, seen)
    before = len(bars.node)
    if before <= limit:
        return Drawn(bars, " ".join(said))
    pixel_us = round(end_us * INVISIBLE)
    bars = _merged(_kept(bars, bars.end_us - bars.start_us >= pixel_us), pixel_us)
    said.append(
        f"Milestones of a trial are merged ({count(before)} intervals to {count(len(bars.node))})."
    )
    if len(bars.node) > limit:
        length_us = bars.end_us - bars.start_us
        longest = np.sort(np.argsort(-length_us, kind="stable")[:limit])
        cut_us = int(length_us.sum() - length_us[longest].sum())
        said.append(
            f"The {count(limit)} longest are drawn; "
            f"{percent(cut_us / max(1, int(length_us.sum())))} of the time shown is left out."
        )
        bars = _kept(bars, longest)
    return Drawn(bars, " ".join(said))


def _kept(data: Columns, which: NDArray[Any]) -> Columns:
    return Columns(*(values[which] for values in data))


def _merged(data: Columns, gap_us: int) -> Columns:
    """Join what follows on the same node with the same trial, attempt and kind."""
    if len(data.node) == 0:
        return data
    same = np.ones(len(data.node) - 1, dtype=bool)
    for values in (data.node, data.trial, data.attempt, data.kind):
        same &= values[1:] == values[:-1]
    same &= data.start_us[1:] - data.end_us[:-1] <= gap_us
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    last = np.concatenate([first[1:] - 1, [len(data.node) - 1]])
    merged = _kept(data, first)
    return merged._replace(end_us=data.end_us[last], step=data.step[last])


def _traces(
    run: RunResult, settings: Settings, bars: Columns, unit: TimeUnit, labelled: bool
) -> list[go.Bar]:
    """Return one trace per kind, and one grey one for its entry in the legend."""
    hover = _Hover(run, settings)
    traces: list[go.Bar] = []
    for code, kind in enumerate(KINDS):
        chosen = _kept(bars, bars.kind == code)
        if len(chosen.node) == 0:
            continue
        traces += [_trace(kind, chosen, unit, hover, labelled), _legend(kind, not labelled)]
    return traces


def _trace(kind: Kind, bars: Columns, unit: TimeUnit, hover: "_Hover", labelled: bool) -> go.Bar:
    divisor = unit.seconds * US_PER_S
    # Names of colours, not numbers on a colour scale: patterned bars take no numbers.
    dense = not labelled
    color = [_color(kind, trial, dense) for trial in bars.trial.tolist()]
    marker: dict[str, Any] = {"color": color}
    if not dense:
        marker |= {"line": {"color": SURFACE, "width": 0.7}, "pattern": _pattern(kind)}
    return go.Bar(
        name=kind,
        legendgroup=kind,
        showlegend=False,
        orientation="h",
        base=bars.start_us / divisor,
        x=(bars.end_us - bars.start_us) / divisor,
        y=bars.node.astype(np.int16),
        width=0.86,
        marker=marker,
        customdata=hover.rows(kind, bars),
        hovertemplate=hover.template(kind),
        **(_labels(bars) if labelled and kind == "train" else {}),
    )


def _color(kind: Kind, trial: int, dense: bool) -> str:
    """Return a bar's colour: dense charts tell kinds apart by shades, others by patterns."""
    if kind == "down":
        return AXIS
    color = trial_color(trial)
    return mixed(ON_TRIAL, color, FILLS[kind].shade) if dense else color


def _pattern(kind: Kind) -> dict[str, Any]:
    """Return hatching in the trial's colour on the page's ground."""
    return {"shape": FILLS[kind].shape, "solidity": FILLS[kind].solidity, "size": 5}


def _legend(kind: Kind, dense: bool) -> go.Bar:
    color = mixed(ON_TRIAL, KEY, FILLS[kind].shade) if dense else KEY
    return go.Bar(
        name=kind,
        legendgroup=kind,
        orientation="h",
        x=[None],
        y=[0],
        marker={"color": color, "pattern": {} if dense else _pattern(kind)},
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


class _Hover:
    """What a bar says when it is pointed at."""

    def __init__(self, run: RunResult, settings: Settings) -> None:
        self._settings = settings
        self._trials: dict[int, TrialResult] = {trial.trial: trial for trial in run.trials}
        self._scores = {
            (trial.trial, milestone.step): milestone.score
            for trial in run.trials
            for milestone in trial.curve
        }

    def rows(self, kind: Kind, bars: Columns) -> list[list[str]]:
        """Return for each bar: trial, fate, what it is about, from, to and how long."""
        return [
            [
                str(trial),
                self._fate(trial),
                self._about(kind, trial, step),
                duration(start_us / US_PER_S),
                duration(end_us / US_PER_S),
                duration((end_us - start_us) / US_PER_S),
            ]
            for trial, start_us, end_us, step in zip(
                bars.trial.tolist(),
                bars.start_us.tolist(),
                bars.end_us.tolist(),
                bars.step.tolist(),
                strict=True,
            )
        ]

    def template(self, kind: Kind) -> str:
        """Return the kind's hover template over the columns of `rows`."""
        head = "" if kind == "down" else "<b>trial %{customdata[0]}</b> (%{customdata[1]})<br>"
        times = "%{customdata[3]} to %{customdata[4]} (%{customdata[5]})"
        return f"{head}<b>{kind}</b> %{{customdata[2]}}<br>node %{{y}}, {times}<extra></extra>"

    def _fate(self, trial: int) -> str:
        found = self._trials.get(trial)
        return found.fate if found else ""

    def _about(self, kind: Kind, trial: int, step: int) -> str:
        if step < 0:
            return ""
        if kind in ("start", "load"):
            return "from scratch" if step == 0 else f"from {self._milestone(step)}"
        if kind == "save":
            return f"at {self._milestone(step)}"
        text = f"to {self._milestone(step)}"
        if (trial, step) not in self._scores:
            return text
        score = self._scores[trial, step]
        return f"{text}<br>{'diverged' if score is None else f'score {number(score)}'}"

    def _milestone(self, step: int) -> str:
        """Return a milestone such as `5 000 episodes (phase 2 of 10)`."""
        phase, rest = divmod(step, self._settings.phase_length)
        place = f" (phase {phase} of {self._settings.phases})" if rest == 0 else ""
        return f"{count(step)} {self._settings.unit}{place}"


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
    run: RunResult, rows: int, row_px: float, unit: TimeUnit, end_s: float
) -> dict[str, Any]:
    every = max(1, round(18 / row_px))
    wall = run.wall_time_s / unit.seconds
    layout = base_layout(
        barmode="overlay",
        bargap=0,
        height=round(rows * row_px + 140),
        uniformtext={"minsize": 9, "mode": "hide"},
        xaxis=time_axis(end_s, unit),
        yaxis=axis(
            range=[rows - 0.5, -0.5],
            tickvals=list(range(0, rows, every)),
            showgrid=False,
            title={"text": plural(rows, "node"), "font": {"color": MUTED}},
            fixedrange=rows <= 16,
        ),
    )
    layout["shapes"] = [
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
