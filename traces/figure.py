"""A trace set as a page of its own: the curves as a chart that can be zoomed and hovered."""

import html
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from simsched.traces.curves import BINS, Curve, curves, hparam_text, longest_steps
from simsched.traces.format import TraceSet

BEST_COLOURS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#444444",
)  # fmt: skip
"""Of the best trials, the best first (Okabe and Ito's set, which colour-blind people can tell
apart, with its yellow and black replaced); the others are grey."""
REST_COLOUR: Final = "rgba(120,120,120,0.35)"
_STYLE: Final = (
    "body{margin:0 auto;max-width:1100px;padding:16px;font:16px/1.4 system-ui,sans-serif;"
    "color:#222;background:#fff}h1{font-size:22px;margin:0}p{margin:4px 0 12px;color:#555}"
)


def page_html(traceset: TraceSet, trials: int) -> str:
    """Return a page, complete in itself, with the curves of the `trials` best trials.

    The same set gives the same page. Synthetic sets say so in the title.
    """
    title = html.escape(_title(traceset))
    drawn = curves(traceset)[:trials]
    chart = _figure(traceset, drawn).to_html(
        full_html=False, include_plotlyjs=True, div_id="curves", config={"displaylogo": False}
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>{title}</h1><p>{html.escape(_facts(traceset, len(drawn)))}</p>\n"
        f"{chart}\n</body></html>\n"
    )


def _title(traceset: TraceSet) -> str:
    meta = traceset.meta
    kind = "synthetic learning curves" if meta.synthetic else "learning curves"
    named = meta.game.lower() in ("", "synthetic", traceset.name.lower())
    return f"{traceset.name}: {kind}" + ("" if named else f" of {meta.game}")


def _facts(traceset: TraceSet, drawn: int) -> str:
    meta = traceset.meta
    trials = len(traceset)
    facts = [
        f"The {drawn:,} best of {trials:,} trials" if drawn < trials else f"{trials:,} trials",
        f"each point is the mean {meta.metric} over {longest_steps(traceset) / BINS:,.0f} steps",
        f"{'larger' if meta.mode == 'max' else 'smaller'} is better",
    ]
    if meta.synthetic:
        facts.append("made by a generator, not recorded")
    return "; ".join(facts) + "."


def _figure(traceset: TraceSet, drawn: list[Curve]) -> go.Figure:
    """Draw the worst first, so that the best lies on top; only the best have a colour."""
    x = np.arange(1, BINS + 1) * longest_steps(traceset) / BINS
    figure = go.Figure()
    for rank, curve in reversed(list(enumerate(drawn))):
        there = ~np.isnan(curve.means)
        figure.add_scatter(
            x=x[there].tolist(), y=curve.means[there].tolist(), mode="lines", **_line(rank, curve)
        )
    figure.update_layout(
        template="plotly_white",
        height=620,
        margin={"l": 70, "r": 20, "t": 20, "b": 60},
        xaxis={"title": {"text": "steps"}, "rangemode": "tozero"},
        yaxis={"title": {"text": html.escape(f"mean {traceset.meta.metric}")}},
        hoverlabel={"bgcolor": "white", "font": {"color": "#222"}},
        legend={"title": {"text": "best first"}},
        showlegend=True,
    )
    return figure


def _line(rank: int, curve: Curve) -> dict[str, Any]:
    """Return name, colour and hover text of a curve's line."""
    trace = curve.trace
    notes = [f"{name}={hparam_text(value)}" for name, value in trace.hparams.items()]
    if trace.end != "complete":
        notes.append(trace.end)
    coloured = rank < len(BEST_COLOURS)
    return {
        "name": f"trial {trace.trial}",
        "line": {
            "color": BEST_COLOURS[rank] if coloured else REST_COLOUR,
            "width": 3 if rank == 0 else 2 if coloured else 1,
        },
        "showlegend": coloured,
        "legendrank": rank + 1,
        "customdata": [[f"trial {trace.trial}<br>" + "<br>".join(map(html.escape, notes))]]
        * len(curve.means),
        "hovertemplate": "%{customdata[0]}<br>%{y:,.4g} at %{x:,} steps<extra></extra>",
    }
