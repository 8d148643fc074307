"""Live searches with the fast worker, as tests want them: coordinators that can be killed.

A coordinator is forked from a server that has imported everything, which takes 10 ms, not a
second. So it is a process of its own, with workers of its own.
"""

import ctypes
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import psutil
import pytest
from standing_still import stand_still_when_told

from simsched.live import process_groups, reports, search
from simsched.live.errors import LiveError
from simsched.live.nodes import Node
from simsched.live.outcome import Outcome
from simsched.live.process_groups import is_alive, is_marked, kill_run
from simsched.live.settings import LiveSettings, code_digest
from simsched.live.status import Status

WORKER = Path(__file__).with_name("fast_worker.py")
SPACE: dict[str, Any] = {
    "rate": {"type": "real", "low": 0.02, "high": 0.3, "log": True},
    "level": {"type": "real", "low": 0.1, "high": 1.0},
}
CORES = sorted(os.sched_getaffinity(0))
PATIENCE_S, GRACE_S = 300.0, 60.0
"""With what comes for certain, and graces of no interest: more than a busy machine needs."""


def worker(*words: object, faults: Sequence[str] = (), marks: Path | None = None) -> str:
    """Return the command of a fast worker."""
    command = [sys.executable, "-S", "-E", str(WORKER), *map(str, words)]
    for fault in faults:
        command += ["--fault", fault]
    if marks is not None:
        command += ["--marks", str(marks)]
    return shlex.join(command)


def make_settings(command: str, **changes: Any) -> LiveSettings:
    """Return the settings of a small search that loses no time over failures."""
    fields: dict[str, Any] = {
        "version": "test", "code": code_digest(), "command": command, "nodes": 1,
        "workers": 6, "phases": 3, "phase_length": 10, "unit": "steps", "space": SPACE,
        "metric": "score", "seed": 0, "backoff_s": 0.01, "grace_s": GRACE_S,
    }  # fmt: skip
    return LiveSettings(**{**fields, **changes})


def make_nodes(count: int) -> list[Node]:
    """Return nodes that share this machine's cores."""
    return [Node(number=k, name=f"node {k}", cores=(CORES[k % len(CORES)],)) for k in range(count)]


class Says:
    """Shows a search by keeping, or printing, its lines."""

    def __init__(self, *, prints: bool = False) -> None:
        self.lines: list[str] = []
        self.statuses: list[Status] = []
        self._prints = prints

    def update(self, status: Status) -> None:
        if not self._prints:
            self.statuses.append(status)

    def line(self, text: str) -> None:
        self.lines.append(text)
        if self._prints:
            print(text, flush=True)


def search_here(folder: Path, settings: LiveSettings, *, resume: bool, show: Says) -> Outcome:
    """Run a search in this process; afterwards it adopts no orphans, as before."""
    folder.mkdir(exist_ok=True)
    nodes = make_nodes(settings.nodes)
    try:
        return search.run_search(settings, nodes, folder, resume=resume, show=show)
    finally:
        ctypes.CDLL(None).prctl(process_groups.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Coordinator:
    """A coordinator's process."""

    living: ClassVar[list[Self]] = []
    """Those that nobody has waited for."""

    def __init__(self, server: "Server", pid: int, output: Path, folder: Path) -> None:
        self._server, self.pid, self._output, self._folder = server, pid, output, folder
        self._handle = os.pidfd_open(pid)
        self.code: int | None = None
        self.living.append(self)

    @property
    def output(self) -> str:
        # The server makes the file, in a moment.
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._handle, number)

    def is_over(self, within_s: float = 0.0) -> bool:
        """Tell whether it has ended; wait for that at most so long."""
        if self.code is not None:
            return True
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        if not poll.poll(within_s * 1000):
            return False
        self.code = self._server.ask(wait=self.pid)
        os.close(self._handle)
        self.living.remove(self)
        return True

    def end(self) -> None:
        """End it, and its workers, where a test failed before it was over."""
        self.signal(signal.SIGKILL)
        self.is_over(PATIENCE_S)
        journals = [*self._folder.glob("journal.jsonl"), *self._folder.glob("*/journal.jsonl")]
        with suppress(LiveError, ValueError, KeyError):  # it had not begun, or cannot be ended
            for path in journals:
                kill_run(run_of(path.parent))

    def wait(self, limit_s: float = PATIENCE_S) -> int:
        """Wait for its end; returns its exit code, negative if a signal ended it."""
        if not self.is_over(limit_s):
            self.end()
            raise AssertionError(f"the coordinator did not end within {limit_s} s: {self.output}")
        assert self.code is not None
        return self.code


class Server:
    """Forks coordinators."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._started = folder, 0
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(
        self, folder: Path, settings: LiveSettings, nodes: int, *, resume: bool
    ) -> Coordinator:
        """Begin a search in a new folder, or go on with one."""
        folder.mkdir(exist_ok=resume)
        return self._start(
            folder=str(folder), settings=msgspec.to_builtins(settings), nodes=nodes, resume=resume
        )

    def command(self, *words: object, folder: Path) -> Coordinator:
        """Run `simsched WORDS` in a folder."""
        return self._start(argv=["simsched", *map(str, words)], folder=str(folder))

    def _start(self, **request: Any) -> Coordinator:
        self._started += 1
        output = self._folder / f"coordinator-{self._started}"
        pid = self.ask(**request, output=str(output))
        return Coordinator(self, pid, output, Path(request["folder"]))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def run_of(folder: Path) -> str:
    """Return a run's id."""
    header = json.loads((folder / "journal.jsonl").read_bytes().split(b"\n")[0])
    return str(header["run"]["run"])


def processes_of(run: str) -> list[int]:
    """Return the living processes that have a run's mark."""
    marks = {"SIMSCHED_RUN": run}
    return [pid for pid in psutil.pids() if is_marked(pid, marks) and is_alive(pid)]


def journal(folder: Path) -> bytes:
    """Return the journal of a run, if there is one yet."""
    path = folder / "journal.jsonl"
    return path.read_bytes() if path.exists() else b""


def lines(file: Path) -> int:
    """Return how many lines a file has, or the journal of a run."""
    path = file if file.suffix else file / "journal.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def until(condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    """Wait until something holds."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.003)


@contextmanager
def small_disk(folder: Path, *options: str) -> Iterator[None]:
    """Make a folder a small file system of its own; skips the test where that cannot be."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be made here; root may, in most places")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _coordinate(request: dict[str, Any]) -> int:
    if "argv" in request:
        from simsched.cli import main

        os.chdir(request["folder"])
        sys.argv = request["argv"]
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
        raise AssertionError("main() returned")
    settings = msgspec.convert(request["settings"], LiveSettings)
    nodes = make_nodes(request["nodes"])
    folder = Path(request["folder"])
    outcome = search.run_search(
        settings, nodes, folder, resume=request["resume"], show=Says(prints=True)
    )
    return 130 if outcome.ended == "interrupted" else 0


def _serve() -> None:
    """Fork coordinators as told on standard input."""
    import simsched.cli.live
    import simsched.live.view  # noqa: F401 - so that no coordinator has to

    reports.EXIT_PATIENCE_S = GRACE_S

    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            continue
        output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for handle, number in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(handle, number)
        code = 1
        stand_still_when_told()
        try:
            code = _coordinate(request)
        except (ValueError, OSError) as error:
            print(f"error: {error}", flush=True)
            code = 2
        except BaseException:  # noqa: BLE001 - this process ends here, whatever it was
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


if __name__ == "__main__":
    _serve()
