"""What every node did, and when: the one source of all tables and figures.

A timeline is a list of intervals. Each moment of each node falls into exactly one
kind, so the kinds add up to nodes × wall time. Time is kept in integer microseconds.
"""

from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec

Kind: TypeAlias = Literal[
    "train", "redo", "start", "save", "load", "wait", "held", "grace", "down", "idle"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOT_OCCUPIED: tuple[Kind, ...] = ("idle", "down")
US_PER_S = 1_000_000
"""Microseconds in a second."""


class Interval(NamedTuple):
    """One stretch of one node's time.

    `trial` and `attempt` are -1 where the node is idle or down. `step` is the milestone
    (in resource units) that is worked towards, or, of a `save` and a `wait`, the one that
    was reached; -1 where there is none.
    """

    node: int
    trial: int
    attempt: int
    kind: Kind
    start_us: int
    end_us: int
    step: int


class Timeline(msgspec.Struct):
    """The intervals of one run, with the number of its nodes and its end."""

    nodes: int
    end_us: int
    intervals: list[Interval]
