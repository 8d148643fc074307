"""Learning curves of one run, coloured by what became of the trials."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import plotly.graph_objects as go

from simsched.analysis.palette import FATES, SURFACE, TEXT, axis, base_layout
from simsched.analysis.plotting import named, padded, titled
from simsched.analysis.wording import count, number, plural
from simsched.results import Fate, RunResult, Settings, TrialResult

POINTS = 40_000
"""So many points are drawn at most; of longer curves every second one, third one, …"""
TRIALS = 10_000
"""So many trials are drawn at most; of more every second one, third one, … and the best."""

_SYMBOLS: dict[Fate, str] = {
    "finished": "circle",
    "stopped": "circle-open",
    "diverged": "x",
    "censored": "triangle-right",
    "lost": "cross",
}
_ON_TOP: tuple[Fate, ...] = ("stopped", "finished", "censored", "lost", "diverged")


def curves(
    run: RunResult, settings: Settings, *, score_range: Sequence[float] | None = None
) -> go.Figure:
    """Return score against resource for each trial, one trace and one mark per fate.

    `score_range` sets the score axis, so that several charts can be compared.
    """
    one_in = math.ceil(len(run.trials) / TRIALS) or 1
    drawn = run.trials[::one_in]
    every = max(1, math.ceil(sum(len(trial.curve) for trial in drawn) / POINTS))
    figure = go.Figure(layout=base_layout(height=360, hovermode="closest"))
    for fate in _ON_TOP:
        trials = [trial for trial in drawn if trial.fate == fate]
        if trials:
            _add_fate(figure, fate, trials, settings, every)
    best = next((trial for trial in run.trials if trial.trial == run.best_trial), None)
    if best is not None:
        _add_best(figure, best, settings)
    figure.update_layout(
        xaxis=axis(
            range=[0, 1.03 * settings.phases * settings.phase_length],
            title={"text": settings.unit, "standoff": 8},
            automargin=False,
            nticks=7,
        ),
        yaxis=axis(
            range=list(score_range) if score_range else score_span([run]),
            title={"text": settings.metric},
            nticks=7,
        ),
    )
    several = f" Replication {run.replication}." if settings.replications > 1 else ""
    return titled(figure, named(run), _subtitle(run, every, one_in) + several)


def score_span(runs: Sequence[RunResult]) -> list[float] | None:
    """Return the range of all scores of some runs with a little room; None without any."""
    return padded([score for run in runs for trial in run.trials for _, score in _points(trial)])


def _points(trial: TrialResult) -> list[tuple[int, float]]:
    """Return the trial's milestones that have a score."""
    return [
        (milestone.step, milestone.score)
        for milestone in trial.curve
        if milestone.score is not None and math.isfinite(milestone.score)
    ]


def _subtitle(run: RunResult, every: int, one_in: int) -> str:
    fates: tuple[Fate, ...] = get_args(Fate)
    amounts = {fate: sum(trial.fate == fate for trial in run.trials) for fate in fates}
    said = [", ".join(f"{count(n)} {fate}" for fate, n in amounts.items() if n)]
    silent = sum(trial.fate == "diverged" and not _points(trial) for trial in run.trials)
    if silent:
        said.append(f"{plural(silent, 'trial')} diverged before the first score")
    if one_in > 1:
        said.append(f"one trial in {one_in} is drawn")
    if every > 1:
        said.append(f"one point in {every} is drawn")
    return f"{plural(len(run.trials), 'trial')}: {'; '.join(said)}."


def _add_fate(
    figure: go.Figure, fate: Fate, trials: Sequence[TrialResult], settings: Settings, every: int
) -> None:
    """Add the curves of one fate as a single broken line, and a mark at the end of each."""
    step: list[int | None] = []
    score: list[float | None] = []
    label: list[str] = []
    ends: list[tuple[int, float, str]] = []
    for trial in trials:
        points = _points(trial)
        if not points:
            continue
        text = f"trial {trial.trial}"
        kept = points[:-1][::every] + points[-1:]
        step += [*(at for at, _ in kept), None]
        score += [*(value for _, value in kept), None]
        label += [text] * (len(kept) + 1)
        ends.append((*points[-1], text))
    color = FATES[fate]
    common: dict[str, Any] = {
        "name": fate,
        "legendgroup": fate,
        "hovertemplate": "<b>%{customdata}</b>, " + fate + _at(settings),
    }
    opacity = max(0.3, min(0.85, 24 / len(trials)))
    figure.add_trace(
        go.Scatter(
            x=step,
            y=score,
            customdata=label,
            mode="lines",
            line={"color": color, "width": 1.3},
            opacity=opacity,
            showlegend=False,
            **common,
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[at for at, _, _ in ends],
            y=[value for _, value, _ in ends],
            customdata=[text for _, _, text in ends],
            mode="markers",
            marker={"color": color, "size": 6, "symbol": _SYMBOLS[fate]},
            opacity=min(1.0, opacity + 0.2),
            **common,
        )
    )


def _at(settings: Settings) -> str:
    return f"<br>%{{y:.4g}} at %{{x:,}} {settings.unit}<extra></extra>"


def _add_best(figure: go.Figure, best: TrialResult, settings: Settings) -> None:
    points = _points(best)
    text = "best" if best.best_score is None else f"best: {number(best.best_score)}"
    for width, color, hidden in ((4.5, SURFACE, True), (2.2, TEXT, False)):
        figure.add_trace(
            go.Scatter(
                x=[at for at, _ in points],
                y=[value for _, value in points],
                name=text,
                mode="lines",
                line={"color": color, "width": width},
                showlegend=not hidden,
                legendgroup="best",
                hoverinfo="skip" if hidden else None,
                hovertemplate=None
                if hidden
                else f"<b>trial {best.trial}</b>, best" + _at(settings),
            )
        )
