"""The files of a run's logs: what a line looks like, and how much a trial may print."""

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RUN_LOG = "run.log"
WORKER_LOG = "worker.log"
OUTPUT = "OUTPUT"
"""Stands where a record's level does, in lines that a worker printed."""
OUTPUT_BYTES = (64 << 20) - (1 << 19)
"""Of a trial's file that its workers' output may fill; with what simsched adds, below 64 MiB."""
DROPPED = "This trial has printed {:.3g} MiB; the rest of its output is dropped."
MISSING = "Lines missing here: {}. They could not be written: {}."
OPEN_FILES = 128
"""Trials whose files are kept open; more are opened anew when they need it."""

_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != ord("\t")
} | {0x2028: "\\u2028", 0x2029: "\\u2029"}
"""What would end a line, or command a terminal, stands in the file as an escape."""


class LogFiles(logging.Handler):
    """All the files; knows what a line looks like, and how much a trial may print."""

    def __init__(self, folder: Path, output_bytes: int) -> None:
        super().__init__()
        self._folder = folder
        self._output_bytes = output_bytes
        self._run = _File(folder / RUN_LOG)
        self._trials: OrderedDict[int, _File] = OrderedDict()
        self._second, self._stamp, self._zone = -1, "", ""
        self._closed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; a line of it for each of its text. Called with the lock held or not."""
        try:
            text = self.format(record)
        except (TypeError, ValueError) as error:
            text = f"{record.msg!r} (its arguments do not fit: {error})"
        node, trial, attempt = (
            getattr(record, name, None) for name in ("node", "trial", "attempt")
        )
        with self._guard():
            prefix = self._prefix(record.created, record.levelname, node, trial, attempt)
            lines = b"".join(_encoded(prefix, line) for line in text.splitlines() or [""])
            self._write(trial, lines)

    def output(self, node: int, trial: int, attempt: int, line: str) -> bool:
        """Write what a worker printed, if it has not printed too much."""
        with self._guard():
            if self._closed or self._is_full(trial):
                return False
            prefix = self._prefix(time.time(), OUTPUT, node, trial, attempt)
            self._write(trial, _encoded(prefix, line))
            if not self._is_full(trial):
                return True
            prefix = self._prefix(time.time(), "WARNING", node, trial, attempt)
            self._write(trial, _encoded(prefix, DROPPED.format(self._output_bytes / 2**20)))
            return False

    def _is_full(self, trial: int) -> bool:
        file = self._of(trial)
        return file is not None and file.size >= self._output_bytes

    def _write(self, trial: object, lines: bytes) -> None:
        if self._closed:
            return
        for file in (self._run, self._of(trial) if isinstance(trial, int) else None):
            if file is None:
                continue
            if file.lost:
                prefix = self._prefix(time.time(), "WARNING", None, None, None)
                note = _encoded(prefix, MISSING.format(file.lost, file.reason))
                if file.append(note):
                    file.lost = 0
            if file.lost or not file.append(lines):
                file.lost += lines.count(b"\n")

    def _of(self, trial: int) -> "_File | None":
        """Return a trial's file; None if it cannot be opened, then only the run's has its lines."""
        if trial in self._trials:
            self._trials.move_to_end(trial)
            return self._trials[trial]
        folder = self._folder / "trials" / f"{trial:04d}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._trials[trial] = _File(folder / WORKER_LOG)
        except OSError:
            return None
        if len(self._trials) > OPEN_FILES:
            self._trials.popitem(last=False)[1].close()
        return self._trials[trial]

    def _prefix(self, at: float, level: str, node: object, trial: object, attempt: object) -> str:
        second = int(at)
        if second != self._second:
            local = time.localtime(second)
            self._second = second
            self._stamp = time.strftime("%Y-%m-%dT%H:%M:%S", local)
            self._zone = time.strftime("%z", local)
        milliseconds = int((at - second) * 1000)
        place = " ".join(
            f"{name}={'-' if value is None else value}"
            for name, value in (("node", node), ("trial", trial), ("attempt", attempt))
        )
        return f"{self._stamp}.{milliseconds:03d}{self._zone} {level:<7} {place} "

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Hold the lock: the thread that receives the children's records does not take it."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def finish(self) -> None:
        """Close the files; `close`, which those that hand over records call, does not."""
        with self._guard():
            if not self._closed:
                self._closed = True
                for file in (self._run, *self._trials.values()):
                    file.close()


def _encoded(prefix: str, line: str) -> bytes:
    return f"{prefix}{line.translate(_CONTROLS)}\n".encode(errors="backslashreplace")


class _File:
    """A file of whole lines, open for appending. A full disk loses lines, and stops nothing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._file).st_size
        self.lost = 0
        """Lines that could not be written since the last one that could."""
        self.reason = ""
        if self.size and os.pread(self._file, 1, self.size - 1) != b"\n":
            self.append(b" [cut off]\n")  # by a death in mid-line

    def append(self, data: bytes) -> bool:
        """Append all of it; on failure, none of it: then returns False."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self.reason = error.strerror or str(error)
            if written:
                os.ftruncate(self._file, self.size)
            return False
        self.size += written
        return True

    def close(self) -> None:
        os.close(self._file)
