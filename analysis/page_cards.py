"""The figures at the top of a report's page: the best of each measure, and who reached it."""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from simsched.analysis.statistics import Interval, Row, summarize
from simsched.analysis.tables import COLUMNS, is_sweep
from simsched.analysis.wording import count, duration, listing, percent, plural
from simsched.results import Comparison, Settings


class _Card(NamedTuple):
    """A figure at the top of the page: the best of all rows in one measure."""

    title: str
    column: str
    measure: Callable[[Row], Interval | None]
    largest: bool


def cards(settings: Settings, rows: Sequence[Row]) -> str:
    """Return the best of each measure, with who reached it, at the largest number of trials."""
    most = max(row.workers for row in rows)
    rows = [row for row in rows if row.workers == most]
    wanted = [
        _Card("Shortest wall time", "wall time", lambda row: row.wall_time_s, False),
        _Card("Best score", "best score", lambda row: row.best_score, settings.mode == "max"),
        _Card("Highest utilization", "util. %", lambda row: row.utilization, True),
        _Card("Fewest node-hours", "node-hours", lambda row: row.node_hours, False)
        if is_sweep(rows)
        else _Card("Least training (α)", "α %", lambda row: row.completion_rate, False),
    ]
    return f'<div class="cards">{"".join(_card(card, rows) for card in wanted)}</div>'


def live_cards(comparison: Comparison) -> str:
    """Return the figures of the search that ran, with what belongs to each."""
    (run,), (row,) = comparison.runs, summarize(comparison)
    best = "none" if run.best_trial is None else f"trial {run.best_trial}"
    if run.time_to_best_s is not None:
        best += f", after {duration(run.time_to_best_s)}"
    milestones = plural(run.milestones, "milestone")
    wanted = (
        ("Wall time", "wall time", f"{row.node_hours.mean:.3g} node-hours"),
        ("Best score", "best score", best),
        ("Utilization", "util. %", f"occupancy {percent(run.occupancy)}"),
        ("Training done (α)", "α %", f"{milestones} of {count(len(run.trials))} trials"),
    )
    return f'<div class="cards">{"".join(_filled(*card, row) for card in wanted)}</div>'


def _filled(title: str, column: str, who: str, row: Row) -> str:
    cell = next(each for each in COLUMNS if each.name == column).cell(row)
    unit = "&#8239;%" if column.endswith("%") else ""
    return (
        f'<div class="card"><h3>{escape(title)}</h3>'
        f'<p class="figure">{escape(cell.mean)}{unit}</p><p class="who">{escape(who)}</p></div>'
    )


def _card(card: _Card, rows: Sequence[Row]) -> str:
    known = [(row, value.mean) for row in rows if (value := card.measure(row)) is not None]
    if not known:
        return f'<div class="card"><h3>{escape(card.title)}</h3><p class="figure">none</p></div>'
    best = (max if card.largest else min)(value for _, value in known)
    holders = [row for row, value in known if value == best]
    cell = next(column for column in COLUMNS if column.name == card.column).cell(holders[0])
    unit = "&#8239;%" if card.column.endswith("%") else ""
    spread = f'<span class="spread">±{escape(cell.spread)}</span>' if cell.spread else ""
    return (
        f'<div class="card"><h3>{escape(card.title)}</h3>'
        f'<p class="figure">{escape(cell.mean)}{unit} {spread}</p>'
        f'<p class="who">{_holders(holders, rows)}</p></div>'
    )


def _holders(holders: Sequence[Row], rows: Sequence[Row]) -> str:
    """Say who reached a best value, without a list as long as the table."""
    names = list(dict.fromkeys(row.scheduler for row in holders))
    if len(holders) == len(rows) > 1:
        return "all alike"
    if len(names) > 3:
        return f"{len(names)} schedulers alike"
    text = escape(listing(names))
    if is_sweep(rows) and len(holders) == 1:
        text += f", {plural(holders[0].nodes, 'node')}, {plural(holders[0].workers, 'trial')}"
    approximate = any(row.approximate for row in holders)
    return text + (' <span class="chip approximate">approximate</span>' if approximate else "")
