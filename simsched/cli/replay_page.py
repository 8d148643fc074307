"""The page of `simsched replay`: prediction over reality, on one time axis."""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import msgspec
from plotly.offline import get_plotlyjs

from simsched.analysis import page_parts as parts
from simsched.analysis.page_charts import Chart, Place, payload, places
from simsched.analysis.palette import DARK, LINE_COLORS
from simsched.analysis.statistics import summarize
from simsched.cli.replay_text import COST_COLUMNS, checks, costs, lines, remarks, sentence
from simsched.live.replaying import cautions, comparison
from simsched.results import Comparison, RunResult

if TYPE_CHECKING:
    from simsched.live.replaying import Replayed

HEADINGS = ("", "actual", "predicted", "off", "retraced", "off")


def write_page(replayed: "Replayed", path: Path) -> None:
    """Write the page."""
    path.write_text(page_html(replayed), encoding="utf-8")


def page_html(replayed: "Replayed") -> str:
    """Return the page: one HTML file that works without a network."""
    run = replayed.run
    whole = comparison(replayed)
    beside = Comparison(
        whole.settings,
        (
            _named(replayed.predicted.result, "predicted"),
            _named(run.result, "actual"),
            _named(replayed.retraced.result, "retraced"),
        ),
    )
    found, _ = places(beside)
    charts = [chart for place in found for chart in _charts(place)]
    sections = [*_beside(found)]
    if replayed.others:
        others = [_apart(place) for place in places(whole)[0]]
        sections.append(_others(whole, others, cautions(replayed)))
        charts += [chart for place in others for chart in place.gantts]
    return Template(_asset("report.html")).substitute(
        title=escape(f"Replay of {run.folder.name}"),
        sentence=escape(sentence(replayed)),
        chips="",
        cards="",
        table=_table("Prediction beside reality", HEADINGS, lines(replayed)),
        navigation="".join(f'<a href="#{name}">{head}</a>' for name, head, _ in sections),
        sections="".join(html for _, _, html in sections),
        notes=_notes([*checks(replayed), *remarks(replayed)]),
        settings=_table("What was charged", ("cost", *COST_COLUMNS), costs(replayed)),
        version=escape(run.settings.version),
        colors=_colors(),
        style=_asset("report.css"),
        plotly=_script(get_plotlyjs()),
        script=_script(_asset("report.js")),
        charts=payload(charts, DARK),
    )


def _named(run: RunResult, name: str) -> RunResult:
    return msgspec.structs.replace(run, scheduler=name)


def _charts(place: Place) -> list[Chart]:
    return [*place.gantts, place.best, place.utilization]


def _beside(found: list[Place]) -> Iterator[tuple[str, str, str]]:
    """Yield identifier, heading and HTML of the sections that compare."""
    intro = (
        "Predicted: a simulation at the mean of each cost. Retraced: one with each cost as it was "
        "at that place in the run. One row per node, one colour per trial; all charts share one "
        "time axis and zoom together."
    )
    gantts = parts.kinds_legend(found) + parts.in_places(found, lambda each: each.gantts, "stack")
    yield "schedule", "Schedule", parts.section("schedule", "Schedule", intro, gantts)
    over_time = parts.in_places(found, lambda each: [each.best, each.utilization], "grid two")
    yield "time", "Over time", parts.section("time", "Over time", "", over_time)


def _apart(place: Place) -> Place:
    """Give the charts of the other searches names, and a time axis, of their own."""
    gantts = [
        chart._replace(identifier=f"other-{chart.identifier}", linked=f"other-{chart.linked}")
        for chart in place.gantts
    ]
    return place._replace(gantts=gantts)


def _others(whole: Comparison, others: list[Place], notes: list[str]) -> tuple[str, str, str]:
    intro = (
        "The run as it was predicted, and what others would have done with its curves, at the mean "
        "of each cost."
    )
    intro += "".join(f" {note[0].upper()}{escape(note[1:])}." for note in notes)
    charts = "".join(parts.chart(chart) for place in others for chart in place.gantts)
    content = f'<div class="stack">{parts.table(summarize(whole))}{charts}</div>'
    return "others", "Others", parts.section("others", "Others", intro, content)


def _table(caption: str, headings: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in headings)
    body = "".join(
        f'<tr><th scope="row">{"&emsp;" if name.startswith(" ") else ""}{escape(name.strip())}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}, scrollable">'
        f'<table><caption class="unseen">{caption}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _notes(labelled: Sequence[tuple[str, str]]) -> str:
    items = [
        f"<dt>{escape(label)}</dt>" + "".join(f"<dd>{escape(text)}</dd>" for _, text in group)
        for label, group in groupby(labelled, key=lambda pair: pair[0])
    ]
    return f'<dl class="notes">{"".join(items)}</dl>'


def _asset(name: str) -> str:
    return (files("simsched.analysis") / "assets" / name).read_text(encoding="utf-8")


def _script(source: str) -> str:
    """Keep a script's text from ending its element."""
    return source.replace("</script", "<\\/script")


def _colors() -> str:
    """Return the palette as CSS variables, for a light page and for a dark one."""
    light = "".join(f"--s{index}:{color};" for index, color in enumerate(LINE_COLORS))
    dark = "".join(f"--s{index}:{DARK[color]};" for index, color in enumerate(LINE_COLORS))
    return (
        f":root{{{light}}}"
        f"@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}"
    )
