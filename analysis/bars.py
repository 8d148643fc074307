"""Which intervals of a timeline a Gantt chart draws, and what it says of the others."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simsched.analysis.series import Columns, columns
from simsched.analysis.wording import count, duration
from simsched.timeline import KINDS, US_PER_S, Timeline

BARS = 4000
"""So many bars are drawn at most."""
ROWS = 256
"""So many nodes are drawn at most."""
INVISIBLE = 1 / 4000
"""A stretch shorter than this share of the time axis is less than a pixel wide."""


CELLS_PER_BAR = 30
"""A picture of what the nodes did has so many cells for each bar that could be drawn."""


class Drawn(NamedTuple):
    """What is left of a timeline to draw, and what was merged or left out, in words."""

    bars: Columns
    note: str


class Sampled(NamedTuple):
    """What each node did at evenly spaced instants.

    Shapes (nodes, instants): `trial` is NaN where the node had none, `kind` indexes `KINDS`.
    """

    trial: NDArray[np.float32]
    kind: NDArray[np.uint8]
    every_us: float
    note: str


def drawable(timeline: Timeline, *, end_us: int, limit: int) -> Drawn | Sampled:
    """Return at most `limit` bars, or samples where there are too many; and say so.

    Idle time is never drawn. Up to `limit` intervals stay as they are. Of more, those of
    less than a pixel go, and neighbouring ones of the same trial and kind are merged (their
    milestones then share a bar). What is still too much is sampled.
    """
    data = columns(timeline)
    seen = (data.kind != KINDS.index("idle")) & (data.end_us > data.start_us)
    cut = ""
    if timeline.nodes > ROWS:
        seen &= data.node < ROWS
        cut = f"The first {ROWS} of {count(timeline.nodes)} nodes are shown. "
    bars = kept(data, seen)
    before = len(bars.node)
    if before <= limit:
        return Drawn(bars, cut.strip())
    pixel_us = round(end_us * INVISIBLE)
    merged = _merged(kept(bars, bars.end_us - bars.start_us >= pixel_us), pixel_us)
    if len(merged.node) <= limit:
        return Drawn(
            merged,
            f"{cut}Each trial's milestones are merged and what is shorter than "
            f"{duration(pixel_us / US_PER_S)} is left out: {count(before)} intervals, "
            f"{count(len(merged.node))} bars.",
        )
    rows = min(timeline.nodes, ROWS)
    sampled = _sampled(bars, rows, timeline.end_us, limit * CELLS_PER_BAR // rows)
    return sampled._replace(
        note=f"{cut}{count(before)} intervals are too many for bars: shown is what each node did "
        f"at {count(sampled.kind.shape[1])} instants, {duration(sampled.every_us / US_PER_S)} "
        "apart."
    )


def _sampled(bars: Columns, rows: int, end_us: int, instants: int) -> Sampled:
    """Look at each of the first `rows` nodes in the middle of equal stretches of time."""
    instants = max(200, min(1600, instants))
    every_us = end_us / instants
    at_us = (np.arange(instants) + 0.5) * every_us
    trial = np.full((rows, instants), np.nan, dtype=np.float32)
    kind = np.full((rows, instants), KINDS.index("idle"), dtype=np.uint8)
    first = np.searchsorted(bars.node, np.arange(rows + 1))
    for row in range(rows):
        mine = kept(bars, np.arange(first[row], first[row + 1]))
        place = np.searchsorted(mine.start_us, at_us, side="right") - 1
        inside = place >= 0
        inside[inside] = at_us[inside] < mine.end_us[place[inside]]
        kind[row, inside] = mine.kind[place[inside]]
        trial[row, inside] = np.where(mine.trial >= 0, mine.trial, np.nan)[place[inside]]
    return Sampled(trial, kind, every_us, "")


def kept(data: Columns, which: NDArray[Any]) -> Columns:
    """Return the intervals that `which`, a mask or places, picks."""
    return Columns(*(values[which] for values in data))


def _merged(data: Columns, gap_us: int) -> Columns:
    """Join what follows on the same node with the same trial, attempt and kind."""
    if len(data.node) == 0:
        return data
    same = np.ones(len(data.node) - 1, dtype=bool)
    for values in (data.node, data.trial, data.attempt, data.kind):
        same &= values[1:] == values[:-1]
    same &= data.start_us[1:] - data.end_us[:-1] <= gap_us
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    last = np.concatenate([first[1:] - 1, [len(data.node) - 1]])
    merged = kept(data, first)
    return merged._replace(end_us=data.end_us[last], step=data.step[last])
