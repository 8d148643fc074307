"""The thread that measures windows and lets a strategy change the parts."""

import logging
from collections.abc import Callable
from typing import Protocol

from simsched.live.ga3c.adjust import Parts, Strategy
from simsched.live.ga3c.crew import Crew
from simsched.live.ga3c.monitor import Monitor
from simsched.live.ga3c.queues import Closed

SETTLE = 0.2
"""Share of each window that passes before the count begins: the parts' change takes a while."""

LEAST_WAIT_S = 0.01
"""So that waiting for a clock that stands does not keep a core busy."""

_log = logging.getLogger(__name__)


class Adjustable(Protocol):
    """An engine whose parts can change."""

    crew: Crew
    monitor: Monitor

    @property
    def seconds(self) -> float:
        """Training seconds; they do not pass while it stands still."""
        ...

    def use(self, parts: Parts) -> None:
        """Change how many parts are active."""
        ...


def adjust_loop(
    engine: Adjustable, strategy: Strategy, after_s: float, every_s: float
) -> Callable[[], None]:
    """Return the work of the adjusting thread: windows of equal length, a decision after each.

    Each decision is logged in one line.

    Args:
        engine: whose parts change.
        strategy: decides.
        after_s: seconds before the first window.
        every_s: length of a window.
    """

    def wait(seconds: float) -> None:
        end = engine.seconds + seconds
        while (left := end - engine.seconds) > 0:
            if engine.crew.stopping.wait(max(left, LEAST_WAIT_S)):
                raise Closed

    def loop() -> None:
        wait(after_s)
        engine.use(strategy.parts)
        while True:
            wait(every_s * SETTLE)
            before, start = engine.monitor.totals().samples, engine.seconds
            wait(every_s * (1 - SETTLE))
            samples = engine.monitor.totals().samples - before
            parts = strategy.next(samples / (engine.seconds - start))
            _log.info("adjustment, %s", strategy.decisions[-1])
            engine.use(parts)

    return loop
