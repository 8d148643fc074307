"""The HTML of a report's page, piece by piece. Every text from outside is escaped here."""

from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape

from simsched.analysis.describe import (
    Tag,
    command_line,
    costs,
    held,
    lengths,
    node_kinds,
    subject,
    tags,
)
from simsched.analysis.glossary import explained
from simsched.analysis.page_charts import Chart, Place, kinds
from simsched.analysis.palette import DOWN, FILLS, LINE_COLORS, Style
from simsched.analysis.statistics import Row
from simsched.analysis.tables import ALL_COLUMNS, by_scheduler, columns, is_sweep
from simsched.analysis.wording import count, plural
from simsched.results import Measured, Settings
from simsched.timeline import Kind

NODES_NAMED = 32
"""So many nodes are named in the list of settings."""
_METERS: dict[str, Callable[[Row], float]] = {
    "wall time": lambda row: row.wall_time_s.mean,
    "util. %": lambda row: row.utilization.mean,
    "occup. %": lambda row: row.occupancy.mean,
    "α %": lambda row: row.completion_rate.mean,
}
"""Columns whose cells carry a small bar."""


def chips(found: Iterable[Tag]) -> str:
    """Return the tags as links to their explanations."""
    items = [
        f'<li><a class="chip {_slug(tag.name)}" href="#tag-{_slug(tag.name)}">'
        f"{escape(tag.name)}</a></li>"
        for tag in found
    ]
    return f'<ul class="chips" aria-label="What the figures rest on">{"".join(items)}</ul>'


def _slug(name: str) -> str:
    return name.replace(" ", "-")


def table(rows: Sequence[Row]) -> str:
    """Return the summary as an HTML table that scrolls in a box of its own."""
    sweep = is_sweep(rows)
    places = '<th scope="col">nodes</th><th scope="col">trials</th>' if sweep else ""
    names = [column.name for column in columns(rows)]
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    longest = {} if sweep else _longest(rows)
    # What holds for every row stands at the top of the page already.
    common = set.intersection(*(set(held(row)) for row in rows)) - {"approximate"}
    body = []
    for index, group in enumerate(by_scheduler(rows).values()):
        lines = [
            _line(row, index, sweep, place == 0, names, longest, common)
            for place, row in enumerate(group)
        ]
        body.append(f"<tbody>{''.join(lines)}</tbody>")
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Results, scrollable">'
        f'<table class="{"sweep" if sweep else "results"}">'
        '<caption class="unseen">Results by scheduler</caption>'
        f'<thead><tr><th scope="col">scheduler</th>{places}{heads}</tr></thead>'
        f"{''.join(body)}</table></div>"
    )


def _longest(rows: Sequence[Row]) -> dict[str, float]:
    """Return what a full bar stands for in each column that has bars."""
    return {
        name: 1.0 if name.endswith("%") else max(measure(row) for row in rows)
        for name, measure in _METERS.items()
    }


def _line(
    row: Row,
    index: int,
    sweep: bool,
    first: bool,
    names: Sequence[str],
    longest: dict[str, float],
    common: set[str],
) -> str:
    name, _, parameters = row.scheduler.partition(":")
    detail = f'<span class="parameters">{escape(parameters)}</span>' if parameters else ""
    hidden = "" if first else ' class="again"'
    head = (
        f'<th scope="row"{hidden}><div><span class="swatch s{index % 8}"></span>'
        f"<span>{escape(name)}{detail}{_row_chips(row, common)}</span></div></th>"
    )
    places = f"<td>{count(row.nodes)}</td><td>{count(row.workers)}</td>" if sweep else ""
    cells = "".join(_data_cell(row, name, index, longest) for name in names)
    return f"<tr>{head}{places}{cells}</tr>"


def _row_chips(row: Row, common: set[str]) -> str:
    links = [
        f'<a class="chip {_slug(name)}" href="#tag-{_slug(name)}">{name}</a>'
        for name in held(row)
        if name not in common
    ]
    return f'<span class="row-chips">{"".join(links)}</span>' if links else ""


def _data_cell(row: Row, name: str, index: int, longest: dict[str, float]) -> str:
    cell = next(column for column in ALL_COLUMNS if column.name == name).cell(row)
    spread = f'<span class="spread">±{escape(cell.spread)}</span>' if cell.spread else ""
    meter = ""
    if longest.get(name, 0) > 0:
        share = min(1.0, _METERS[name](row) / longest[name])
        meter = f'<span class="meter s{index % 8}" style="--share:{share:.4f}"></span>'
    return f"<td>{escape(cell.mean)}{spread}{meter}</td>"


def chart(each: Chart) -> str:
    """Return a chart's heading, what is to be said about it, and the box it is drawn into."""
    height = round(each.figure.layout.height)
    return (
        f'<figure class="chart"><figcaption><h3>{escape(each.title)}</h3>'
        f"<p>{escape(each.note)}</p></figcaption>"
        f'<div class="plot" id="{each.identifier}" role="img" '
        f'aria-label="{escape(each.label)}" style="--height:{height}"></div></figure>'
    )


_DASHES = {
    "solid": "none",
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "10 4",
    "longdashdot": "10 3 2 3",
}


def legend(entries: Sequence[tuple[str, Style]]) -> str:
    """Return a legend for several charts; names are escaped already."""
    items = [
        f'<li class="s{LINE_COLORS.index(style.color)}"><svg viewBox="0 0 34 8" '
        f'aria-hidden="true"><path d="M0 4h34" stroke-dasharray="{_DASHES[style.dash]}"/></svg>'
        f"{name}</li>"
        for name, style in entries
    ]
    return f'<ul class="legend" aria-label="Lines">{"".join(items)}</ul>'


def kinds_legend(found: Sequence[Place]) -> str:
    """Return what hatching and shades mean in the Gantt charts."""
    lists = []
    for hatched, css in ((True, "hatch"), (False, "shade")):
        items = [f"<li>{_swatch(kind, css)}{kind}</li>" for kind in kinds(found, hatched=hatched)]
        if items:
            star = '<li><span class="star">★</span>best score</li>'
            lists.append(f'<ul class="legend" aria-label="Kinds">{"".join(items)}{star}</ul>')
    both = '<p class="aside">Where there are too many bars for hatching, shades stand for it:</p>'
    return both.join(lists)


def _swatch(kind: Kind, css: str) -> str:
    """Return a bar as the charts have it."""
    if kind == "down":
        return f'<span class="kind" style="background:{DOWN}"></span>'
    shade = f' style="--shade-of:{FILLS[kind].shade}"' if css == "shade" else ""
    return f'<span class="kind {css}-{kind}"{shade}></span>'


def section(identifier: str, heading: str, intro: str, content: str) -> str:
    """Return a section of the page; `intro` and `content` are HTML."""
    lead = f"<p>{intro}</p>" if intro else ""
    return (
        f'<section id="{identifier}" aria-labelledby="{identifier}-heading">'
        f'<div class="heading"><h2 id="{identifier}-heading">{escape(heading)}</h2>{lead}</div>'
        f"{content}</section>"
    )


def in_places(found: Sequence[Place], pick: Callable[[Place], Sequence[Chart]], grid: str) -> str:
    """Return some charts of every place; all but the first place's are hidden."""
    blocks = []
    for index, place in enumerate(found):
        hidden = " hidden" if index else ""
        charts = "".join(chart(each) for each in pick(place))
        blocks.append(f'<div class="place {grid}" data-place="{index}"{hidden}>{charts}</div>')
    return "".join(blocks)


def place_choice(found: Sequence[Place]) -> str:
    """Return the control that says which cluster the charts below show."""
    if len(found) < 2:
        return ""
    options = "".join(
        f'<option value="{index}">{escape(place.name)}</option>'
        for index, place in enumerate(found)
    )
    return (
        '<div class="choice"><label for="place">Charts below are for</label>'
        f'<select id="place" autocomplete="off">{options}</select></div>'
    )


def notes(
    settings: Settings,
    rows: Sequence[Row],
    measured: Measured | None = None,
    spent: Collection[Kind] = (),
) -> str:
    """Return what the figures rest on, what the schedulers say, and what the words mean.

    `spent` are the kinds of time that nodes spent at all.
    """
    items = [
        f'<dt id="tag-{_slug(tag.name)}"><span class="chip {_slug(tag.name)}">'
        f"{escape(tag.name)}</span></dt><dd>{escape(tag.text)}</dd>"
        for tag in tags(settings, rows, measured)
    ]
    for scheduler, group in by_scheduler(rows).items():
        said = dict.fromkeys(note for row in group for note in row.notes)
        items += [f"<dt>{escape(scheduler)}</dt><dd>{escape(note)}</dd>" for note in said]
    known = explained(spent, measured=measured is not None)
    words = "".join(f"<dt>{word}</dt><dd>{text}</dd>" for word, text in known)
    return (
        f'<dl class="notes">{"".join(items)}</dl>'
        f'<details><summary>What the words mean</summary><dl class="notes">{words}</dl></details>'
    )


def settings_list(settings: Settings, measured: Measured | None = None) -> str:
    """Return all settings, the command that repeats the comparison, and where it comes from."""
    values = _simulated(settings) if measured is None else _measured(settings, measured)
    values += [
        ("Curves", f"{settings.traces}, {plural(settings.recorded_trials, 'trial')}"),
        ("SHA-256 of the curves", settings.traces_sha256),
        ("Version", f"simsched {settings.version}"),
    ]
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in values)
    return (
        f'<dl class="settings">{items}</dl>'
        f"<h3>To {'repeat this' if measured is None else 'search again'}</h3>"
        '<pre class="command" tabindex="0"><code>'
        f"{escape(command_line(settings, measured))}</code></pre>"
    )


def _simulated(settings: Settings) -> list[tuple[str, str]]:
    return [
        ("Game", subject(settings)),
        ("Score", f"{settings.metric}, {_better(settings)}"),
        ("Nodes", ", ".join(count(nodes) for nodes in settings.nodes)),
        ("Node speeds" if settings.cluster is None else "Kinds of nodes", node_kinds(settings)),
        ("Trials", ", ".join(count(workers) for workers in settings.workers)),
        ("Longest trial", lengths(settings)),
        ("Costs", costs(settings)),
        ("Checkpoints", settings.checkpoints),
        ("Preemption", settings.preemption),
        ("Replications", count(settings.replications)),
        ("Trials drawn", "with replacement" if settings.resample else "without replacement"),
        ("Seed", str(settings.seed)),
    ]


def _measured(settings: Settings, measured: Measured) -> list[tuple[str, str]]:
    names = [*measured.nodes[:NODES_NAMED], *["…"] * (len(measured.nodes) > NODES_NAMED)]
    what = ("Game", settings.game) if settings.game else ("Program", measured.program or "")
    return [
        what,
        ("Score", f"{settings.metric}, {_better(settings)}"),
        ("Scheduler", ", ".join(settings.schedulers)),
        ("Nodes", f"{count(settings.nodes[0])}: {', '.join(names)}"),
        ("Trials", ", ".join(count(workers) for workers in settings.workers)),
        ("Longest trial", lengths(settings)),
        ("Costs", costs(settings, measured)),
        ("Failures", plural(measured.failures, "worker") if measured.failures else "none"),
        ("Seed", str(settings.seed)),
        ("Began", measured.date),
        ("Hardware", measured.hardware),
        ("Software", ", ".join(f"{name} {text}" for name, text in measured.versions.items())),
    ]


def _better(settings: Settings) -> str:
    return "smaller is better" if settings.mode == "min" else "larger is better"
