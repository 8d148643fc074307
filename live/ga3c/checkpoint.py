"""Checkpoints: all that training needs, in one file that cannot run code when it is read.

`network` (weights by name), `optimizer`, `updates`, `seconds`, `steps`, `episodes` and `random`
(states of the agents' generators). Not in it: the episodes in flight, because ale-py's vectorised
emulators expose no state, and samples that had not been trained on yet.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from simsched.live.errors import LiveError
from simsched.live.ga3c.learner import Learner

KEYS = {"network", "optimizer", "updates", "seconds", "steps", "episodes", "random"}


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint so that it is there whole and durable, or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in the file is executed.

    Raises:
        LiveError: the file is missing or is no checkpoint.
    """
    try:
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


class _Counters(msgspec.Struct):
    """The parts of a checkpoint that are neither weights nor optimizer."""

    seconds: float
    steps: int
    episodes: int
    random: "_Random"


class _Random(msgspec.Struct):
    groups: list[dict[str, Any]]


def restore(learner: Learner, state: dict[str, Any], path: Path) -> None:
    """Put a checkpoint's weights and optimizer into a learner, if all of it fits.

    Raises:
        LiveError: they do not fit.
    """
    try:
        for random_state in state["random"]["groups"]:
            np.random.PCG64().state = random_state  # would it be taken?
        learner.restore(state)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise LiveError(f"{path}: the checkpoint does not fit this trial: {reason}") from error
