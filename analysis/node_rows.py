"""The rows of a Gantt chart: a node each, named by kind where there are several kinds."""

from collections.abc import Sequence
from typing import Any

from simsched.analysis.cluster_words import NodeGroup
from simsched.analysis.palette import AXIS, MUTED, axis
from simsched.analysis.plotting import escaped
from simsched.analysis.wording import plural

NAME = 10
"""So many characters of a kind's name stand beside its first row."""
CHARACTER_PX, MARGIN_PX = 7, 34
"""Of a label, and of what stands beside it."""
LABEL_PX = 18
"""Rows are labelled no closer than this."""


def rows_layout(rows: int, row_px: float, groups: Sequence[NodeGroup]) -> dict[str, Any]:
    """Return the axis of the nodes; with several kinds also their borders and a wider margin."""
    every = max(1, round(LABEL_PX / row_px))
    shown = [group for group in groups if group.first < rows]
    labels = _labels(rows, every, shown)
    texts = {"ticktext": list(labels.values())} if shown else {}
    made: dict[str, Any] = {
        "yaxis": axis(
            range=[rows - 0.5, -0.5],
            tickvals=list(labels),
            showgrid=False,
            automargin=False,
            title={"text": plural(rows, "node"), "font": {"color": MUTED}},
            fixedrange=rows <= 16,
            **texts,
        )
    }
    if shown:
        widest = max(len(f"{_short(group.name)} {group.first}") for group in shown)
        made["margin"] = {"l": max(52, MARGIN_PX + CHARACTER_PX * widest)}
        made["shapes"] = [_border(group.first) for group in shown[1:]]
    return made


def _labels(rows: int, every: int, shown: Sequence[NodeGroup]) -> dict[int, str]:
    """Return what stands beside which rows: numbers, and each kind's name at its first."""
    if not shown:
        return {node: str(node) for node in range(0, rows, every)}
    labels: dict[int, str] = {}
    for group in shown:
        labels[group.first] = f"{escaped(_short(group.name))} {group.first}"
        # The next kind's name needs the room before it.
        last = rows if group.end >= rows else group.end - every + 1
        labels |= {node: str(node) for node in range(group.first + every, last, every)}
    return labels


def _short(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _border(node: int) -> dict[str, Any]:
    """Return the line above a node, from the labels to the end."""
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": node - 0.5, "y1": node - 0.5,
        "line": {"color": AXIS, "width": 1},
    }  # fmt: skip
