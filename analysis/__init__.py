"""Statistics, tables, figures and the HTML report, made of runs and their timelines alone.

The modules, from numbers to pages:

- `statistics`: means with intervals over replications;
- `series`: curves over a run's time;
- `tables`: the summary for terminals, pipes and Markdown;
- `figures`: Plotly figures, usable in a notebook on their own;
- `report`: one HTML file that works offline.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simsched.analysis.report import report_html, write_report
    from simsched.analysis.statistics import AnalysisError, summarize
    from simsched.analysis.tables import markdown
    from simsched.analysis.tables import plain as table

_HOME = {
    "AnalysisError": ("statistics", "AnalysisError"),
    "markdown": ("tables", "markdown"),
    "report_html": ("report", "report_html"),
    "summarize": ("statistics", "summarize"),
    "table": ("tables", "plain"),
    "write_report": ("report", "write_report"),
}

__all__ = ["AnalysisError", "markdown", "report_html", "summarize", "table", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOME[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)
