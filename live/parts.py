"""The parts folder of a recording that is being made: it survives a kill at any moment.

    plan.json           what is recorded; a rerun with another plan is refused
    trial-0003.jsonl    a line per finished episode; the last line says how the trial ended
    trial-0003.pt       the newest checkpoint, while the trial is not over
    trial-0003.log      what its worker logged, if anything
    lock                held while somebody records

Lines beyond the checkpoint are dropped when a trial goes on: their episodes are played anew.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, TypeAlias

import msgspec

from simsched.live.errors import LiveError

End: TypeAlias = Literal["complete", "diverged"]


class Line(msgspec.Struct, frozen=True):
    """A finished episode, or the last line of a trial: `end` but no score."""

    seconds: float
    steps: int
    episodes: int
    score: float | None = None
    end: End | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)


def rows_path(parts: Path, trial: int) -> Path:
    """Return where a trial's lines are."""
    return parts / f"trial-{trial:04d}.jsonl"


def checkpoint_path(parts: Path, trial: int) -> Path:
    """Return where a trial's checkpoint is."""
    return parts / f"trial-{trial:04d}.pt"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def read_lines(path: Path) -> list[Line]:
    """Read a trial's lines; a torn last one, left by a kill, is ignored.

    Raises:
        LiveError: a line before the last one cannot be read.
    """
    if not path.exists():
        return []
    raw = path.read_bytes().split(b"\n")
    raw.pop()  # what follows the last newline: nothing, or a torn line
    lines = []
    for number, text in enumerate(raw, start=1):
        try:
            lines.append(_decoder.decode(text))
        except msgspec.DecodeError as error:
            raise LiveError(f"{path}:{number}: not a row of a recording: {error}") from error
    return lines


def is_finished(lines: Sequence[Line]) -> bool:
    """Whether a trial's last line says that it is over."""
    return bool(lines) and lines[-1].end is not None


class TrialLog:
    """A trial's file of lines, open for writing by the one process that trains it."""

    def __init__(self, path: Path) -> None:
        """Open the file, once no other process writes to it (a killed recorder's worker)."""
        self._path = path
        self._file: IO[bytes] = path.open("ab")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def keep(self, count: int) -> None:
        """Cut the file to its first `count` lines, in one stroke that a kill cannot halve."""
        content = self._path.read_bytes()
        end = 0
        for _ in range(count):
            end = content.index(b"\n", end) + 1
        self._file.truncate(end)
        self.sync()

    def write(self, lines: Sequence[Line]) -> None:
        """Append lines; they are with the operating system when this returns."""
        if lines:
            self._file.write(b"".join(_encoder.encode(line) + b"\n" for line in lines))
            self._file.flush()

    def sync(self) -> None:
        """Wait until the disk has everything."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and let others write to it."""
        self._file.close()


@contextmanager
def folder_lock(parts: Path) -> Iterator[None]:
    """Hold the folder for this process; LiveError if another recorder holds it."""
    with (parts / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LiveError(f"{parts}: another simsched process is writing here") from error
        yield
