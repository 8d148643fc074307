"""A trace set for the terminal: what is known of it, and its curves as lines of blocks."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from simsched.traces.curves import (
    BINS,
    Curve,
    curves,
    hparam_text,
    hparams_text,
    limits,
    longest_steps,
    sparkline,
)
from simsched.traces.format import ENDS, TraceSet

MISSING = "\N{EN DASH}"
HPARAM_COLUMNS_WIDTH = 30
"""Hyperparameters that are wider together share one column of NAME=VALUE."""


def listing(sets: list[TraceSet]) -> Table:
    """Return a table of trace sets, one a row."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("game")
    for column in ("trials", "rows", "steps/trial"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("curves", no_wrap=True)
    table.add_column("date", no_wrap=True)
    for traceset in sets:
        table.add_row(
            Text(traceset.name),
            Text(traceset.meta.game),
            f"{len(traceset):,}",
            f"{traceset.rows:,}",
            f"{mean_steps(traceset):,}",
            origin(traceset),
            Text(traceset.meta.date or MISSING),
        )
    return table


def origin(traceset: TraceSet) -> str:
    """Return "synthetic" or "recorded"."""
    return "synthetic" if traceset.meta.synthetic else "recorded"


def mean_steps(traceset: TraceSet) -> int:
    """Return the mean of the trials' steps."""
    return round(float(np.mean([trace.steps[-1] for trace in traceset.traces])))


def page(traceset: TraceSet, trials: int) -> Group:
    """Return the facts and the curves of the `trials` best trials."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True, style="dim")
    facts.add_column(overflow="fold")
    for name, value in _facts(traceset):
        facts.add_row(name, Text(value))
    title = Text(traceset.name, style="bold")
    if traceset.meta.synthetic:
        title.append("  SYNTHETIC: made by a generator, not recorded", style="bold yellow")
    return Group(title, facts, Text(), _curve_table(traceset, trials))


def _facts(traceset: TraceSet) -> Iterator[tuple[str, str]]:
    """Yield what is known, in reading order; what is not known is left out."""
    meta = traceset.meta
    traces = traceset.traces
    ends = Counter(trace.end for trace in traces)
    steps = [int(trace.steps[-1]) for trace in traces]
    seconds = [float(trace.seconds[-1]) for trace in traces]
    episodes = [int(trace.episodes[-1]) for trace in traces]
    better = "larger" if meta.mode == "max" else "smaller"
    parts = ", ".join(f"{ends[end]:,} {end}" for end in ENDS if ends[end])  # type: ignore[index]
    shipped = traceset.path is not None and traceset.path.parent == Path(__file__).parent / "data"
    optional = {
        "note": meta.resource_note,
        "space": _space_text(meta.space or {}),
        "seed": "" if meta.seed is None else str(meta.seed),
        "date": meta.date,
        "hardware": meta.hardware,
        "versions": ", ".join(f"{name} {number}" for name, number in meta.versions.items()),
        "made by" if meta.synthetic else "recorded by": meta.recorded_by,
        "file": "" if traceset.path is None or shipped else str(traceset.path),
    }
    yield "game", meta.game or MISSING
    yield "score", f"{meta.metric}, {better} is better"
    yield "trials", f"{len(traces):,} ({parts}), {traceset.rows:,} rows"
    yield "per trial", f"{_span(steps)} steps, {_span(episodes)} episodes, {_span(seconds)} s"
    yield from ((name, value) for name, value in optional.items() if value)
    yield "sha256", traceset.sha256


def _span(values: list[int] | list[float]) -> str:
    low, high = round(min(values)), round(max(values))
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _space_text(space: Mapping[str, Any]) -> str:
    parts = []
    for name, spec in space.items():
        if isinstance(spec, dict) and "low" in spec and "high" in spec:
            log = " log" if spec.get("log") else ""
            parts.append(f"{name} {spec['low']}…{spec['high']}{log}")
        elif isinstance(spec, dict) and isinstance(spec.get("choices"), list):
            parts.append(f"{name} {'|'.join(map(str, spec['choices']))}")
        else:
            parts.append(name)
    return ", ".join(parts)


def _curve_table(traceset: TraceSet, trials: int) -> Table:
    every = curves(traceset)
    low, high = limits(every)
    count = f"the {trials:,} best of {len(every):,}" if trials < len(every) else "best first"
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
        title=f"Mean score by steps from {low:,.4g} (▁) to {high:,.4g} (█), {count}",
        title_justify="left",
        title_style="",
    )
    table.add_column("trial", justify="right", no_wrap=True)
    longest = f"{longest_steps(traceset):,}"
    table.add_column(f"0{longest:>{BINS - 1}}", no_wrap=True, min_width=BINS)
    table.add_column("best", justify="right", no_wrap=True)
    names = _own_columns(every[:trials])
    for name in names:
        table.add_column(Text(name), justify="right", no_wrap=True)
    if not names:
        table.add_column("hyperparameters", overflow="fold")
    table.add_column("end", no_wrap=True)
    for curve in every[:trials]:
        hparams = curve.trace.hparams
        values = [hparam_text(hparams[n]) if n in hparams else MISSING for n in names]
        table.add_row(
            str(curve.trace.trial),
            sparkline(curve.means, low, high),
            MISSING if curve.best is None else f"{curve.best:,.4g}",
            *(Text(value) for value in values or [hparams_text(hparams)]),
            curve.trace.end,
        )
    return table


def _own_columns(drawn: list[Curve]) -> list[str]:
    """Return the hyperparameters' names if each can have its own column, else none."""
    widths: dict[str, int] = {}
    for curve in drawn:
        for name, value in curve.trace.hparams.items():
            widths[name] = max(widths.get(name, 0), len(name), len(hparam_text(value)))
    return list(widths) if sum(widths.values()) + len(widths) <= HPARAM_COLUMNS_WIDTH else []
