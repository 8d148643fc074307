"""The summary as a table: for a terminal, for pipes, for Markdown and for the report."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from simsched.analysis.describe import Tag, marks, tags, title
from simsched.analysis.statistics import Interval, Row, summarize
from simsched.analysis.wording import MISSING, duration, number, plural, rough_duration
from simsched.results import Comparison

NOTES_SHOWN = 3
"""So many notes of one scheduler are printed under a terminal's table."""


class Cell(NamedTuple):
    """A mean, and its spread without the sign ± (empty where there is no interval)."""

    mean: str
    spread: str

    @property
    def line(self) -> str:
        """Both on one line."""
        return f"{self.mean} ±{self.spread}" if self.spread else self.mean


class Column(NamedTuple):
    """A measure: its name, its heading over two lines, and its cell for a row."""

    name: str
    heading: str
    cell: Callable[[Row], Cell]


def _cell(interval: Interval | None, written: Callable[[float, float], str]) -> Cell:
    """Write a mean and its spread; `written` gets the value and the mean it is to be like."""
    if interval is None:
        return Cell(MISSING, "")
    mean, spread = interval.mean, interval.spread
    return Cell(written(mean, mean), "" if spread is None else written(spread, mean))


def _timed(interval: Interval | None) -> Cell:
    if interval is None:
        return Cell(MISSING, "")
    spread_s = interval.spread
    return Cell(duration(interval.mean), "" if spread_s is None else rough_duration(spread_s))


def _share(value: float, _mean: float) -> str:
    return f"{100 * value:.1f}"


def _times(value: float, mean: float) -> str:
    whole = value == 0 or mean >= 1000 or value == mean == round(mean)
    return f"{value:.0f}" if whole else f"{value:.1f}"


COLUMNS: tuple[Column, ...] = (
    Column("wall time", "wall time", lambda row: _timed(row.wall_time_s)),
    Column("util. %", "util.\n%", lambda row: _cell(row.utilization, _share)),
    Column("occup. %", "occup.\n%", lambda row: _cell(row.occupancy, _share)),
    Column("α %", "α\n%", lambda row: _cell(row.completion_rate, _share)),
    Column("best score", "best\nscore", lambda row: _cell(row.best_score, number)),
    Column("time to best", "time to\nbest", lambda row: _timed(row.time_to_best_s)),
    Column("preemptions", "pre-\nempt.", lambda row: _cell(row.preemptions, _times)),
    Column("node-hours", "node-\nhours", lambda row: _cell(row.node_hours, number)),
)
"""The measures in the order in which every table has them."""
REDO = Column("redo %", "redo\n%", lambda row: _cell(row.redo, _share))
COST = Column("cost", "cost", lambda row: _cell(row.cost, number))
ALL_COLUMNS = (*COLUMNS, REDO, COST)


def columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    """Return the measures of a table, as many as ever: what tells more takes another's place."""
    instead = {}
    if any(row.redo.mean > 0 for row in rows):
        instead["occup. %"] = REDO
    if any(row.cost is not None for row in rows):
        instead["node-hours"] = COST
    return tuple(instead.get(column.name, column) for column in COLUMNS)


def is_sweep(rows: Sequence[Row]) -> bool:
    """Tell whether the rows differ in nodes or trials."""
    return len({(row.nodes, row.workers) for row in rows}) > 1


def place(row: Row, rows: Sequence[Row]) -> str:
    """Return what tells a row of a sweep from its scheduler's others: `4 nodes`, `4 × 16`."""
    if len({each.workers for each in rows}) == 1:
        return plural(row.nodes, "node")
    if len({each.nodes for each in rows}) == 1:
        return plural(row.workers, "trial")
    return f"{row.nodes} × {row.workers}"


def by_scheduler(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each scheduler, schedulers in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.scheduler, []).append(row)
    return groups


def summary(comparison: Comparison) -> Group:
    """Return the table and its notes, ready for a `rich` console of 80 columns or more."""
    rows = summarize(comparison)
    name = title(comparison.settings, comparison.measured)
    heading = Padding(Text(name, style="bold"), (1, 1, 0, 1))
    lines = [Padding(Text(line, style="dim"), (0, 1)) for line in notes(comparison, rows)]
    return Group(heading, rich_table(rows), *lines)


def rich_table(rows: Sequence[Row]) -> Table:
    """Return the terminal's table; a spread stands under its mean."""
    sweep = is_sweep(rows)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=True, header_style="bold")
    heading = "scheduler" + (f"\n  {_places_heading(rows)}" if sweep else "")
    table.add_column(heading, overflow="fold", vertical="top")
    shown = columns(rows)
    for column in shown:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for scheduler, group in by_scheduler(rows).items():
        if sweep:
            table.add_row(_name(scheduler, ""))
        for row in group:
            label = _name(f"  {place(row, rows)}" if sweep else scheduler, marks(row))
            table.add_row(label, *(_stacked(column.cell(row)) for column in shown))
    return table


def _name(scheduler: str, marked: str) -> Text:
    """Write a scheduler with each of its parameters on a line of its own."""
    name, _, parameters = scheduler.partition(":")
    text = Text(name).append(marked, style="yellow")
    for parameter in parameters.split(",") if parameters else ():
        text.append(f"\n {parameter}", style="dim")
    return text


def _stacked(cell: Cell) -> Text:
    text = Text(cell.mean)
    return text.append(f"\n±{cell.spread}", style="dim") if cell.spread else text


def _places_heading(rows: Sequence[Row]) -> str:
    if len({row.workers for row in rows}) == 1:
        return "nodes"
    if len({row.nodes for row in rows}) == 1:
        return "trials"
    return "nodes × trials"


def notes(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """Return the lines under a table: what its marks mean, then what the runs have to say."""
    lines = [_note(tag) for tag in tags(comparison.settings, rows, comparison.measured)]
    for scheduler, group in by_scheduler(rows).items():
        said = list(dict.fromkeys(note for row in group for note in row.notes))
        lines += [f"{scheduler}: {note}" for note in said[:NOTES_SHOWN]]
        if len(said) > NOTES_SHOWN:
            lines.append(f"{scheduler}: and {len(said) - NOTES_SHOWN} more notes (see the report)")
    return lines


def _note(tag: Tag) -> str:
    return f"{tag.mark} {tag.name}: {tag.text}".lstrip()


def _grid(rows: Sequence[Row]) -> list[list[str]]:
    """Return headings and rows as text, one line a row."""
    sweep = is_sweep(rows)
    headings = ["scheduler", *(["nodes", "trials"] if sweep else [])]
    grid = [[*headings, *(column.name for column in columns(rows))]]
    for row in (row for group in by_scheduler(rows).values() for row in group):
        places = [str(row.nodes), str(row.workers)] if sweep else []
        cells = [column.cell(row).line for column in columns(rows)]
        grid.append([row.scheduler + marks(row), *places, *cells])
    return grid


def plain(comparison: Comparison) -> str:
    """Return the table for pipes: no colour, one line a row, columns two or more blanks apart."""
    rows = summarize(comparison)
    grid = _grid(rows)
    widths = [max(len(line[index]) for line in grid) for index in range(len(grid[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in grid
    ]
    return "\n".join([*lines, "", *notes(comparison, rows)]) + "\n"


def markdown(comparison: Comparison) -> str:
    """Return the table in Markdown, with its notes under it."""
    rows = summarize(comparison)
    head, *body = [[_escaped(cell) for cell in line] for line in _grid(rows)]
    numbers = len(head) - 1
    lines = [
        _piped(head),
        _piped(["---", *["---:"] * numbers]),
        *(_piped(line) for line in body),
        "",
        *(f"{_escaped(line)}  " for line in notes(comparison, rows)),
    ]
    return "\n".join(lines) + "\n"


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Keep Markdown from reading a name as its own marks."""
    escaped = text.replace("\\", "\\\\")
    for character in "|*_`<[":
        escaped = escaped.replace(character, f"\\{character}")
    return " ".join(escaped.split())
