"""Who waits for work or for a turn. Nothing here takes longer the more there are."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class IdleNodes:
    """Idle nodes, the one with the lowest number first.

    A heap in which those that were taken out stay until they come to the top, or are half of it.
    """

    __slots__ = ("_heap", "_nodes")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._nodes: set[int] = set()

    def push(self, node: int) -> None:
        """A node has nothing to do."""
        self._nodes.add(node)
        heapq.heappush(self._heap, node)

    def pop(self) -> int:
        """Take the node with the lowest number; IndexError if there is none."""
        while True:
            node = heapq.heappop(self._heap)
            if node in self._nodes:
                self._nodes.remove(node)
                return node

    def discard(self, node: int) -> None:
        """Take a node out, if it is there."""
        self._nodes.discard(node)
        if len(self._heap) > 2 * len(self._nodes) + 16:
            self._heap = sorted(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._nodes))


class Line(OrderedDict[T, None]):
    """First come, first served. Each is in it once, and may leave from anywhere."""

    def append(self, item: T) -> None:
        """Come last; who is in the line already keeps the place."""
        self[item] = None

    @property
    def first(self) -> T:
        """Who is next; StopIteration if nobody is."""
        return next(iter(self))

    def popleft(self) -> T:
        """Take who is next; KeyError if nobody is."""
        return self.popitem(last=False)[0]

    def discard(self, item: T) -> None:
        """Take somebody out, if there."""
        self.pop(item, None)
