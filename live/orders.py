"""Carries out the coordinator's commands: starts workers, tells them what to do, sees them off."""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from simsched.events import (
    Adopt,
    CancelTimer,
    Command,
    Delete,
    End,
    Hold,
    Keep,
    Over,
    Park,
    Parked,
    Save,
    SetTimer,
    Snapped,
    Snapshot,
    Start,
    TimerFired,
    Train,
    Withdraw,
)
from simsched.live import protocol
from simsched.live.attempt import Attempt
from simsched.live.feed import Feed
from simsched.live.nodes import Node
from simsched.live.protocol import Counters
from simsched.live.reports import Reports
from simsched.live.settings import LiveSettings
from simsched.live.staff import Staff
from simsched.live.storage import DamagedError
from simsched.live.workshop import Workshop
from simsched.messages import Checkpoint

logger = logging.getLogger("simsched.live.orders")


class Orders:
    """What is to be done, with real processes."""

    def __init__(
        self,
        settings: LiveSettings,
        nodes: Sequence[Node],
        workshop: Workshop,
        feed: Feed,
        staff: Staff,
        reports: Reports,
        socket: Path,
    ) -> None:
        """Prepare.

        Args:
            settings: of the search.
            nodes: to use, numbered from 0.
            workshop: the run's folder; starts processes.
            feed: takes the events that follow.
            staff: the workers.
            reports: is told of what fails and of processes that exit.
            socket: where workers connect.
        """
        self.settings, self.nodes, self.workshop = settings, nodes, workshop
        self.feed, self.staff, self.reports = feed, staff, reports
        self.withdrawn: set[int] = set()
        """Nodes that are out of service."""
        self._socket = socket
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def carry_out(self, command: Command) -> None:
        """Carry out one command; what takes longer goes on by itself."""
        if isinstance(command, SetTimer):
            self._set_timer(command)
        elif isinstance(command, CancelTimer):
            handle = self._timers.pop(command.timer, None)
            if handle is not None:
                handle.cancel()
        elif isinstance(command, Delete):
            if command.checkpoint not in self.feed.control.coordinator.shelf:
                self.workshop.store.delete(command.checkpoint)  # else it was saved anew
        elif isinstance(command, Over):
            self.workshop.say(f"trial {command.trial} is over: {command.fate}")
        elif isinstance(command, Start):
            self._start(command)
        elif isinstance(command, Withdraw):
            self.withdrawn.add(command.node)
            name = self.nodes[command.node].name
            self.workshop.say(f"{name} is out of service: workers keep failing on it")
        elif not isinstance(command, Hold | Keep):
            attempt = self.staff.by_node.get(command.node)
            if attempt is not None and attempt.number == command.attempt:
                self._tell(attempt, command)

    async def end_all(self) -> None:
        """End every process, however the run ended."""
        for handle in self._timers.values():
            handle.cancel()
        self.feed.cancel()
        for attempt in list(self.staff.alive):
            if attempt.state != "leaving":
                attempt.failed = True  # nobody asks it politely
                self._leave(attempt)
        await asyncio.gather(*self.staff.leaving.values(), return_exceptions=True)

    def kill_all(self) -> None:
        """Kill every process, and wait for none."""
        for attempt in self.staff.alive:
            if attempt.process is not None:
                attempt.process.kill_now()

    def _set_timer(self, command: SetTimer) -> None:
        def fire() -> None:
            self._timers.pop(command.timer, None)
            self.feed.offer(TimerFired(self.feed.now_us(), command.timer))

        loop = asyncio.get_running_loop()
        self._timers[command.timer] = loop.call_later(command.delay_us / 1e6, fire)

    def _start(self, command: Start) -> None:
        now = self.feed.now_us()
        attempt = Attempt(command.attempt, command.node, command.trial, command.until, now)
        attempt.redo_until = command.redo_until
        self.staff.add(attempt)
        self.feed.do(self._launch(attempt, command))

    async def _launch(self, attempt: Attempt, command: Start) -> None:
        """Start a worker once its node is free and its checkpoint was checked."""
        leaving = self.staff.leaving.get(attempt.node)
        if leaving is not None:
            await asyncio.wait([leaving])
        source = None
        if command.source is not None:
            source = await self._checked(attempt, command.source)
            if source is None:
                return
        if attempt.state == "leaving":
            return
        attempt.heard_s = time.monotonic()
        welcome = self.workshop.welcome(command, source)
        self.workshop.welcomes[attempt.number] = welcome
        attempt.counters = attempt.base = Counters(welcome.steps, welcome.episodes, welcome.seconds)
        node = self.nodes[attempt.node]
        attempt.process = self.workshop.launch(
            attempt, node, command.hparams, str(self._socket), self.reports.exited
        )
        self.staff.alive.add(attempt)

    async def _checked(self, attempt: Attempt, source: Checkpoint) -> protocol.Source | None:
        try:
            return await asyncio.to_thread(self.workshop.store.open, source)
        except DamagedError as error:
            self.reports.failed(attempt, str(error), spoilt=True)
            return None

    def _tell(
        self, attempt: Attempt, command: Train | Save | Adopt | Park | Snapshot | End
    ) -> None:
        now = self.feed.now_us()
        if isinstance(command, Train):
            attempt.until = command.until
            attempt.begin(now, "training")
            attempt.send(protocol.Train(command.until))
        elif isinstance(command, Save):
            attempt.saving = command.checkpoint
            attempt.begin(now, "saving")
            attempt.send(protocol.Save(str(self.workshop.store.scratch(attempt.number))))
        elif isinstance(command, Adopt):
            attempt.until = command.until
            attempt.begin(now, "loading")
            self.feed.do(self._adopt(attempt, command))
        elif isinstance(command, Park):
            self._park(attempt)
        elif isinstance(command, Snapshot):
            self._snapshot(attempt, now)
        else:
            self._leave(attempt)

    async def _adopt(self, attempt: Attempt, command: Adopt) -> None:
        source = await self._checked(attempt, command.source)
        if source is not None:
            attempt.send(protocol.Adopt(source, command.hparams, command.until))

    def _snapshot(self, attempt: Attempt, now: int) -> None:
        """Have a trial saved in mid-phase, to train on. One that does not train has to wait."""
        if attempt.state != "training":
            self.feed.offer(Snapped(now, attempt.node, attempt.number, -1, 0.0))
            return
        attempt.snapping = True
        attempt.save_began_us = now
        attempt.said.discard(protocol.Saved)
        attempt.send(protocol.Save(str(self.workshop.store.scratch(attempt.number))))

    def _park(self, attempt: Attempt) -> None:
        """Have a trial saved as it is. One that does not train yet has nothing to save."""
        if attempt.snapping:
            attempt.afterwards.append(partial(self._park, attempt))
            return
        if attempt.state in ("starting", "loading"):
            self._not_parked(attempt)
            return
        attempt.state = "parking"
        attempt.said.discard(protocol.Saved)
        attempt.save_began_us = self.feed.now_us()
        attempt.send(protocol.Park(str(self.workshop.store.scratch(attempt.number))))
        loop = asyncio.get_running_loop()
        patience_s = max(self.settings.grace_s, 2 * self.workshop.costs.save_s)
        loop.call_later(patience_s, self._parked_too_late, attempt)

    def _parked_too_late(self, attempt: Attempt) -> None:
        if attempt.state == "parking" and not attempt.has_parked:
            logger.warning(
                "it did not save within its grace; what it trained since its last checkpoint "
                "is lost", extra=self.workshop.extra(attempt),  # noqa: S610
            )  # fmt: skip
            self._not_parked(attempt)

    def _not_parked(self, attempt: Attempt) -> None:
        now = self.feed.now_us()
        count = attempt.count(self.settings.unit)
        spent = (*attempt.spent(now), attempt.saving_us(now))
        self.feed.offer(Parked(now, attempt.node, attempt.number, -1, count, *spent))
        attempt.state = "leaving"

    def _leave(self, attempt: Attempt) -> None:
        """End a worker; its node is free for the next when its whole group is gone."""
        attempt.state = "leaving"
        self.staff.by_token.pop(attempt.token, None)
        attempt.send(protocol.Stop())
        before = self.staff.leaving.get(attempt.node)
        self.staff.leaving[attempt.node] = self.feed.see_to(self._see_off(attempt, before))

    async def _see_off(self, attempt: Attempt, before: asyncio.Task[None] | None) -> None:
        grace_s = self.settings.grace_s
        try:
            if attempt.process is not None:
                process = attempt.process
                leave = process.end if attempt.failed else process.leave
                ending = await leave(grace_s)
                await self.workshop.left(attempt, self.nodes[attempt.node], ending)
        finally:
            self.staff.gone(attempt)
        if before is not None:
            await asyncio.wait([before])
