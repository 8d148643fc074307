"""What every node did, and when: the one source of all tables and figures.

A timeline is a list of intervals. Each moment of each node falls into exactly one
kind, so the kinds add up to nodes × wall time. Time is kept in integer microseconds.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, overload

import msgspec
import numpy as np

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


LARGEST = 2**63 - 1
"""The last microsecond that an interval can hold; 292,000 years."""
CODE: dict[Kind, int] = {kind: code for code, kind in enumerate(KINDS)}
"""The place of each kind in `KINDS`."""
_ROW = struct.Struct("<iiibqqq")
ROW = np.dtype(
    [("node", "<i4"), ("trial", "<i4"), ("attempt", "<i4"), ("kind", "i1"), ("start_us", "<i8"),
     ("end_us", "<i8"), ("step", "<i8")]
)  # fmt: skip
"""An interval among many; `kind` is a place in `KINDS`."""


class Intervals(Sequence[Interval]):
    """A sequence of intervals at 37 bytes each: a large run has millions."""

    __slots__ = ("_rows",)

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._rows = bytearray()
        for interval in intervals:
            self.add(*interval)

    def add(
        self, node: int, trial: int, attempt: int, kind: Kind, start_us: int, end_us: int, step: int
    ) -> None:
        """Append one. What lies beyond `LARGEST` is put there."""
        try:
            self._rows += _ROW.pack(node, trial, attempt, CODE[kind], start_us, end_us, step)
        except struct.error:
            times = min(start_us, LARGEST), min(end_us, LARGEST)
            self._rows += _ROW.pack(node, trial, attempt, CODE[kind], *times, step)

    def table(self) -> np.ndarray[Any, Any]:
        """Return them all as an array of dtype `ROW`, shape (intervals,)."""
        return np.frombuffer(bytes(self._rows), ROW)

    def in_order(self) -> "Intervals":
        """Return them by node, then start."""
        table, made = np.frombuffer(self._rows, ROW), Intervals()
        made._rows = bytearray(len(self._rows))
        order = np.lexsort((table["start_us"], table["node"]))
        np.take(table, order, out=np.frombuffer(made._rows, ROW), mode="clip")
        return made

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def __iter__(self) -> Iterator[Interval]:
        for row in _ROW.iter_unpack(bytes(self._rows)):
            yield _interval(row)

    @overload
    def __getitem__(self, place: int) -> Interval: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Interval]: ...
    def __getitem__(self, place: int | slice) -> Interval | Sequence[Interval]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return _interval(_ROW.unpack_from(self._rows, range(len(self))[place] * _ROW.size))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Intervals):
            return self._rows == other._rows
        return isinstance(other, list) and list(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Intervals({list(self)})"


def _interval(row: tuple[Any, ...]) -> Interval:
    node, trial, attempt, code, start_us, end_us, step = row
    return Interval(node, trial, attempt, KINDS[code], start_us, end_us, step)


class Timeline(msgspec.Struct):
    """The intervals of one run, with the number of its nodes and its end."""

    nodes: int
    end_us: int
    intervals: Sequence[Interval]
    """`Intervals`, or a list."""
