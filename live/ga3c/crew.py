"""The threads of a worker: none dies unnoticed, none is left behind."""

import threading
from collections.abc import Callable

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.queues import Closed

JOIN_S = 30.0
"""How long a thread may take to finish what it is at when the worker stops."""


class Crew:
    """Runs functions in threads; the first that fails stops all."""

    def __init__(self, release: Callable[[], None]) -> None:
        """Make an empty crew.

        Args:
            release: wakes every thread that waits, when the crew stops.
        """
        self._release = release
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._failure: tuple[str, BaseException] | None = None
        self.stopping = threading.Event()

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Run a function in a thread of this name, until it returns or raises Closed."""
        thread = threading.Thread(target=self._run, args=(name, work), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Closed:
            return
        except BaseException as error:  # noqa: BLE001 - a boundary: `check` raises it again
            with self._lock:
                if self._failure is None:
                    self._failure = (name, error)
            self.stop()
            return
        if not self.stopping.is_set():
            with self._lock:
                self._failure = self._failure or (name, RuntimeError("ended before the worker"))
            self.stop()

    def check(self) -> None:
        """Raise if a thread has failed.

        Raises:
            DivergedError: training diverged.
            LiveError: anything else; the message names the thread and the cause in one line.
        """
        if self._failure is None:
            return
        name, error = self._failure
        if isinstance(error, DivergedError):
            raise DivergedError(str(error)) from error
        reason = str(error).splitlines()[0] if str(error) else "no reason given"
        raise LiveError(f"{name} died: {type(error).__name__}: {reason}") from error

    def stop(self) -> None:
        """Tell all threads to end; does not wait."""
        self.stopping.set()
        self._release()

    def join(self) -> None:
        """Stop, and wait until every thread has ended.

        Raises:
            LiveError: one has not, after half a minute; it is named.
        """
        self.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(JOIN_S)
        left = [thread.name for thread in self._threads if thread.is_alive()]
        if left:
            raise LiveError(f"{', '.join(left)} did not stop within {JOIN_S:.0f} s")
        self._threads.clear()
