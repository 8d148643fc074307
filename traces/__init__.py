"""Recorded learning curves: their format, their files, importers, and a generator.

    >>> from simsched.traces import load
    >>> curves = load("MsPacman")           # a shipped set, or a path
    >>> curves.traces[0].score

This package imports nothing else of simsched. Names are loaded on first use, so
that importing it costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simsched.traces.format import End, Metadata, Trace, TraceError, TraceSet
    from simsched.traces.importers import import_file
    from simsched.traces.store import check, is_shipped, load, read, shipped, write
    from simsched.traces.synth import synthesize

_HOME = {
    "End": "format",
    "Metadata": "format",
    "Trace": "format",
    "TraceError": "format",
    "TraceSet": "format",
    "check": "store",
    "import_file": "importers",
    "is_shipped": "store",
    "load": "store",
    "read": "store",
    "shipped": "store",
    "synthesize": "synth",
    "write": "store",
}

__all__ = [
    "End",
    "Metadata",
    "Trace",
    "TraceError",
    "TraceSet",
    "check",
    "import_file",
    "is_shipped",
    "load",
    "read",
    "shipped",
    "synthesize",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
