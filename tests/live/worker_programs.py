"""Programs that tests start as workers, and what tests ask of processes."""

import asyncio
import gc
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simsched.live import process_groups
from simsched.live.launch import WorkerProcess
from simsched.live.nodes import Node
from simsched.live.process_groups import is_alive

RUN_ID = f"run-of-a-test-{uuid.uuid4().hex}"
"""Nobody else's, of those who run these tests on this machine now."""
PATIENCE_S = 300.0
"""With what comes for certain, on a machine however busy."""
CORE = min(os.sched_getaffinity(0))
NODE = Node(number=0, name=f"core {CORE}", cores=(CORE,))

IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
SLEEPS = "import time; time.sleep(120)\n"
FORKS_A_CHILD = """
import os, time
def child(does):
    pid = os.fork()
    if pid == 0:
        does()
        os._exit(0)
    return pid
"""
"""Defines child(does), which returns the child's id."""


def python(code: str) -> list[str]:
    """The words of a command that runs a program quickly: without site packages."""
    return [sys.executable, "-I", "-S", "-c", code]


class Heard:
    """The lines of a worker, and its exit."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.exits: list[int] = []

    async def until(self, count: int, limit_s: float = PATIENCE_S) -> list[str]:
        """Wait for so many lines."""
        await until(lambda: len(self.lines) >= count, limit_s)
        return self.lines

    async def pid(self) -> int:
        """Wait for a line, which is a process id."""
        return int((await self.until(1))[0])


def launch(
    code: str | list[str], heard: Heard, node: Node = NODE, *, attempt: int = 1,
    environment: Mapping[str, str] | None = None, folder: Path | None = None, **options: Any,
) -> WorkerProcess:  # fmt: skip
    """Start a program, Python's unless it is words, as a worker."""
    return WorkerProcess(
        python(code) if isinstance(code, str) else code, node, run=RUN_ID, attempt=attempt,
        environment=environment or {}, hear=heard.lines.append, on_exit=heard.exits.append,
        folder=folder, **options,
    )  # fmt: skip


async def until(condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def gone(pid: int) -> bool:
    """Whether nothing is left of a process, not even a zombie."""
    return not Path(f"/proc/{pid}").exists()


def lives(pid: int) -> bool:
    return is_alive(pid)


def children() -> set[int]:
    return set(process_groups.children())


def open_files() -> int:
    gc.collect()  # what an earlier test left may be closed at any moment
    return len(os.listdir("/proc/self/fd"))
