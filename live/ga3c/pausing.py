"""Standing still: what engines that can be held between two steps have in common."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from simsched.live.ga3c.queues import Closed


class Pausable:
    """An engine that can be held: no part of it works then, and its clock stands."""

    held = False
    """Whether it stands still."""

    def hold(self) -> None:
        """Stand still, every part between two steps, until `go`. Twice is as once."""
        if not self.held:
            self.held = True
            self._stand()

    def go(self) -> None:
        """Go on where `hold` stopped."""
        if self.held:
            self._move()
            self.held = False

    @contextmanager
    def still(self) -> Iterator[dict[str, Any]]:
        """Stand still for the block, or go on doing so; gives the agents' random states."""
        held = self.held
        self.hold()
        try:
            yield self._random_states()
        finally:
            if not held:
                self.go()

    def _stand(self) -> None:
        """Come to a halt; returns when nothing moves."""

    def _move(self) -> None:
        """Undo `_stand`."""

    def _random_states(self) -> dict[str, Any]:
        """Return the states of all random generators."""
        raise NotImplementedError


class Stopwatch:
    """Seconds of monotonic time, without those for which it was stopped. It starts going."""

    def __init__(self) -> None:
        # One tuple, so that whoever reads it in another thread sees both numbers or neither.
        self._times: tuple[float, float | None] = (time.monotonic(), None)

    @property
    def start_s(self) -> float:
        """When it would have started, had it never been stopped (by time.monotonic)."""
        return self._times[0]

    @property
    def seconds(self) -> float:
        """What it shows."""
        start_s, stopped_s = self._times
        return (time.monotonic() if stopped_s is None else stopped_s) - start_s

    def stop(self) -> None:
        """Stop, unless it is stopped."""
        start_s, stopped_s = self._times
        if stopped_s is None:
            self._times = (start_s, time.monotonic())

    def go(self) -> None:
        """Go on, unless it goes."""
        start_s, stopped_s = self._times
        if stopped_s is not None:
            self._times = (start_s + time.monotonic() - stopped_s, None)


class Gate:
    """Threads pass it around each piece of work; shut, it holds them between two pieces.

    A lock for each thread would not do: a thread that takes it again at once, as loops do, can
    keep it from everybody else for seconds.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False
        self._closed = False

    def __enter__(self) -> None:
        """Wait while the gate is shut; Closed if the worker stops."""
        with self._changed:
            while self._shut and not self._closed:
                self._changed.wait()
            if self._closed:
                raise Closed
            self._inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._inside -= 1
            if not self._inside:
                self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in, and wait until all who are in have come out."""
        with self._changed:
            self._shut = True
            while self._inside:
                self._changed.wait()

    def open(self) -> None:
        """Let them in again."""
        with self._changed:
            self._shut = False
            self._changed.notify_all()

    def close(self) -> None:
        """Turn away for ever all who wait, and all who come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
