"""What workers say, and what becomes of them, turned into events."""

import asyncio
import errno
import logging
import math
import os
import signal
import socket
import struct
import time
from functools import partial
from typing import Any

from simsched.events import Failed, Parked, Reported, Saved, Snapped
from simsched.live import protocol
from simsched.live.attempt import Attempt, Garbage, check_message, reason_of
from simsched.live.errors import LiveError, NothingRanError
from simsched.live.feed import Feed
from simsched.live.launch import describe_exit
from simsched.live.protocol import Counters
from simsched.live.settings import LiveSettings
from simsched.live.staff import Staff
from simsched.live.wording import printable
from simsched.live.workshop import Workshop
from simsched.messages import Checkpoint

logger = logging.getLogger("simsched.live.reports")

EXIT_PATIENCE_S = 5.0
"""How long a worker that has closed its channel may take to exit."""
KILLED = -signal.SIGKILL
"""Exit code of a worker that somebody else killed, or the system, short of memory."""


class Reports:
    """Hears all workers."""

    def __init__(
        self,
        settings: LiveSettings,
        workshop: Workshop,
        feed: Feed,
        staff: Staff,
        *,
        anybody_spoke: bool,
    ) -> None:
        """Prepare.

        Args:
            settings: of the search.
            workshop: keeps curves and checkpoints.
            feed: takes the events.
            staff: the workers.
            anybody_spoke: whether a worker of this search ever ran; if none did, the program
                is at fault, and the search ends at the first failure.
        """
        self.settings, self.workshop = settings, workshop
        self.feed, self.staff = feed, staff
        self._sign = -1.0 if settings.mode == "min" else 1.0
        self._anybody_spoke = anybody_spoke

    def greet(self, hello: protocol.Hello, transport: asyncio.Transport) -> Attempt | None:
        """Return whose connection this is; None if it is nobody's that is wanted."""
        attempt = self.staff.by_token.get(hello.token)
        if attempt is None or attempt.greeted or not _is_ours(transport):
            return None
        attempt.greeted = True
        attempt.channel = transport
        attempt.heard_s = time.monotonic()
        if hello.protocol == protocol.PROTOCOL:
            self._anybody_spoke = True
            attempt.send(self.workshop.welcomes.pop(attempt.number))
        return attempt

    def hear(self, attempt: Attempt, message: protocol.FromWorker) -> None:
        """Take a message; Garbage if it makes no sense."""
        if attempt.state == "leaving" or attempt.failed:
            return
        try:
            self._take(attempt, message)
        except Garbage:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the search ends with it
            self.feed.fail(error)

    def _take(self, attempt: Attempt, message: protocol.FromWorker) -> None:
        curve = self.workshop.curve(attempt.trial)
        check_message(attempt, message, curve.rows[-1] if curve.rows else None)
        if isinstance(message, protocol.Reached | protocol.Saved):
            attempt.said.add(type(message))
        now = self.feed.now_us()
        attempt.heard_s = time.monotonic()
        if isinstance(message, protocol.Training):
            attempt.training_us = now
            attempt.load_us = round(message.load_s * 1e6) if math.isfinite(message.load_s) else 0
            if attempt.state == "starting":
                curve.started(attempt.number, attempt.base)
            if attempt.state in ("starting", "loading"):
                attempt.state = "training"
        elif isinstance(message, protocol.Rows):
            if message.rows:
                curve.add(message.rows)
                seconds, steps, episodes, _ = message.rows[-1]
                counters = Counters(steps, episodes, seconds)
                attempt.progressed(counters, self.settings.unit, now)
        elif isinstance(message, protocol.Beat):
            counters = Counters(message.steps, message.episodes, message.seconds)
            attempt.progressed(counters, self.settings.unit, now)
            curve.beat(counters)
        elif isinstance(message, protocol.Reached) and attempt.snapping:
            attempt.at_milestone = protocol.Saved not in attempt.said
            attempt.afterwards.append(partial(self._reached, attempt, message, now))
        elif isinstance(message, protocol.Reached):
            self._reached(attempt, message, now)
        elif isinstance(message, protocol.Saved) and attempt.snapping:
            if attempt.at_milestone:
                # It is saved as it is at a milestone that nobody has heard of yet: no use.
                self.feed.offer(Snapped(now, attempt.node, attempt.number, -1, 0.0))
                self._train_on(attempt)
            else:
                self.feed.do(self._keep_snapshot(attempt, message.state, now))
        elif isinstance(message, protocol.Saved):
            self.feed.do(self._keep(attempt, message.state))
        elif isinstance(message, protocol.Failed):
            self.failed(attempt, reason_of(message))

    def _reached(self, attempt: Attempt, message: protocol.Reached, now: int) -> None:
        if attempt.state == "saving":
            self.failed(attempt, "it diverged while it was saved")
            return
        counters = Counters(message.steps, message.episodes, message.seconds)
        attempt.progressed(counters, self.settings.unit, now)
        finite = message.score is not None and math.isfinite(message.score)
        score = message.score if finite else None
        self.workshop.curve(attempt.trial).reached(message.step, message.reached, counters, score)
        start_us, load_us, redo_us = attempt.spent(now)
        inner = None if score is None else score * self._sign
        if attempt.state != "parking":
            attempt.state = "reported"
        attempt.redo_until = 0.0
        self.feed.offer(
            Reported(
                now, attempt.node, attempt.number, message.step, inner, message.reached,
                start_us, load_us, redo_us,
            )
        )  # fmt: skip

    async def _keep(self, attempt: Attempt, state: dict[str, Any]) -> None:
        """Make a checkpoint durable, then tell the coordinator."""
        if attempt.failed or attempt.state == "leaving":
            return  # its trial was stopped at a milestone that was told just before
        self._progressed_to(attempt, state)
        count = attempt.count(self.settings.unit)
        parking = attempt.state == "parking"
        checkpoint = Checkpoint(attempt.trial, int(count)) if parking else attempt.saving
        assert checkpoint is not None  # noqa: S101 - a save is commanded with its checkpoint
        attempt.saving = None
        if not await self._committed(attempt, checkpoint, state):
            return
        now = self.feed.now_us()
        if parking:
            spent = (*attempt.spent(now), attempt.saving_us(now))
            attempt.state = "leaving"
            step = checkpoint.step
            self.feed.offer(Parked(now, attempt.node, attempt.number, step, count, *spent))
        else:
            attempt.state = "reported"
            self.workshop.costs.saved((now - attempt.told_us) / 1e6)
            self.feed.offer(Saved(now, attempt.node, attempt.number))

    def _progressed_to(self, attempt: Attempt, state: dict[str, Any]) -> None:
        """What is saved may be further than what the worker told before."""
        if all(name in state for name in Counters.__struct_fields__):
            counters = Counters(state["steps"], state["episodes"], state["seconds"])
            attempt.progressed(counters, self.settings.unit, self.feed.now_us())

    async def _committed(
        self, attempt: Attempt, checkpoint: Checkpoint, state: dict[str, Any]
    ) -> bool:
        """Make a checkpoint durable. False if that fails, or nobody wants it any more."""
        self.workshop.curve(attempt.trial).sync()
        store = self.workshop.store
        try:
            await asyncio.to_thread(store.commit, attempt.number, checkpoint, state)
        except LiveError as error:
            self.failed(attempt, str(error))
            return False
        except OSError as error:
            self.failed(attempt, f"its checkpoint could not be kept: {error}")
            return False
        over = attempt.failed or attempt.state == "leaving"
        if over and checkpoint not in self.feed.control.coordinator.shelf:
            store.delete(checkpoint)  # the coordinator does not wait for it any more
            return False
        return True

    async def _keep_snapshot(self, attempt: Attempt, state: dict[str, Any], now: int) -> None:
        """Make a checkpoint in mid-phase durable; the worker trains on."""
        self._progressed_to(attempt, state)
        began_us, count = attempt.save_began_us, attempt.count(self.settings.unit)
        start_us, load_us, redo_us = attempt.spent(began_us)
        checkpoint = Checkpoint(attempt.trial, int(count))
        if not await self._committed(attempt, checkpoint, state):
            return
        attempt.told_us = attempt.training_us = now
        self.feed.offer(
            Snapped(
                now, attempt.node, attempt.number, checkpoint.step, count,
                start_us, load_us, redo_us, now - began_us,
            )
        )  # fmt: skip
        self._train_on(attempt)

    def _train_on(self, attempt: Attempt) -> None:
        """A save in mid-phase is over: do what had to wait for it."""
        attempt.snapping = attempt.at_milestone = False
        afterwards, attempt.afterwards = attempt.afterwards, []
        for each in afterwards:
            each()

    def blame(self, attempt: Attempt, reason: str) -> None:
        """A worker said what it may not."""
        self.failed(attempt, f"it sent {reason}")

    def hung_up(self, attempt: Attempt) -> None:
        """The channel is closed. Most often the process exits, and says more."""
        if attempt.state != "leaving" and not (attempt.failed or attempt.has_parked):
            asyncio.get_running_loop().call_later(
                EXIT_PATIENCE_S, self.failed, attempt, "it closed its channel, but did not end"
            )

    def exited(self, attempt: Attempt, exit_code: int) -> None:
        """A worker's process is gone."""
        if attempt.state != "leaving" and not (attempt.failed or attempt.has_parked):
            last = self.workshop.last_line(attempt)
            said = f"; its last line: {last}" if last else ""
            self.failed(attempt, f"{describe_exit(exit_code)}{said}")

    def failed(self, attempt: Attempt, reason: str, *, spoilt: bool = False) -> None:
        """A worker cannot go on: the coordinator decides what becomes of its trial."""
        if attempt.failed or attempt.state == "leaving":
            return
        process, reason = attempt.process, printable(reason)
        if not self._anybody_spoke and process is not None and process.exit_code != KILLED:
            self.feed.fail(NothingRanError(f"{self.workshop.what}: {reason}; nothing was trained"))
            return
        if attempt.state in ("saving", "parking") and self.workshop.disk_is_full():
            self.feed.fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            return
        now = self.feed.now_us()
        spent, save_us = attempt.spent(now), attempt.saving_us(now)
        attempt.failed = True
        self.feed.last_failure = f"trial {attempt.trial}: {reason}"
        logger.warning("failed: %s", reason, extra=self.workshop.extra(attempt))  # noqa: S610
        self.workshop.say(f"trial {attempt.trial}, attempt {attempt.number} failed: {reason}")
        count = attempt.count(self.settings.unit)
        self.feed.offer(
            Failed(
                now, attempt.node, attempt.number, reason, count, *spent, spoilt, save_us=save_us
            )
        )

    def look_after_the_silent(self, now_s: float, stood_s: float) -> None:
        """Give up workers that have been silent for too long.

        Args:
            now_s: of the monotonic clock, read once with the time stood still.
            stood_s: seconds in which this process itself stood still: nobody's silence.
        """
        for attempt in list(self.staff.by_node.values()):
            if attempt.process is not None:
                attempt.process.reap_orphans()
            attempt.heard_s += stood_s
            silent_s = now_s - attempt.heard_s
            if attempt.state in ("leaving", "reported") or attempt.failed:
                continue
            starting = attempt.state == "starting"
            limit_s = self.settings.start_timeout_s if starting else self.settings.silent_after_s
            if silent_s > limit_s and attempt.process is not None:
                what = "it did not begin to train" if starting else "it said nothing"
                self.failed(attempt, f"{what} within {limit_s:g} s")


def _is_ours(transport: asyncio.Transport) -> bool:
    """Tell whether the process at the other end is this user's."""
    connection = transport.get_extra_info("socket")
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the socket's folder is ours alone
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", packed)
    return bool(user == os.getuid())
