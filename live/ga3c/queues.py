"""The two queues of GA3C: bounded, and closed when the worker stops."""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from simsched.live.ga3c.agents import Prediction

T = TypeVar("T")


class Closed(Exception):  # noqa: N818 - no error: the worker stops
    """The queue was closed while somebody waited at it, or before."""


class BoundedQueue(Generic[T]):
    """First in, first out; bounded by the sum of the items' weights.

    An item is let in while the sum is below the bound, so the sum exceeds it by less than
    one item, and an item heavier than the bound passes too.
    """

    def __init__(self, bound: int, weigh: Callable[[T], int]) -> None:
        self._items: deque[T] = deque()
        self._weigh = weigh
        self._bound = bound
        self._weight = 0
        self._closed = False
        lock = threading.Lock()
        self._not_full = threading.Condition(lock)
        self._not_empty = threading.Condition(lock)

    @property
    def weight(self) -> int:
        """The sum of the weights of what waits."""
        return self._weight

    @property
    def bound(self) -> int:
        """The bound; it can be changed at any time."""
        return self._bound

    @bound.setter
    def bound(self, bound: int) -> None:
        with self._not_full:
            self._bound = bound
            self._not_full.notify_all()

    def put(self, item: T) -> None:
        """Wait for room and append an item; Closed if the queue closes."""
        with self._not_full:
            while self._weight >= self._bound and not self._closed:
                self._not_full.wait()
            if self._closed:
                raise Closed
            self._items.append(item)
            self._weight += self._weigh(item)
            self._not_empty.notify()

    def take(self, most: int) -> list[T]:
        """Wait for an item; take it and those behind it, up to a weight of `most`."""
        with self._not_empty:
            while not self._items and not self._closed:
                self._not_empty.wait()
            if self._closed:
                raise Closed
            taken = [self._items.popleft()]
            weight = self._weigh(taken[0])
            while self._items and weight + self._weigh(self._items[0]) <= most:
                taken.append(self._items.popleft())
                weight += self._weigh(taken[-1])
            self._weight -= weight
            self._not_full.notify_all()
            if self._items:
                self._not_empty.notify()
            return taken

    def close(self) -> None:
        """Wake everybody who waits; they get Closed."""
        with self._not_full:
            self._closed = True
            self._not_full.notify_all()
            self._not_empty.notify_all()


class Request:
    """Observations that wait for their prediction."""

    def __init__(
        self, observations: NDArray[Any], answer: "SimpleQueue[Prediction | None]"
    ) -> None:
        self.observations = observations
        self.answer = answer

    def __len__(self) -> int:
        return len(self.observations)


class QueuedPredictor:
    """What a group of agents asks: puts its observations in the queue, waits for the answer."""

    def __init__(self, queue: BoundedQueue[Request]) -> None:
        self._queue = queue
        self._answer: SimpleQueue[Prediction | None] = SimpleQueue()

    def predict(self, observations: NDArray[Any]) -> Prediction:
        """Answer observations (n, ...); Closed if the worker stops."""
        self._queue.put(Request(observations, self._answer))
        prediction = self._answer.get()
        if prediction is None:
            raise Closed
        return prediction

    def release(self) -> None:
        """Let go whoever waits for an answer: there will be none."""
        self._answer.put(None)
