"""Fixtures of tests of what runs for real."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest


@pytest.fixture
def one_thread() -> None:
    """On a busy machine the threads of one operation wait for each other."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """A test that fails half-way fails alone: what it left running is ended."""
    yield
    if "fast_runs" in sys.modules:
        for coordinator in list(sys.modules["fast_runs"].Coordinator.living):
            coordinator.end()
    if "simsched.live.launch" in sys.modules:
        _end_workers(sys.modules["simsched.live.launch"]._leaders)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: adopt no orphans
    if "simsched.live.ga3c.crew" in sys.modules:
        _stop_crews(sys.modules["simsched.live.ga3c.crew"].Crew)
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


def _end_workers(leaders: set[int]) -> None:
    """Kill the processes of `launch`, each the leader of a group."""
    for pid in list(leaders):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        leaders.discard(pid)


def _stop_crews(kind: type) -> None:
    """Stop the threads of a worker that nobody closed."""
    for thread in threading.enumerate():
        crew = getattr(getattr(thread, "_target", None), "__self__", None)
        if isinstance(crew, kind):
            crew.stop()
            thread.join(60)
