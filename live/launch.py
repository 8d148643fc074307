"""A worker's process: started on its node's cores and GPU, heard, and ended with all it started.

The worker leads a session and a process group of its own. Until the whole group is gone its
leader is kept as a zombie, so that the group's number cannot become anybody else's.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from simsched.live import process_groups
from simsched.live.errors import LiveError
from simsched.live.gpu_memory import gpu_memory_in_use, wait_for_gpu_memory
from simsched.live.nodes import Node
from simsched.live.process_groups import ATTEMPT, RUN, adopt_orphans, kill_leftover, kill_run
from simsched.live.start import environment_of, start
from simsched.live.worker_output import OutputReader

__all__ = [
    "Ending", "WorkerProcess", "adopt_orphans", "describe_exit", "environment_of",
    "gpu_memory_in_use", "kill_leftover", "kill_run", "wait_for_gpu_memory",
]  # fmt: skip

KILL_PATIENCE_S = 30.0
"""How long processes may take to die of SIGKILL: the system may be busy with them for a while."""
EXIT_POLL_S = 0.05
LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT
"""How to ask for a child's end without reaping it."""
UNKNOWN_EXIT = 255
"""Exit code of a worker that somebody else reaped, or the system, where SIGCHLD is ignored."""
_leaders: set[int] = set()
"""Workers that are not reaped yet; other children of this process may be adopted orphans."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker and all that it started came to an end."""

    exit_code: int
    """Of the worker; -9 if SIGKILL ended it, as in the module subprocess."""
    terminated: bool
    """Whether SIGTERM was sent."""
    killed: bool
    """Whether SIGKILL was needed."""
    strays: tuple[int, ...] = ()
    """Processes that had left the group, and were killed too."""
    pids: tuple[int, ...]
    """All of them, for `wait_for_gpu_memory`."""
    seconds: float
    """Taken to end it."""


class WorkerProcess:
    """A worker that runs, or has run, on a node. Needs a running event loop.

    However it ended, it is over only after `end` or `leave`: what it started may live on.
    """

    def __init__(
        self,
        argv: Sequence[str],
        node: Node,
        *,
        run: str,
        attempt: int,
        environment: Mapping[str, str],
        hear: Callable[[str], object],
        on_exit: Callable[[int], object] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start it.

        Args:
            argv: the program and its arguments; no shell reads them.
            node: where it runs.
            run: the run's id, known to no other run.
            attempt: the attempt's number.
            environment: what the worker's environment has besides this process's.
            hear: is told every line that it prints, on either of its outputs.
            on_exit: is told its exit code, after its last line; what it started may still run.
            folder: its working folder; None is this process's.

        Raises:
            LiveError: it cannot be started.
        """
        self.node, self.attempt = node, attempt
        self.exit_code: int | None = None
        self._marks = {RUN: run, ATTEMPT: str(attempt)}
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._on_exit = on_exit
        self._ending: asyncio.Task[Ending] | None = None
        values = {**os.environ, **environment_of(node), **environment, **self._marks}
        self._process, output = start(argv, node, values, folder)
        self.pid = self.group = self._process.pid
        _leaders.add(self.pid)
        self._seen = {self.pid}
        self._killed = False
        self.created = psutil.Process(self.pid).create_time()
        """When it was started, for `kill_leftover`."""
        self._output = OutputReader(output, hear)
        self._handle: int | None = None
        self._watch()

    def _watch(self) -> None:
        """Have the event loop notice when it exits."""
        try:
            self._handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # no such call here, or no file descriptor left
            self._poll()
        else:
            self._loop.add_reader(self._handle, self._notice_exit)

    def _poll(self) -> None:
        if not self._notice_exit():
            self._loop.call_later(EXIT_POLL_S, self._poll)

    def _notice_exit(self) -> bool:
        """See whether it has exited. It stays a zombie, which keeps the group's number ours."""
        if self.exit_code is not None:
            return True
        try:
            state = os.waitid(os.P_PID, self.pid, LOOK)
        except ChildProcessError:
            self.exit_code = UNKNOWN_EXIT
        else:
            if state is None:
                return False
            by_signal = state.si_code != os.CLD_EXITED
            self.exit_code = -state.si_status if by_signal else state.si_status
        if self._handle is not None:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None
        self._output.drain()
        self._exited.set_result(self.exit_code)
        if self._on_exit is not None:
            self._on_exit(self.exit_code)
        return True

    def reap_orphans(self) -> None:
        """Reap children of the worker that it left to this process; call it now and then."""
        while self.exit_code is None:
            try:
                state = os.waitid(os.P_PGID, self.group, LOOK)
            except ChildProcessError:
                return
            if state is None or state.si_pid == self.pid:
                return
            process_groups.reap([state.si_pid])

    async def wait(self) -> int:
        """Wait until it exits; returns its exit code. What it started may still run."""
        return await asyncio.shield(self._exited)

    def kill_now(self) -> None:
        """Send SIGKILL to the whole group, and wait for nothing."""
        if self._process.returncode is None:
            self._killed = True
            process_groups.signal_group(self.group, signal.SIGKILL)

    async def leave(self, grace_s: float) -> Ending:
        """Wait until it exits, as it was asked to over its channel; after `grace_s`, end it."""
        await asyncio.wait([self._exited], timeout=grace_s)
        return await self.end(grace_s)

    async def end(self, grace_s: float) -> Ending:
        """End all of it: SIGTERM, after `grace_s` SIGKILL, until the whole group is gone.

        Who calls while it is being ended waits for the same end; `kill_now` hastens it. To be
        cancelled stops the waiting, not the ending.

        Raises:
            LiveError: something of it does not die of SIGKILL; its node cannot be used.
        """
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(grace_s))
        try:
            return await asyncio.shield(self._ending)
        except LiveError:
            self._ending = None
            raise

    async def _end(self, grace_s: float) -> Ending:
        begun_s = time.monotonic()
        terminated = False
        self._seen.update(process_groups.members(self.group).alive)
        if not self._is_gone():
            terminated = True
            process_groups.signal_group(self.group, signal.SIGTERM)
            # One that is stopped hears it only when it goes on.
            process_groups.signal_group(self.group, signal.SIGCONT)
            if not await self._gone_within(grace_s):
                self._killed = True
        await self._kill()
        strays = await self._kill_strays()
        self._output.close()
        assert self.exit_code is not None  # noqa: S101 - told to the type checker
        self._process.wait()  # reaps it at once: it is a zombie
        _leaders.discard(self.pid)
        return Ending(
            exit_code=self.exit_code,
            terminated=terminated,
            killed=self._killed,
            strays=strays,
            pids=tuple(sorted(self._seen.union(strays))),
            seconds=time.monotonic() - begun_s,
        )

    async def _kill(self) -> None:
        """Make sure of it: what was forked just while we looked was not seen, but dies of this."""
        deadline_s = time.monotonic() + KILL_PATIENCE_S
        while True:
            process_groups.signal_group(self.group, signal.SIGKILL)
            if await self._gone_within(0.2):
                return
            if time.monotonic() > deadline_s:
                self._give_up(process_groups.members(self.group).alive)

    async def _kill_strays(self) -> tuple[int, ...]:
        """Kill orphans that left the group: this process adopted them, if it does that."""
        killed: set[int] = set()
        deadline_s = time.monotonic() + KILL_PATIENCE_S
        while strays := process_groups.adopted(self._marks, _leaders):
            for pid in strays:  # a child's id is nobody else's until it is reaped
                with suppress(PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed.update(strays)
            await asyncio.sleep(0.005)
            process_groups.reap(killed)
            if time.monotonic() > deadline_s:
                self._give_up(strays)
        return tuple(sorted(killed))

    def _give_up(self, pids: Sequence[int]) -> None:
        raise LiveError(
            f"{self.node.name}: processes {', '.join(map(str, pids))} of attempt {self.attempt} "
            f"do not die of SIGKILL within {KILL_PATIENCE_S:g} s"
        )

    async def _gone_within(self, seconds: float) -> bool:
        """Wait until no member of the group is alive; False if there still is one then."""
        deadline_s = time.monotonic() + seconds
        await asyncio.wait([self._exited], timeout=seconds)
        pause_s = 0.001
        while not self._is_gone():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, 0.05)
        return True

    def _is_gone(self) -> bool:
        if self.exit_code is None and not self._notice_exit():
            return False
        members = process_groups.members(self.group)
        self._seen.update(members.alive)
        process_groups.reap([pid for pid in members.zombies if pid != self.pid])
        return not members.alive


def describe_exit(exit_code: int) -> str:
    """Return how a process ended, in words."""
    if exit_code >= 0:
        return f"it ended with exit code {exit_code}"
    try:
        return f"it was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"it was killed by signal {-exit_code}"
