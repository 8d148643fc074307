"""The section of a report's page that tells what the simulated cluster was."""

from collections.abc import Sequence
from html import escape

from simsched.analysis.cluster_words import introduced, told
from simsched.analysis.page_parts import section
from simsched.results import Measured, Settings


def cluster_section(settings: Settings, measured: Measured | None) -> list[tuple[str, str, str]]:
    """Return identifier, heading and HTML; nothing where nothing was said of the cluster."""
    lines = told(settings, measured)
    if lines is None:
        return []
    content = f'<div class="grid two">{_panel(lines.nodes)}{_panel(lines.rest)}</div>'
    intro = escape(introduced(settings))
    return [("cluster", "Cluster", section("cluster", "Cluster", intro, content))]


def _panel(lines: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in lines
    )
    return f'<div class="panel"><dl class="settings">{items}</dl></div>'
