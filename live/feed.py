"""Feeds the control plane: all events that are there at once, the journal, then commands.

So nothing is carried out that the journal does not know. What cannot be borne ends the search.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeAlias

from simsched.control import Control
from simsched.errors import SimschedError
from simsched.events import Command, Event
from simsched.live.errors import LiveError
from simsched.live.workshop import Workshop

logger = logging.getLogger("simsched.live.feed")

How: TypeAlias = Literal["done", "interrupted"]


class Feed:
    """Takes events and hands out the commands that answer them, in an asyncio loop."""

    def __init__(self, control: Control, workshop: Workshop, clock_us: int) -> None:
        """Begin.

        Args:
            control: coordinator, ledger and journal, up to date with the journal.
            workshop: the run's folder.
            clock_us: the run's time now: 0 at its beginning.
        """
        self.control = control
        self.workshop = workshop
        self.last_failure = ""
        """Of a worker; named when no node is left."""
        self._begin_us, self._begin_s = clock_us, time.monotonic()
        self._pending: list[Event] = []
        self._flush_is_due = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[How] | None = None
        self._carry_out: Callable[[Command], None] | None = None

    def now_us(self) -> int:
        """Return the run's time, in µs."""
        return self._begin_us + round((time.monotonic() - self._begin_s) * 1e6)

    def begin(self, carry_out: Callable[[Command], None]) -> "asyncio.Future[How]":
        """Begin to feed; return the future that is done when the search is over.

        The future raises:
            LiveError: the search cannot go on.
        """
        self._over = asyncio.get_running_loop().create_future()
        self._carry_out = carry_out
        return self._over

    @property
    def over(self) -> bool:
        """Whether the search is over, or has not begun."""
        return self._over is None or self._over.done()

    def stop(self) -> None:
        """Interrupt the search now."""
        if self._over is not None and not self._over.done():
            self._over.set_result("interrupted")

    def offer(self, event: Event) -> None:
        """Feed an event soon, together with all others that come until then."""
        self._pending.append(event)
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._over is None or self._over.done() or self._carry_out is None:
            return
        try:
            commands: list[Command] = []
            events, self._pending = self._pending, []
            for event in events:
                commands += self.control.feed(event)
                self.workshop.decided(event, self.control)
            self.workshop.flush()
            if self.control.journal is not None:
                self.control.journal.sync()
            for command in commands:
                self._carry_out(command)
        except Exception as error:  # noqa: BLE001 - whatever it is, the search ends with it
            self.fail(error)
            return
        coordinator = self.control.coordinator
        if coordinator.finished:
            self._over.set_result("done")
        elif coordinator.parked:
            self._over.set_result("interrupted")
        elif not coordinator.nodes and not coordinator.slots:
            self.fail(
                LiveError(
                    "no node is left in service: workers keep failing on all of them; "
                    f"the last: {self.last_failure}"
                )
            )

    def fail(self, error: Exception) -> None:
        """End the search with an error."""
        if isinstance(error, OSError):
            place = error.filename or self.workshop.folder
            error = LiveError(
                f"{place}: {error.strerror or error}; once that is mended, go on with: "
                f"simsched live --resume {self.workshop.folder}"
            )
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)
        else:
            logger.error("%s", text_of(error))

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a while; given up when the search is over."""
        self._tasks.add(self.see_to(work))

    def see_to(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Do something that takes a while; an error in it ends the search."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._note_end)
        return task

    def cancel(self) -> None:
        """Give up what still takes a while."""
        for task in self._tasks:
            task.cancel()

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.fail(error)


def text_of(error: BaseException) -> str:
    """Return an error as one line."""
    return str(error) if isinstance(error, SimschedError) else f"{type(error).__name__}: {error}"
