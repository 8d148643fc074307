"""The folder of a search's winner: written whole or not at all, and all that playing it takes.

best/
    checkpoint.pt       the winner's weights (`checkpoint`, a file or folder, where trials are
                        a program of the user's)
    hparams.json        its trial, hyperparameters and GA3C settings
    evaluation.json     the fresh episodes of all who played, and what follows from them
"""

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings
from simsched.messages import Hparams, TrialId

BEST = "best"
CHECKPOINT = "checkpoint.pt"
FOREIGN_CHECKPOINT = "checkpoint"
HPARAMS = "hparams.json"
EVALUATION = "evaluation.json"


class About(msgspec.Struct, frozen=True):
    """What `hparams.json` says."""

    trial: TrialId
    hparams: Hparams
    settings: Settings | None = None
    """None for a program of the user's."""


def keep(folder: Path, checkpoint: Path, about: About, evaluation: object) -> Path:
    """Write `best` into a run's folder: whole, or what was there before stays.

    Args:
        folder: the run's.
        checkpoint: the winner's, a file or folder; it is copied.
        about: the winner.
        evaluation: anything that can be written as JSON.

    Raises:
        OSError: it cannot be written.
    """
    best, scratch, old = (folder / name for name in (BEST, f".{BEST}.new", f".{BEST}.old"))
    if not best.exists() and old.exists():  # somebody was killed between the two renames below
        old.rename(best)
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        name = FOREIGN_CHECKPOINT if about.settings is None else CHECKPOINT
        if checkpoint.is_dir():
            shutil.copytree(checkpoint, scratch / name)
        else:
            shutil.copyfile(checkpoint, scratch / name)
        (scratch / HPARAMS).write_bytes(_pretty(about))
        (scratch / EVALUATION).write_bytes(_pretty(evaluation))
        for path in (*scratch.rglob("*"), scratch):
            _sync(path)
        shutil.rmtree(old, ignore_errors=True)
        if best.exists():
            best.rename(old)
        scratch.rename(best)
        _sync(folder)
    finally:
        if not best.exists() and old.exists():
            old.rename(best)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
    return best


def read_about(best: Path) -> About:
    """Return what a folder that `keep` wrote says of the winner.

    Raises:
        LiveError: it cannot be read, or cannot be right.
    """
    path = best / HPARAMS
    try:
        return msgspec.json.decode(path.read_bytes(), type=About)
    except OSError as error:
        raise LiveError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise LiveError(f"{path}: this does not tell of a winner: {error}") from error


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
