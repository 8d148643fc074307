"""The checkpoints of a live search: whole and durable, or not there.

    checkpoints/trial-0003-step-2000/
        data             what the worker wrote: a file or a folder
        manifest.json    whose it is, what the worker said beside it, checksums

A worker writes into a folder of its attempt's own. When it says that it is done, all of it is
synced to the disk, summed, and renamed. A checkpoint is read only after its sums were compared.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from simsched.live.errors import LiveError
from simsched.live.protocol import Source
from simsched.messages import Checkpoint

MANIFEST = "manifest.json"
DATA = "data"


class DamagedError(LiveError):
    """A checkpoint is not what was saved."""


class Manifest(msgspec.Struct, frozen=True):
    """What is known of a checkpoint."""

    trial: int
    step: int
    state: dict[str, Any]
    """What the worker said beside it."""
    sha256: dict[str, str]
    """By file, relative to the checkpoint's folder."""
    bytes: int


class Store:
    """The checkpoint folder of one run. Its methods may be called in any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, checkpoint: Checkpoint) -> Path:
        """Return where a checkpoint is, or would be."""
        return self.folder / f"trial-{checkpoint.trial:04d}-step-{checkpoint.step}"

    def scratch(self, attempt: int) -> Path:
        """Make and return the path that an attempt is to write its next checkpoint to."""
        folder = self.folder / f".attempt-{attempt}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder / DATA

    def commit(self, attempt: int, checkpoint: Checkpoint, state: dict[str, Any]) -> int:
        """Make durable what an attempt wrote; returns its size in bytes.

        Raises:
            LiveError: there is nothing, or something else than files and folders.
            OSError: the disk.
        """
        folder = self.folder / f".attempt-{attempt}"
        if not os.path.lexists(folder / DATA):
            raise LiveError("it said that it had saved, but there is no checkpoint")
        sums, size = _summed(folder, durable=True)
        manifest = Manifest(checkpoint.trial, checkpoint.step, state, sums, size)
        with (folder / MANIFEST).open("wb") as file:
            file.write(msgspec.json.encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        _sync_folders(folder)
        target = self.path(checkpoint)
        older = target.with_name(f".older-{target.name}")
        if target.exists():  # until the new one is there, the old one must not be lost
            target.rename(older)
        folder.rename(target)
        sync_folder(self.folder)
        shutil.rmtree(older, ignore_errors=True)
        return size

    def open(self, checkpoint: Checkpoint) -> Source:
        """Check a checkpoint and return what a worker needs to load it.

        Raises:
            DamagedError: it is not what was saved.
        """
        folder = self.path(checkpoint)
        manifest = self.manifest(checkpoint)
        try:
            sums, _ = _summed(folder, durable=False)
        except OSError as error:
            raise DamagedError(f"{error.filename}: cannot be read: {error.strerror}") from None
        if set(sums) != set(manifest.sha256):
            raise DamagedError(f"{folder}: files are missing, or were added")
        for name, sha256 in sums.items():
            if sha256 != manifest.sha256[name]:
                raise DamagedError(
                    f"{folder / name}: it is not what was saved: its SHA-256 differs"
                )
        return Source(
            str((folder / DATA).absolute()), checkpoint.trial, checkpoint.step, manifest.state
        )

    def manifest(self, checkpoint: Checkpoint) -> Manifest:
        """Return what is known of a checkpoint. Raises DamagedError."""
        path = self.path(checkpoint) / MANIFEST
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise DamagedError(f"{path}: cannot be read: {error}") from None
        if (manifest.trial, manifest.step) != (checkpoint.trial, checkpoint.step):
            raise DamagedError(f"{path}: belongs to trial {manifest.trial}, {manifest.step}")
        return manifest

    def delete(self, checkpoint: Checkpoint) -> None:
        """Delete a checkpoint, if it is there."""
        shutil.rmtree(self.path(checkpoint), ignore_errors=True)

    def here(self) -> list[Checkpoint]:
        """Return the checkpoints that are in the folder, by their names."""
        found = []
        for path in self.folder.glob("trial-*-step-*"):
            trial, _, step = path.name.removeprefix("trial-").partition("-step-")
            if trial.isdigit() and step.isdigit():
                found.append(Checkpoint(int(trial), int(step)))
        return sorted(found, key=lambda each: (each.trial, each.step))

    def sweep(self, keep: frozenset[Checkpoint]) -> None:
        """Delete what workers left unfinished, and all checkpoints but those to keep."""
        for older in self.folder.glob(".older-*"):
            target = older.with_name(older.name.removeprefix(".older-"))
            if target.exists():
                shutil.rmtree(older, ignore_errors=True)
            else:
                older.rename(target)
        for scratch in self.folder.glob(".attempt-*"):
            shutil.rmtree(scratch, ignore_errors=True)
        for checkpoint in self.here():
            if checkpoint not in keep:
                self.delete(checkpoint)

    def size_bytes(self) -> int:
        """Return what the whole folder has on the disk."""
        total = 0
        # Others save and delete meanwhile; os.walk passes over a folder that is gone, rglob raises.
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with suppress(FileNotFoundError):
                    status = os.lstat(os.path.join(folder, name))
                    total += status.st_size if stat.S_ISREG(status.st_mode) else 0
        return total


def _files(data: Path) -> Iterator[Path]:
    """Yield the files of a checkpoint in order; LiveError for links, pipes and the like."""
    if data.is_dir() and not data.is_symlink():
        for entry in sorted(data.iterdir()):
            yield from _files(entry)
    elif data.is_symlink() or not data.is_file():
        raise DamagedError(f"{data}: a checkpoint is made of files and folders alone")
    else:
        yield data


def _summed(folder: Path, *, durable: bool) -> tuple[dict[str, str], int]:
    """Return the SHA-256 of each file of a checkpoint, and the size of all in bytes.

    Raises:
        DamagedError: there are other things than files and folders.
        OSError: the disk.
    """
    sums, size = {}, 0
    for path in _files(folder / DATA):
        with path.open("rb") as file:
            sums[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
            size += file.tell()
            if durable:
                os.fsync(file.fileno())
    return sums, size


def _sync_folders(folder: Path) -> None:
    for path in [folder, *(entry for entry in folder.rglob("*") if entry.is_dir())]:
        sync_folder(path)


def sync_folder(folder: Path) -> None:
    """Make durable which files are in a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
