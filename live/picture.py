"""The picture of a live search: lines of text that fit a terminal of any size."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from simsched.live.settings import LiveSettings
from simsched.live.status import Doing, NodeStatus, Status
from simsched.live.wording import clock, figure, plural, printable, share, short, size
from simsched.results import Fate

LOG_LINES = 4
"""So many log lines have their place before nodes get theirs."""
MOST_LOG_LINES = 12
GAP = 2
"""Blanks between two columns."""
SHORTEST_NAME, LONGEST_NAME = 5, 24
LONGEST_BAR = 60
OPTIONAL = 6
"""Columns from this rank on are left out where no node has anything in them."""

_DOING: dict[Doing, tuple[str, str]] = {
    "idle": ("idle", "dim"),
    "starting": ("starting", "cyan"),
    "loading": ("loading", "cyan"),
    "training": ("training", "green"),
    "saving": ("saving", "yellow"),
    "waiting": ("waiting", "yellow"),
    "leaving": ("leaving", "yellow"),
    "out of service": ("out", "bold red"),
}
"""What is written for what a node does, and how."""
_FATES: dict[Fate, tuple[str, str]] = {
    "stopped": ("stopped", ""),
    "finished": ("finished", "green"),
    "diverged": ("diverged", "yellow"),
    "censored": ("cut off", "yellow"),
    "lost": ("lost", "bold red"),
}


class _Column(NamedTuple):
    """A column of the table of nodes. Where it is narrow, the highest `rank` goes first."""

    heading: str
    width: int
    rank: int
    cell: Callable[[NodeStatus], str]
    left: bool = False


def title(settings: LiveSettings) -> str:
    """Return what is searched over, by which scheduler, on what."""
    what = settings.game or settings.command or "a search"
    where = f"{plural(settings.workers, 'trial')} on {plural(settings.nodes, 'node')}"
    return printable(f"{what}, {settings.scheduler}, {where}")


def times(status: Status) -> str:
    """Return the time that has passed, and what is left as far as that is known."""
    elapsed = f"{clock(status.elapsed_s)} elapsed"
    if status.time_left_s is None:
        return f"{elapsed}, time left not known yet"
    return f"{elapsed}, {clock(status.time_left_s)} left"


def fates(status: Status, *, zeros: bool) -> list[tuple[str, str]]:
    """Return how many trials run, pause, are over by fate, or are to come; each with a style."""
    over = sum(status.fates.values())
    found = [
        (status.started - status.paused - over, "running", "green"),
        (status.paused, "paused", "cyan"),
        *((status.fates.get(fate, 0), *words) for fate, words in _FATES.items()),
        (status.trials - status.started, "to come", ""),
    ]
    return [
        (f"{number} {word}", style if number else "dim")
        for number, word, style in found
        if number or (zeros and word != "cut off")
    ]


def best(status: Status) -> str:
    """Return the best score with its trial and hyperparameters."""
    if status.best_score is None:
        return "no score yet"
    said = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in (status.best_hparams or {}).items()
    )
    trial = f"trial {status.best_trial}" + (f": {said}" if said else "")
    return printable(f"{figure(status.best_score)}, {trial}")


def tally(status: Status) -> str:
    """Return milestones, what checkpoints take on the disk, and failures."""
    return (
        f"{plural(status.milestones, 'milestone')}, {size(status.checkpoint_bytes)} of "
        f"checkpoints, {plural(status.failures, 'failure')}"
    )


def draw(
    settings: LiveSettings,
    status: Status,
    log: Sequence[str],
    width: int,
    height: int,
    *,
    over: bool = False,
) -> list[Text]:
    """Return the picture: at most `height` lines of at most `width` cells.

    Args:
        settings: of the search.
        status: what is drawn.
        log: the newest lines said.
        width: of the terminal.
        height: lines there are.
        over: nothing more will come: nodes are left out.
    """
    head = [_heading(settings), _bar(status, width)]
    facts = [
        _trials(status, width),
        _fact("best", best(status)),
        _tally(status),
    ]
    said = [Text(f" {line}", style="dim") for line in log]
    if over:
        lines = [*head, *facts]
    else:
        room = height - len(head) - len(facts) - 2 - min(LOG_LINES, len(said)) - bool(said)
        nodes = _nodes(settings, status.nodes, width, room)
        lines = [*head, Text(), *nodes, Text(), *facts]
        room = min(MOST_LOG_LINES, height - len(lines) - 1)
        if said and room > 0:
            lines += [Text(), *said[-room:]]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines[:height]


def _heading(settings: LiveSettings) -> Text:
    return Text.assemble(" ", ("simsched live", "bold cyan"), "  ", (title(settings), "bold"))


def _bar(status: Status, width: int) -> Text:
    """Return the progress bar with the times behind it."""
    said = times(status)
    if status.progress is not None:
        said = f"{share(status.progress)}, {said}"
    length = max(0, min(LONGEST_BAR, width - cell_len(said) - 4))
    done = round(length * min(1.0, max(0.0, status.progress or 0.0)))
    bar = (("━" * done, "green"), ("━" * (length - done), "bright_black"))
    return Text.assemble(" ", *bar, "  " if length else "", said)


def _trials(status: Status, width: int) -> Text:
    """Return what has become of the trials; what is nought only where there is room."""
    found = fates(status, zeros=True)
    if sum(len(text) + 2 for text, _ in found) + len(" trials  ") > width:
        found = fates(status, zeros=False)
    line = _fact("trials", "")
    for place, (text, style) in enumerate(found):
        line.append("  " if place else "").append(text, style=style)
    return line


def _tally(status: Status) -> Text:
    line = _fact("so far", tally(status))
    if status.failures:
        line.highlight_regex(r"[0-9,]+ failures?$", "yellow")
    return line


def _fact(name: str, text: str) -> Text:
    return Text.assemble(" ", (f"{name:6}", "dim"), "  ", text)


def _nodes(
    settings: LiveSettings, nodes: Sequence[NodeStatus], width: int, room: int
) -> list[Text]:
    """Return the table of nodes, at most `room` lines: the first ones, and how many more."""
    fit = max(0, room - 1)
    shown = nodes if len(nodes) <= fit else nodes[: max(0, fit - 1)]
    rest = nodes[len(shown) :]
    columns, name = _columns(settings, nodes, width)
    lines = []
    if shown:
        lines.append(_row("node", name, [(each, each.heading, "dim") for each in columns], "dim"))
    for node in shown:
        style = _DOING[node.doing][1]
        cells = [
            (each, each.cell(node), style if each.heading == "state" else "") for each in columns
        ]
        lines.append(_row(printable(node.name), name, cells, ""))
    if rest:
        does = Counter(_DOING[node.doing][0] for node in rest)
        said = ", ".join(f"{number} {word}" for word, number in does.most_common())
        more = f"… and {len(rest):,} more" if shown else plural(len(rest), "node")
        lines.append(Text(f" {more}: {said}", style="dim"))
    return lines


def _row(name: str, width: int, cells: Sequence[tuple[_Column, str, str]], style: str) -> Text:
    line = Text(" ")
    line.append_text(_aligned(name, width, style, left=True))
    for column, text, its in cells:
        line.append(" " * GAP)
        line.append_text(_aligned(text, column.width, its, left=column.left))
    return line


def _aligned(text: str, width: int, style: str, *, left: bool) -> Text:
    cell = Text(text, style=style)
    cell.truncate(width, overflow="ellipsis")
    cell.align("left" if left else "right", width)
    return cell


def _columns(
    settings: LiveSettings, nodes: Sequence[NodeStatus], width: int
) -> tuple[list[_Column], int]:
    """Return the columns that fit beside the nodes' names, and the names' width."""
    columns = [
        column
        for column in _all_columns(settings)
        if column.rank < OPTIONAL or any(column.cell(node) for node in nodes)
    ]
    longest = max((cell_len(printable(node.name)) for node in nodes), default=0)
    name = min(LONGEST_NAME, max(SHORTEST_NAME, longest))
    while columns and sum(each.width + GAP for each in columns) + name + 1 > width:
        if name > SHORTEST_NAME and max(each.rank for each in columns) < OPTIONAL:
            name -= 1  # names are cut before what a search is about goes
        else:
            columns.remove(max(columns, key=lambda each: each.rank))
    return columns, name


def _all_columns(settings: LiveSettings) -> list[_Column]:
    phases = settings.phases
    return [
        _Column("trial", 5, 0, lambda node: _text(node.trial, str)),
        _Column("phase", 5, 4, lambda node: _text(node.phase, lambda p: f"{p + 1:.0f}/{phases}")),
        _Column("state", 8, 1, lambda node: _DOING[node.doing][0], left=True),
        _Column(settings.unit, 11, 2, _progress),
        _Column("score", 9, 3, lambda node: _text(node.score, figure)),
        _Column("steps/s", 7, 5, lambda node: _text(node.steps_per_s, short)),
        _Column("CPU %", 5, 7, lambda node: _text(node.cpu_percent, lambda p: f"{p:.0f}")),
        _Column("GPU %", 5, 6, lambda node: _text(node.gpu_percent, lambda p: f"{p:.0f}")),
        _Column("memory", 8, 8, lambda node: _text(node.gpu_memory_bytes, size)),
    ]


def _text(value: float | None, written: Callable[[float], str]) -> str:
    return "" if value is None else written(value)


def _progress(node: NodeStatus) -> str:
    if node.count is None or node.until is None:
        return ""
    return f"{short(node.count)}/{short(node.until)}"
