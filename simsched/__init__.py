"""Rehearse a hyperparameter search on a simulated cluster, then run it for real.

    >>> import simsched
    >>> result = simsched.simulate("MsPacman", nodes=6, workers=16)
    >>> print(simsched.table(result))
    >>> simsched.write_report(result, "report.html")

Names are loaded on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simsched._version import __version__

if TYPE_CHECKING:
    from simsched.analysis import figures, table, write_report
    from simsched.comparison import simulate
    from simsched.errors import SimschedError
    from simsched.results import Comparison, RunResult
    from simsched.schedulers import register
    from simsched.space import Categorical, Integer, Real, SearchSpace

_HOME = {
    "Categorical": "simsched.space",
    "Comparison": "simsched.results",
    "Integer": "simsched.space",
    "Real": "simsched.space",
    "RunResult": "simsched.results",
    "SearchSpace": "simsched.space",
    "SimschedError": "simsched.errors",
    "register": "simsched.schedulers",
    "simulate": "simsched.comparison",
    "figures": "simsched.analysis.figures",
    "table": "simsched.analysis",
    "write_report": "simsched.analysis",
}

__all__ = [
    "Categorical",
    "Comparison",
    "Integer",
    "Real",
    "RunResult",
    "SearchSpace",
    "SimschedError",
    "__version__",
    "figures",
    "register",
    "simulate",
    "table",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_HOME[name])
    return module if name == "figures" else getattr(module, name)
