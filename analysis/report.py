"""The report: one HTML file with tables and charts that works without a network."""

import contextlib
import os
import tempfile
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from plotly.offline import get_plotlyjs

from simsched.analysis import page_parts as parts
from simsched.analysis.describe import sentence, tags, title
from simsched.analysis.glossary import kinds_spent
from simsched.analysis.page_cards import cards, live_cards
from simsched.analysis.page_charts import (
    Chart,
    Place,
    payload,
    places,
    sweep_charts,
    usage_charts,
)
from simsched.analysis.page_cluster import cluster_section
from simsched.analysis.palette import DARK, LINE_COLORS
from simsched.analysis.statistics import AnalysisError, summarize
from simsched.analysis.sweeps import key as sweep_key
from simsched.results import Comparison


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the report to `path`, whole or not at all.

    Raises AnalysisError where there is nothing to report or the file cannot be written.
    """
    page = report_html(comparison).encode()
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    except OSError as error:
        raise AnalysisError(f"{target}: the report cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except OSError as error:
        raise AnalysisError(f"{target}: the report cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()


def report_html(comparison: Comparison) -> str:
    """Return the report. The same comparison gives the same text, byte for byte.

    Raises AnalysisError where there is nothing to report.
    """
    settings, rows, measured = comparison.settings, summarize(comparison), comparison.measured
    sweeps = sweep_charts(comparison)
    found, left_out = places(comparison)
    key = parts.legend(sweep_key(comparison)) if sweeps else ""
    use = usage_charts(comparison)
    sections = cluster_section(settings, measured)
    sections += _sections(found, sweeps, key, left_out, use)
    charts = sweeps + [chart for place in found for chart in _all_charts(place)] + use
    return Template(_asset("report.html")).substitute(
        title=escape(title(settings, measured)),
        sentence=escape(sentence(settings, rows, measured)),
        chips=parts.chips(tags(settings, rows, measured)),
        cards=cards(settings, rows) if measured is None else live_cards(comparison),
        table=parts.table(rows),
        navigation="".join(f'<a href="#{name}">{escape(head)}</a>' for name, head, _ in sections),
        sections="".join(html for _, _, html in sections),
        notes=parts.notes(settings, rows, measured, kinds_spent(comparison.runs)),
        settings=parts.settings_list(settings, measured),
        version=escape(settings.version),
        colors=_colors(),
        style=_asset("report.css"),
        plotly=_script(get_plotlyjs()),
        script=_script(_asset("report.js")),
        charts=payload(charts, DARK),
    )


def _all_charts(place: Place) -> list[Chart]:
    return [place.best, place.utilization, *place.gantts, *place.curves]


def _sections(
    found: list[Place], sweeps: list[Chart], key: str, left_out: str, use: list[Chart]
) -> list[tuple[str, str, str]]:
    """Return identifier, heading and HTML of each section with charts."""
    sections: list[tuple[str, str, str]] = []
    if sweeps:
        charts = "".join(parts.chart(each) for each in sweeps)
        grid = f'{key}<div class="grid three">{charts}</div>'
        sections.append(("sizes", "Cluster size", parts.section("sizes", "Cluster size", "", grid)))
    choice = parts.place_choice(found) + (
        f'<p class="left-out">{escape(left_out)}</p>' if left_out else ""
    )
    over_time = parts.in_places(found, lambda place: [place.best, place.utilization], "grid two")
    first = parts.section("time", "Over time", "", over_time)
    sections.append(("time", "Over time", choice + first))
    intro = (
        "One row per node, one colour per trial, the same in every chart. All charts share one "
        "time axis and zoom together. The dotted line is the search's end."
    )
    gantts = parts.kinds_legend(found)
    gantts += parts.in_places(found, lambda place: place.gantts, "stack")
    sections.append(("schedule", "Schedule", parts.section("schedule", "Schedule", intro, gantts)))
    if use:
        grid = ("stack", "grid two", "grid three")[len(use) - 1]
        charts = f'<div class="{grid}">{"".join(parts.chart(each) for each in use)}</div>'
        heading = "Use of the nodes"
        intro = "What was sampled while the search ran, on the time axis of the schedule above."
        sections.append(("use", heading, parts.section("use", heading, intro, charts)))
    intro = "Every trial's scores, coloured by what became of it."
    curves = parts.in_places(found, lambda place: place.curves, "grid")
    heading = "Learning curves"
    sections.append(("curves", heading, parts.section("curves", heading, intro, curves)))
    return sections


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
