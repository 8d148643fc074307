"""A checkpoint store whose bandwidth concurrent transfers divide: processor sharing.

Every transfer is of the same size, so they end in the order in which they began. Progress is
kept as the service that a transfer in the store since the beginning would have had (virtual
time, as in Parekh & Gallager 1993), which makes each arrival and departure O(log n).
"""

import heapq
from collections.abc import Generator
from typing import Any

import simpy
from simpy.events import Event as SimEvent

from simsched.cluster import CheckpointStore
from simsched.timeline import US_PER_S


class SharedStore:
    """Transfers checkpoints in a simulation.

    With n transfers at a time each gets 1/n of the bandwidth: k that begin together, alone, take
    k times as long as one.
    """

    def __init__(self, env: simpy.Environment, store: CheckpointStore | None) -> None:
        """Begin. `store` None: transfers take no time."""
        self._env = env
        self._alone_us = 0.0
        if store is not None:
            self._alone_us = store.checkpoint_mb / store.bandwidth_mb_per_s * US_PER_S
        self._served_us = 0.0
        """Service that a transfer which is there all the time has had so far."""
        self._since = 0
        self._waiting: list[tuple[float, int, SimEvent]] = []
        """Transfers by the service at which they are done."""
        self._cancelled: set[int] = set()
        self._number = 0
        self._bell = 0
        """Only the newest alarm counts."""

    @property
    def busy(self) -> int:
        """Transfers under way."""
        return len(self._waiting) - len(self._cancelled)

    def transfer(self) -> Generator[SimEvent, Any, None]:
        """Save or load one checkpoint; an interruption of the process gives it up."""
        if not self._alone_us:
            return
        self._catch_up()
        self._number += 1
        number, done = self._number, self._env.event()
        heapq.heappush(self._waiting, (self._served_us + self._alone_us, number, done))
        self._set_alarm()
        try:
            yield done
        except simpy.Interrupt:
            if not done.triggered:
                self._catch_up()
                self._cancelled.add(number)
                self._drop_cancelled()
                self._set_alarm()
            raise

    def _catch_up(self) -> None:
        now = int(self._env.now)
        if self.busy:
            self._served_us += (now - self._since) / self.busy
        self._since = now

    def _drop_cancelled(self) -> None:
        while self._waiting and self._waiting[0][1] in self._cancelled:
            self._cancelled.discard(heapq.heappop(self._waiting)[1])

    def _set_alarm(self) -> None:
        if not self._waiting:
            return
        self._bell += 1
        left_us = max(0.0, self._waiting[0][0] - self._served_us) * self.busy
        self._env.process(self._ring(self._bell, round(left_us)))

    def _ring(self, bell: int, delay_us: int) -> Generator[SimEvent, Any, None]:
        yield self._env.timeout(delay_us)
        if bell != self._bell:
            return
        self._catch_up()
        # Times are whole microseconds, so service can be short of its end by a part of one.
        while self._waiting and self._waiting[0][0] <= self._served_us + 1.0:
            _, number, done = heapq.heappop(self._waiting)
            if number in self._cancelled:
                self._cancelled.discard(number)
            else:
                done.succeed()
        self._drop_cancelled()
        self._set_alarm()
