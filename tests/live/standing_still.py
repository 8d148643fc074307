"""A process that stands still by its own clock: as when it is stopped, or a laptop is closed."""

import asyncio
import signal
import threading
import time

STANDS_STILL = signal.SIGUSR1
"""A process that gets it stands still for an hour, when it next sleeps."""


def stand_still_when_told() -> None:
    """Have this process hear the signal. No machine, however busy, is as slow as that."""
    clock, sleep, lost_s, due = time.monotonic, asyncio.sleep, [0.0], threading.Event()

    async def slept(seconds: float) -> None:
        await sleep(seconds)
        if due.is_set():
            due.clear()
            lost_s[0] += 3600

    signal.signal(STANDS_STILL, lambda number, frame: due.set())
    time.monotonic = lambda: clock() + lost_s[0]
    asyncio.sleep = slept  # type: ignore[assignment]
