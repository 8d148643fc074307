"""The folder of a live run: refused before anything is written, then claimed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simsched.cli.output import numbered_folder
from simsched.errors import SimschedError

NUMBERED = "live-{}"


def next_folder() -> Path:
    """Return the folder that a run without --out would get; it is not made."""
    number = 1
    while os.path.lexists(path := Path("runs", NUMBERED.format(number))):
        number += 1
    return path


def refuse_folder(folder: Path, out: str | None) -> None:
    """Refuse a folder that cannot become a run's. Nothing is made.

    Raises:
        SimschedError: it holds something, is a file, or nothing can be written there.
    """
    label = str(folder) if out is None else f"--out {out}"
    if folder.is_dir():
        if (folder / "settings.json").exists() and (folder / "journal.jsonl").exists():
            raise SimschedError(
                f"{label}: holds a search already; name a new folder, or go on with it: "
                f"simsched live --resume {folder}"
            )
        if any(folder.iterdir()):
            raise SimschedError(f"{label}: the folder is not empty; name a new one")
    elif os.path.lexists(folder):
        raise SimschedError(f"{label}: it is a file; name a new folder")
    around = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not around.is_dir():
        raise SimschedError(f"{label}: {around} is a file, no folder")
    if not os.access(around, os.W_OK | os.X_OK):
        raise SimschedError(f"{label}: nothing can be written in {around}")


@contextmanager
def claimed(out: str | None) -> Iterator[Path]:
    """Make a run's folder; if the run fails before it has put anything there, it is removed.

    Raises:
        SimschedError: it cannot be made, or nothing can be written there.
    """
    made: list[Path] = []
    try:
        if out is None:
            if not Path("runs").is_dir():
                _make(Path("runs"), "runs", made)
            folder = numbered_folder(NUMBERED)
            made.append(folder)
        else:
            folder = Path(out)
            for path in (*reversed(folder.parents), folder):
                if not path.is_dir():
                    _make(path, f"--out {out}", made)
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"x" * 4096)
        except OSError as error:
            raise SimschedError(
                f"--out {folder}: nothing can be written: {error.strerror}"
            ) from None
        yield folder
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):  # it has something in it
                path.rmdir()
        raise


def _make(path: Path, label: str, made: list[Path]) -> None:
    try:
        path.mkdir()
    except OSError as error:
        raise SimschedError(
            f"{label}: the folder cannot be made: {path}: {error.strerror}"
        ) from None
    made.append(path)
