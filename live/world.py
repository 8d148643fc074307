"""The live world: carries out the coordinator's commands with real processes.

One asyncio loop. What workers say and what becomes of them are turned into events. All events
that are there are fed to the control plane at once; the journal is synced; then their commands
are carried out. So nothing is done that the journal does not know.
"""

import asyncio
import errno
import logging
import math
import os
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from simsched.control import Control
from simsched.errors import SimschedError
from simsched.events import (
    Adopt,
    CancelTimer,
    Command,
    Delete,
    End,
    Event,
    Failed,
    Hold,
    Interrupted,
    NodeUp,
    Over,
    Park,
    Parked,
    Recovered,
    Reported,
    Save,
    Saved,
    SetTimer,
    Start,
    TimerFired,
    Train,
    Withdraw,
)
from simsched.live import protocol
from simsched.live.attempt import Attempt, Garbage, Line, check_message, reason_of
from simsched.live.errors import LiveError, NothingRanError
from simsched.live.launch import describe_exit
from simsched.live.nodes import Node
from simsched.live.protocol import Counters
from simsched.live.settings import LiveSettings
from simsched.live.storage import DamagedError
from simsched.live.wording import printable
from simsched.live.workshop import Workshop
from simsched.messages import Checkpoint

logger = logging.getLogger("simsched.live.world")

How: TypeAlias = Literal["done", "interrupted"]
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_PATIENCE_S = 5.0
"""How long a worker that has closed its channel may take to exit."""
TICK_S = 0.5
KILLED = -signal.SIGKILL
"""Exit code of a worker that somebody else killed, or the system, short of memory."""


class World:
    """Runs one search on this machine's nodes."""

    def __init__(
        self,
        settings: LiveSettings,
        control: Control,
        nodes: Sequence[Node],
        workshop: Workshop,
        *,
        clock_us: int,
        tick: Callable[["World"], None],
    ) -> None:
        """Prepare it.

        Args:
            settings: of the search.
            control: coordinator, ledger and journal, up to date with the journal.
            nodes: to use, numbered from 0.
            workshop: the run's folder: curves, checkpoints, logs; starts processes.
            clock_us: the run's time now: 0 at its beginning.
            tick: called twice a second while the search runs.
        """
        self.settings = settings
        self.control = control
        self.nodes = nodes
        self.workshop = workshop
        self.attempts: dict[int, Attempt] = {}
        """The newest of each node."""
        self.sign = -1.0 if settings.mode == "min" else 1.0
        self.withdrawn: set[int] = set()
        self._tick = tick
        self._begin_us, self._begin_s = clock_us, time.monotonic()
        self._by_token: dict[str, Attempt] = {}
        self._alive: set[Attempt] = set()
        """Those with a process, which may be leaving."""
        self._leaving: dict[int, asyncio.Task[None]] = {}
        """By node: done when nobody is left there who was told to leave."""
        self._pending: list[Event] = []
        self._flush_is_due = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[How] | None = None
        self._anybody_spoke = clock_us > 0
        self._last_failure = ""
        self._ticked_s = time.monotonic()
        self._interrupts = 0
        self._socket_path: Path | None = None

    def now_us(self) -> int:
        """Return the run's time, in µs."""
        return self._begin_us + round((time.monotonic() - self._begin_s) * 1e6)

    async def run(self, *, recovered: bool) -> How:
        """Run the search to its end, or until it is interrupted.

        Raises:
            LiveError: it cannot go on; all workers are ended, and it can be resumed.
            OSError: the journal cannot be written.
        """
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        with _made(socket_folder(self.workshop.run)) as folder:
            self._socket_path = folder / "workers"
            server = await loop.create_unix_server(
                lambda: Line(self._greet, self._hear, self._blame, self._hung_up),
                str(self._socket_path),
            )
            ticker = loop.create_task(self._keep_ticking())
            ignored = signal.SIG_IGN  # as nohup does
            signals = [number for number in INTERRUPTS if signal.getsignal(number) != ignored]
            for number in signals:
                loop.add_signal_handler(number, self.interrupt)
            try:
                if recovered:
                    self._offer(Recovered(self.now_us()))
                known = self.control.coordinator.nodes if recovered else set()
                for node in self.nodes:
                    if node.number not in known:
                        self._offer(NodeUp(self.now_us(), node.number))
                return await self._over
            finally:
                ticker.cancel()
                server.close()
                await self._end_all()
                for number in signals:
                    loop.remove_signal_handler(number)

    async def _keep_ticking(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                self._look_after_the_silent()
                self._tick(self)
            except Exception as error:  # noqa: BLE001 - whatever it is, the search ends with it
                self._fail(error)

    def interrupt(self) -> None:
        """Ctrl-C: once saves and stops, twice stops now."""
        self._interrupts += 1
        over = self._over is None or self._over.done()
        if self._interrupts == 1 and not over:
            self.workshop.say("Interrupted: saving, then stopping. Once more stops at once.")
            self._offer(Interrupted(self.now_us()))
            return
        if self._over is not None and not over:
            self._over.set_result("interrupted")
        for attempt in self._alive:
            if attempt.process is not None:
                attempt.process.kill_now()

    async def _end_all(self) -> None:
        """End every process, however the run ended."""
        for handle in self._timers.values():
            handle.cancel()
        for task in self._tasks:
            task.cancel()
        for attempt in list(self._alive):
            if attempt.state != "leaving":
                attempt.failed = True  # nobody asks it politely
                self._leave(attempt)
        await asyncio.gather(*self._leaving.values(), return_exceptions=True)

    # Events.

    def _offer(self, event: Event) -> None:
        """Feed an event soon, together with all others that come until then."""
        self._pending.append(event)
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._over is None or self._over.done():
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
            self._fail(error)
            return
        coordinator = self.control.coordinator
        if coordinator.finished:
            self._over.set_result("done")
        elif coordinator.parked:
            self._over.set_result("interrupted")
        elif not coordinator.nodes and not coordinator.slots:
            self._fail(
                LiveError(
                    "no node is left in service: workers keep failing on all of them; "
                    f"the last: {self._last_failure}"
                )
            )

    def _fail(self, error: Exception) -> None:
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

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a while; an error in it ends the search."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._fail(error)

    # Commands.

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, SetTimer):
            self._set_timer(command)
        elif isinstance(command, CancelTimer):
            handle = self._timers.pop(command.timer, None)
            if handle is not None:
                handle.cancel()
        elif isinstance(command, Delete):
            self.workshop.store.delete(command.checkpoint)
        elif isinstance(command, Over):
            self.workshop.say(f"trial {command.trial} is over: {command.fate}")
        elif isinstance(command, Start):
            self._start(command)
        elif isinstance(command, Withdraw):
            self.withdrawn.add(command.node)
            name = self.nodes[command.node].name
            self.workshop.say(f"{name} is out of service: workers keep failing on it")
        elif not isinstance(command, Hold):
            attempt = self.attempts.get(command.node)
            if attempt is not None and attempt.number == command.attempt:
                self._tell(attempt, command)

    def _set_timer(self, command: SetTimer) -> None:
        def fire() -> None:
            self._timers.pop(command.timer, None)
            self._offer(TimerFired(self.now_us(), command.timer))

        loop = asyncio.get_running_loop()
        self._timers[command.timer] = loop.call_later(command.delay_us / 1e6, fire)

    def _start(self, command: Start) -> None:
        now = self.now_us()
        attempt = Attempt(command.attempt, command.node, command.trial, command.until, now)
        attempt.redo_until = command.redo_until
        self.attempts[command.node] = attempt
        self._by_token[attempt.token] = attempt
        self._do(self._launch(attempt, command))

    async def _launch(self, attempt: Attempt, command: Start) -> None:
        """Start a worker once its node is free and its checkpoint was checked."""
        leaving = self._leaving.get(attempt.node)
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
            attempt, node, command.hparams, str(self._socket_path), self._exited
        )
        self._alive.add(attempt)

    async def _checked(self, attempt: Attempt, source: Checkpoint) -> protocol.Source | None:
        try:
            return await asyncio.to_thread(self.workshop.store.open, source)
        except DamagedError as error:
            self._failed(attempt, str(error), spoilt=True)
            return None

    def _tell(self, attempt: Attempt, command: Train | Save | Adopt | Park | End) -> None:
        now = self.now_us()
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
            self._do(self._adopt(attempt, command))
        elif isinstance(command, Park):
            self._park(attempt)
        else:
            self._leave(attempt)

    async def _adopt(self, attempt: Attempt, command: Adopt) -> None:
        source = await self._checked(attempt, command.source)
        if source is not None:
            attempt.send(protocol.Adopt(source, command.hparams, command.until))

    def _park(self, attempt: Attempt) -> None:
        """Have a trial saved as it is. One that does not train yet has nothing to save."""
        if attempt.state in ("starting", "loading"):
            self._not_parked(attempt)
            return
        attempt.state = "parking"
        attempt.said.discard(protocol.Saved)
        attempt.save_began_us = self.now_us()
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
        now = self.now_us()
        start_us, load_us, redo_us = attempt.spent(now)
        count = attempt.count(self.settings.unit)
        self._offer(
            Parked(now, attempt.node, attempt.number, -1, count, start_us, load_us, redo_us)
        )
        attempt.state = "leaving"

    def _leave(self, attempt: Attempt) -> None:
        """End a worker; its node is free for the next when its whole group is gone."""
        attempt.state = "leaving"
        self._by_token.pop(attempt.token, None)
        attempt.send(protocol.Stop())
        before = self._leaving.get(attempt.node)
        task = asyncio.get_running_loop().create_task(self._see_off(attempt, before))
        task.add_done_callback(self._note_end)
        self._leaving[attempt.node] = task

    async def _see_off(self, attempt: Attempt, before: asyncio.Task[None] | None) -> None:
        grace_s = self.settings.grace_s
        try:
            if attempt.process is not None:
                process = attempt.process
                leave = process.end if attempt.failed else process.leave
                ending = await leave(grace_s)
                await self.workshop.left(attempt, self.nodes[attempt.node], ending)
        finally:
            self._alive.discard(attempt)
            if attempt.channel is not None:
                attempt.channel.abort()
            if self.attempts.get(attempt.node) is attempt:
                del self.attempts[attempt.node]
        if before is not None:
            await asyncio.wait([before])

    # What workers say and do.

    def _greet(self, hello: protocol.Hello, transport: asyncio.Transport) -> Attempt | None:
        """Return whose connection this is; None if it is nobody's that is wanted."""
        attempt = self._by_token.get(hello.token)
        if attempt is None or attempt.greeted or not _is_ours(transport):
            return None
        attempt.greeted = True
        attempt.channel = transport
        attempt.heard_s = time.monotonic()
        if hello.protocol == protocol.PROTOCOL:
            self._anybody_spoke = True
            attempt.send(self.workshop.welcomes.pop(attempt.number))
        return attempt

    def _hear(self, attempt: Attempt, message: protocol.FromWorker) -> None:
        if attempt.state == "leaving" or attempt.failed:
            return
        try:
            self._take(attempt, message)
        except Garbage:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the search ends with it
            self._fail(error)

    def _take(self, attempt: Attempt, message: protocol.FromWorker) -> None:
        curve = self.workshop.curve(attempt.trial)
        check_message(attempt, message, curve.rows[-1] if curve.rows else None)
        if isinstance(message, protocol.Reached | protocol.Saved):
            attempt.said.add(type(message))
        now = self.now_us()
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
        elif isinstance(message, protocol.Reached):
            self._reached(attempt, message, now)
        elif isinstance(message, protocol.Saved):
            began_us = attempt.told_us if attempt.state == "saving" else attempt.save_began_us
            self._do(self._keep(attempt, message.state, began_us))
        elif isinstance(message, protocol.Failed):
            self._failed(attempt, reason_of(message))

    def _reached(self, attempt: Attempt, message: protocol.Reached, now: int) -> None:
        if attempt.state == "saving":
            self._failed(attempt, "it diverged while it was saved")
            return
        counters = Counters(message.steps, message.episodes, message.seconds)
        attempt.progressed(counters, self.settings.unit, now)
        finite = message.score is not None and math.isfinite(message.score)
        score = message.score if finite else None
        self.workshop.curve(attempt.trial).reached(message.step, message.reached, counters, score)
        start_us, load_us, redo_us = attempt.spent(now)
        inner = None if score is None else score * self.sign
        if attempt.state != "parking":
            attempt.state = "reported"
        attempt.redo_until = 0.0
        self._offer(
            Reported(
                now, attempt.node, attempt.number, message.step, inner, message.reached,
                start_us, load_us, redo_us,
            )
        )  # fmt: skip

    async def _keep(self, attempt: Attempt, state: dict[str, Any], began_us: int) -> None:
        """Make a checkpoint durable, then tell the coordinator."""
        if all(name in state for name in Counters.__struct_fields__):
            counters = Counters(state["steps"], state["episodes"], state["seconds"])
            attempt.progressed(counters, self.settings.unit, self.now_us())
        count = attempt.count(self.settings.unit)
        parking = attempt.state == "parking"
        checkpoint = Checkpoint(attempt.trial, int(count)) if parking else attempt.saving
        assert checkpoint is not None  # noqa: S101 - a save is commanded with its checkpoint
        attempt.saving = None
        self.workshop.curve(attempt.trial).sync()
        store = self.workshop.store
        try:
            await asyncio.to_thread(store.commit, attempt.number, checkpoint, state)
        except LiveError as error:
            self._failed(attempt, str(error))
            return
        except OSError as error:
            self._failed(attempt, f"its checkpoint could not be kept: {error}")
            return
        if attempt.failed and checkpoint not in self.control.coordinator.shelf:
            store.delete(checkpoint)  # the coordinator does not wait for it any more
            return
        now = self.now_us()
        if parking:
            start_us, load_us, redo_us = attempt.spent(now)
            save_us = min(now - began_us, max(0, now - attempt.told_us - start_us - load_us))
            attempt.state = "leaving"
            self._offer(
                Parked(
                    now, attempt.node, attempt.number, checkpoint.step, count,
                    start_us, load_us, redo_us, save_us,
                )
            )  # fmt: skip
        else:
            attempt.state = "reported"
            self.workshop.costs.saved((now - began_us) / 1e6)
            self._offer(Saved(now, attempt.node, attempt.number))

    def _blame(self, attempt: Attempt, reason: str) -> None:
        self._failed(attempt, f"it sent {reason}")

    def _hung_up(self, attempt: Attempt) -> None:
        """The channel is closed. Most often the process exits, and says more."""
        if attempt.state != "leaving" and not (attempt.failed or attempt.has_parked):
            asyncio.get_running_loop().call_later(
                EXIT_PATIENCE_S, self._failed, attempt, "it closed its channel, but did not end"
            )

    def _exited(self, attempt: Attempt, exit_code: int) -> None:
        if attempt.state != "leaving" and not (attempt.failed or attempt.has_parked):
            last = self.workshop.last_line(attempt)
            said = f"; its last line: {last}" if last else ""
            self._failed(attempt, f"{describe_exit(exit_code)}{said}")

    def _look_after_the_silent(self) -> None:
        now_s = time.monotonic()
        # Time in which this process itself stood still is nobody's silence.
        stood_s = max(0.0, now_s - self._ticked_s - 2 * TICK_S)
        self._ticked_s = now_s
        for attempt in list(self.attempts.values()):
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
                self._failed(attempt, f"{what} within {limit_s:g} s")

    def _failed(self, attempt: Attempt, reason: str, *, spoilt: bool = False) -> None:
        """A worker cannot go on: the coordinator decides what becomes of its trial."""
        if attempt.failed or attempt.state == "leaving":
            return
        process, reason = attempt.process, printable(reason)
        if not self._anybody_spoke and process is not None and process.exit_code != KILLED:
            self._fail(NothingRanError(f"{self.workshop.what}: {reason}; nothing was trained"))
            return
        if attempt.state in ("saving", "parking") and self.workshop.disk_is_full():
            self._fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            return
        now = self.now_us()
        start_us, load_us, redo_us = attempt.spent(now)
        attempt.failed = True
        self._last_failure = f"trial {attempt.trial}: {reason}"
        logger.warning("failed: %s", reason, extra=self.workshop.extra(attempt))  # noqa: S610
        self.workshop.say(f"trial {attempt.trial}, attempt {attempt.number} failed: {reason}")
        count = attempt.count(self.settings.unit)
        self._offer(
            Failed(
                now, attempt.node, attempt.number, reason, count, start_us, load_us, redo_us, spoilt
            )
        )


def socket_folder(run: str) -> Path:
    """Return where the socket of a run's coordinator is, while it runs or if it was killed."""
    return Path(tempfile.gettempdir(), f"simsched-{run[:12]}")


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """Make a folder that only this user can enter."""
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(transport: asyncio.Transport) -> bool:
    """Tell whether the process at the other end is this user's."""
    connection = transport.get_extra_info("socket")
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the socket's folder is ours alone
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", packed)
    return bool(user == os.getuid())


def text_of(error: BaseException) -> str:
    """Return an error as one line."""
    return str(error) if isinstance(error, SimschedError) else f"{type(error).__name__}: {error}"
