"""Where results go: a new folder and a JSON file, each whole or not there; the progress bar."""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

from simsched.errors import SimschedError

NUMBERED = "simulate-{}"


class Target(NamedTuple):
    """A claimed folder, and the folder inside it that is filled first."""

    folder: Path
    scratch: Path


@contextmanager
def new_folder(out: str | None) -> Iterator[Target]:
    """Claim a folder that is new or empty, `runs/simulate-N` by default.

    What is put into `scratch` is moved into the folder at the end. When something goes wrong
    all that was made is removed again, parents included.

    Raises:
        SimschedError: the folder holds something already, or cannot be made.
    """
    made: list[Path] = []
    scratch: Path | None = None
    try:
        folder = _claim(out, made)
        scratch = _scratch(folder)
        if any(entry != scratch.name for entry in os.listdir(folder)):
            raise _not_empty(folder)
        yield Target(folder, scratch)
        for entry in sorted(os.listdir(scratch)):
            (scratch / entry).rename(folder / entry)
        scratch.rmdir()
    except BaseException:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        for path in reversed(made):
            with suppress(OSError):  # somebody else's files are in it by now
                path.rmdir()
        raise


def _claim(out: str | None, made: list[Path]) -> Path:
    """Return a folder that nobody else writes to; `made` gets every folder made for it."""
    if out is None:
        _make(Path("runs"), made, "runs")
        made.append(numbered_folder(NUMBERED))
        return made[-1]
    folder = Path(out)
    if folder.is_dir():
        if any(folder.iterdir()):
            raise _not_empty(folder)
        return folder
    if os.path.lexists(folder):
        raise SimschedError(f"--out {out}: it is a file; name a new folder")
    _make(folder, made, f"--out {out}")
    return folder


def numbered_folder(pattern: str) -> Path:
    """Make and return the first folder in `runs` of this pattern that nobody has made yet."""
    number = 1
    while True:
        folder = Path("runs", pattern.format(number))
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        number += 1


def _not_empty(folder: Path) -> SimschedError:
    return SimschedError(
        f"--out {folder}: the folder is not empty; name a new one, nothing is overwritten"
    )


def _make(folder: Path, made: list[Path], label: str) -> None:
    """Make a folder and its parents, if they are not there."""
    missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
    for path in reversed(missing):
        try:
            path.mkdir()
        except OSError as error:
            raise SimschedError(
                f"{label}: the folder cannot be made: {path}: {error.strerror}"
            ) from None
        made.append(path)


def _scratch(folder: Path) -> Path:
    try:
        return folder / Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder)).name
    except OSError as error:
        raise SimschedError(f"--out {folder}: nothing can be written: {error.strerror}") from None


@contextmanager
def json_file(name: str | None) -> Iterator[Callable[[bytes], object]]:
    """Give a function that writes a file whole; what is there now stays if it is not called.

    That the file can be written is found out here, before the long work. None and "-" give a
    function that does nothing.

    Raises:
        SimschedError: the file cannot be written.
    """
    if name is None or name == "-":
        yield len
        return
    path = Path(name)
    if path.is_dir():
        raise SimschedError(f"--json {name}: it is a folder; name a file")
    if path.exists() and not path.is_file():  # a device or a pipe must not be replaced
        yield path.write_bytes
        return
    if not path.parent.is_dir():
        raise SimschedError(f"--json {name}: there is no folder {path.parent}")
    path = path.resolve()
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def write(data: bytes) -> None:
        scratch.write_bytes(data)
        scratch.replace(path)

    try:
        scratch.touch()
    except OSError as error:
        raise SimschedError(f"--json {name}: it cannot be written: {error.strerror}") from None
    try:
        yield write
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def undone_when_killed() -> Iterator[None]:
    """Let SIGTERM and a closed terminal undo what is half done, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    ignored = signal.SIG_IGN  # as nohup does
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != ignored]
    before = [signal.signal(number, leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a stream (None where it is closed) is a terminal."""
    return stream is not None and stream.isatty()


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar while runs are simulated, if somebody is there to see it."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TextColumn("runs,"),
        TimeElapsedColumn(), TextColumn("passed,"), TimeRemainingColumn(), TextColumn("left"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int) -> None:
            # Drawn ten times a second, and always before the first run and after the last.
            bar.update(task, completed=done, total=total, refresh=done in (0, total))

        yield show
