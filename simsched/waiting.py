"""Who waits for work or for a turn. Nothing here takes longer the more there are."""

import heapq
from collections import OrderedDict
from typing import TypeVar

T = TypeVar("T")


class IdleNodes(set[int]):
    """Idle nodes, of which the one with the lowest number is given away first.

    Beside the set there is a heap; those that were taken out stay in it until they come to the
    top, or are half of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[int] = []

    def push(self, node: int) -> None:
        """A node has nothing to do."""
        self.add(node)
        heapq.heappush(self._heap, node)

    def pop(self) -> int:
        """Take the node with the lowest number; IndexError if there is none."""
        while True:
            node = heapq.heappop(self._heap)
            if node in self:
                self.remove(node)
                return node

    def take_out(self, node: int) -> None:
        """Take a certain node, if it is there."""
        self.discard(node)
        if len(self._heap) > 2 * len(self) + 16:
            self._heap = sorted(self)


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
