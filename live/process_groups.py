"""Process groups: who is in one, ending all of it, and what a dead coordinator left behind.

A worker is the leader of a session and a process group of its own; its children are members,
unless they leave by starting a session of their own. All inherit the marks in the worker's
environment, which say whose they are.
"""

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from simsched.live.errors import LiveError

RUN = "SIMSCHED_RUN"
ATTEMPT = "SIMSCHED_ATTEMPT"
"""Marks in a worker's environment: the run's id, and the attempt's number."""

PR_SET_CHILD_SUBREAPER = 36
CREATED_TOLERANCE_S = 1.0
LEFTOVER_PATIENCE_S = 10.0
POLL_S = 0.01

logger = logging.getLogger(__name__)


class Members(msgspec.Struct, frozen=True):
    """The processes of a group."""

    alive: tuple[int, ...]
    zombies: tuple[int, ...]
    """Dead, but their parent has not asked how they ended."""


def members(group: int) -> Members:
    """Return who is in a process group now."""
    alive: list[int] = []
    zombies: list[int] = []
    for pid in psutil.pids():
        with suppress(OSError):  # it ended while we looked
            if os.getpgid(pid) == group:
                (alive if is_alive(pid) else zombies).append(pid)
    return Members(tuple(alive), tuple(zombies))


def is_alive(pid: int) -> bool:
    """Whether a process can still do something: it is there and no zombie."""
    try:
        if psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return True
        # The main thread may end before the others, and looks like a zombie then.
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except (psutil.Error, OSError):
        return False


def signal_group(group: int, number: int) -> None:
    """Send a signal to all members of a group, if there are any we may signal."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reap(pids: Collection[int]) -> None:
    """Take the exit status of those that are dead children of this process."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def adopt_orphans() -> bool:
    """Make orphaned descendants children of this process, so that it sees and reaps them.

    Only Linux can do it. Returns whether it worked; without it orphans go to init, as usual.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        done = bool(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        done = False
    if not done:
        logger.warning("orphaned processes of workers cannot be adopted on this system")
    return done


def children() -> list[int]:
    """Return the ids of this process's children, zombies included."""
    found: list[int] = []
    try:
        for thread in Path("/proc/self/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                found += map(int, (thread / "children").read_text().split())
        if Path("/proc/self/task", str(os.getpid()), "children").exists():
            return found
    except OSError:
        pass  # no Linux: ask the portable way
    return [process.pid for process in psutil.Process().children()]


def environment(pid: int) -> Mapping[str, str]:
    """Return the environment that a process was started with; empty where nobody can tell."""
    try:
        own: Mapping[str, str] = psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}
    return own


def is_marked(pid: int, marks: Mapping[str, str]) -> bool:
    """Whether a process inherited all these marks."""
    own = environment(pid)
    return all(own.get(name) == value for name, value in marks.items())


def adopted(marks: Mapping[str, str], besides: Collection[int]) -> list[int]:
    """Return this process's living children that have the marks: orphans that left their group.

    Args:
        marks: names and values in their environment.
        besides: children that are none: the leaders.
    """
    strangers = set(children()) - set(besides)
    return [pid for pid in strangers if is_marked(pid, marks) and is_alive(pid)]


def kill_leftover(pid: int, created: float, group: int, run: str) -> list[int]:
    """Kill what is left of a worker that an earlier coordinator started, if it is provably that.

    The proof is its process id with its time of creation; then the whole group is killed. If
    that process is gone, members of the group are killed that have the run's mark in their
    environment, and no others.

    Args:
        pid: of the worker.
        created: when it was started, in seconds since 1970, as psutil says.
        group: its process group.
        run: the run's id.

    Returns the ids of those killed. Takes up to `LEFTOVER_PATIENCE_S`; call it before the event
    loop does anything else.

    Raises:
        LiveError: something cannot be killed.
    """
    marks = {RUN: run}
    killed: set[int] = set()
    if _was_created(pid, created) and _group_of(pid) == group:
        killed.update(members(group).alive)
        signal_group(group, signal.SIGKILL)  # at one stroke: nobody can fork out of it

    def find() -> list[int]:
        alive = members(group).alive
        return [member for member in alive if member in killed or is_marked(member, marks)]

    def prove(member: int) -> bool:
        return _group_of(member) == group and is_marked(member, marks)

    return _kill_all(find, prove, killed)


def kill_run(run: str) -> list[int]:
    """Kill every process of this user that has a run's mark, but this one and its parents.

    For what left its group, or was never written down. Returns and raises as `kill_leftover`.
    """
    marks = {RUN: run}
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}

    def find() -> list[int]:
        found = set(psutil.pids()) - spared
        return [pid for pid in found if is_marked(pid, marks) and is_alive(pid)]

    return _kill_all(find, lambda pid: is_marked(pid, marks), set())


def _kill_all(
    find: Callable[[], list[int]], prove: Callable[[int], bool], killed: set[int]
) -> list[int]:
    """Kill until there is nothing to find: each only while it can be proven to be ours."""
    deadline_s = time.monotonic() + LEFTOVER_PATIENCE_S
    while targets := find():
        killed.update(pid for pid in targets if _kill(pid, prove))
        if time.monotonic() > deadline_s:
            listed = ", ".join(map(str, sorted(targets)))
            raise LiveError(f"processes {listed} of an earlier run cannot be killed; end them")
        time.sleep(POLL_S)
    reap(killed)  # where they are children of this very process
    return sorted(killed)


def _kill(pid: int, prove: Callable[[int], bool]) -> bool:
    """Kill a process if it can be proven to be ours; whoever gets its id later is safe."""
    if not hasattr(os, "pidfd_open"):
        if prove(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False  # it is gone
    try:
        if prove(pid):  # after it was opened: the proof is about the very process we hold
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return False


def _was_created(pid: int, created: float) -> bool:
    try:
        its_time_s: float = psutil.Process(pid).create_time()
    except psutil.Error:
        return False
    return abs(its_time_s - created) <= CREATED_TOLERANCE_S


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
