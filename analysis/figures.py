"""Plotly figures of a comparison. Each stands on its own in a notebook, title included."""

from simsched.analysis.gantt import gantt
from simsched.analysis.learning import curves
from simsched.analysis.overtime import best_so_far, utilization
from simsched.analysis.sweeps import QUANTITIES, Quantity, sweep
from simsched.analysis.usage import MEASURES, Measure, usage

__all__ = [
    "MEASURES",
    "QUANTITIES",
    "Measure",
    "Quantity",
    "best_so_far",
    "curves",
    "gantt",
    "sweep",
    "usage",
    "utilization",
]
