"""Checkpoints: all that training needs, in one file that cannot run code when it is read.

`network` (weights by name), `optimizer`, `updates`, `seconds`, `steps`, `episodes`, `random`
(states of the agents' generators) and `settings`, by which it can be played. Not in it: the
episodes in flight, because ale-py's vectorised emulators expose no state, and samples that had
not been trained on yet.
"""

import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings, settings_from

KEYS = {"network", "optimizer", "updates", "seconds", "steps", "episodes", "random"}


def write_checkpoint(path: Path, state: dict[str, Any], *, durable: bool = True) -> None:
    """Write a checkpoint so that it is there whole and durable, or not at all.

    Args:
        path: where.
        state: what to write.
        durable: False leaves it to the caller to wait for the disk, and to see to it that
            nobody reads half a file.
    """
    buffer = io.BytesIO()  # torch writes in many small pieces
    torch.save(state, buffer)
    if not durable:
        path.write_bytes(buffer.getbuffer())
        return
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's names: a new file is durable only then."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in the file is executed.

    Raises:
        LiveError: the file is missing or is no checkpoint.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files that are none of ours
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        missing = KEYS - set(state)
    except Exception as error:  # torch.load raises a dozen unrelated classes
        raise LiveError(f"{path}: not a readable checkpoint: {type(error).__name__}") from error
    if missing:
        raise LiveError(f"{path}: not a checkpoint, {sorted(missing)[0]!r} is missing")
    try:
        msgspec.convert({name: state[name] for name in _Counters.__struct_fields__}, _Counters)
    except msgspec.ValidationError as error:
        raise LiveError(f"{path}: not a checkpoint: {error}") from error
    return state


def settings_in(state: dict[str, Any], path: Path) -> Settings | None:
    """Return the settings that a checkpoint was trained with; None if it does not say.

    Raises:
        LiveError: what it says cannot be settings.
    """
    fields = state.get("settings")
    if fields is None:
        return None
    try:
        return settings_from(fields)
    except (LiveError, TypeError) as error:
        raise LiveError(f"{path}: not a checkpoint: {error}") from error


def game_in(state: dict[str, Any]) -> str | None:
    """Return the canonical name of the game a checkpoint is of; None if it does not say."""
    settings = state.get("settings")  # checkpoints of older versions have none
    return settings.get("game") if isinstance(settings, dict) else None


def require_game(state: dict[str, Any], game: str, path: Path) -> None:
    """Refuse a checkpoint that says it is of another game, even if the shapes fit.

    Args:
        state: what the checkpoint holds.
        game: the canonical name of the game it is for.
        path: where it was read.

    Raises:
        LiveError: it is of another game; both are named.
    """
    told = game_in(state)
    if told not in (None, game):
        raise LiveError(
            f"{path}: the checkpoint does not fit this trial: it is of {told}, not of {game}"
        )


class _Counters(msgspec.Struct):
    """The parts of a checkpoint that are neither weights nor optimizer."""

    seconds: float
    steps: int
    episodes: int
    random: "_Random"


class _Random(msgspec.Struct):
    groups: list[dict[str, Any]]


def restore(take: Callable[[dict[str, Any]], object], state: dict[str, Any], path: Path) -> None:
    """Have a learner take a checkpoint's weights and optimizer, if all of it fits.

    Args:
        take: the learner's `restore` or `adopt`.
        state: what the checkpoint holds.
        path: where it was read.

    Raises:
        LiveError: they do not fit.
    """
    try:
        for random_state in state["random"]["groups"]:
            np.random.PCG64().state = random_state  # would it be taken?
        take(state)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise LiveError(f"{path}: the checkpoint does not fit this trial: {reason}") from error
