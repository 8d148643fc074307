"""Plotly figures of a comparison. Each stands on its own in a notebook, title included."""

from simsched.analysis.gantt import gantt
from simsched.analysis.learning import curves
from simsched.analysis.overtime import best_so_far, utilization
from simsched.analysis.sweeps import QUANTITIES, Quantity, sweep

__all__ = ["QUANTITIES", "Quantity", "best_so_far", "curves", "gantt", "sweep", "utilization"]
