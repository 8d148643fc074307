"""The installed script as a process that a test looks at while it works."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cli_outcome import PATIENCE_S, SCRIPT

LONG = ("simulate", "--traces", "a.parquet", "--resample", "--workers", "3000", "--nodes", "16",
        "--replications", "100", "--out", "new/deep/run", "--json", "r.json")  # fmt: skip

_started: list[subprocess.Popen[str]] = []


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start the script in a session of its own, which `end_all` ends if a test does not."""
    with _ctrl_c_is_not_ignored():
        process = subprocess.Popen(
            [str(SCRIPT), *arguments],
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options),
        )
    _started.append(process)
    return process


@contextlib.contextmanager
def _ctrl_c_is_not_ignored() -> Iterator[None]:
    """A shell starts `pytest &` with Ctrl-C ignored, and so would be what pytest starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_all() -> None:
    """End what a failed test left: it would take the processor from the tests after it."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


def wait_until_it_simulates(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait for the second journal: then the first run is done and another one under way."""

    def simulates() -> bool:
        assert process.poll() is None, process.communicate()
        return len(list(folder.glob("new/deep/run/.*/journals/*.jsonl"))) > 1

    wait_until(simulates, "no run was simulated")


def processor_time_s(process: subprocess.Popen[str]) -> float:
    """Wait for a process; return what it and its children used, and no other that ends now."""
    how = os.WEXITED | os.WNOWAIT | os.WNOHANG
    wait_until(lambda: os.waitid(os.P_PID, process.pid, how) is not None, "it does not end")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]
