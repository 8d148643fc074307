"""The worker protocol: JSON Lines over a Unix stream socket, one object a line.

A worker is a program. It finds the socket and a secret in its environment, says hello, and is
told what to train; see docs/workers.md for every message and an example. Nothing here is
specific to GA3C, to Python or to reinforcement learning.
"""

from typing import Any, TypeAlias

import msgspec

from simsched.messages import Hparams, Unit

PROTOCOL = 1
"""Version of this protocol; a worker of another version is turned away."""
LONGEST_LINE = 2**20
"""Bytes of the longest message; a longer line is garbage."""


class Counters(msgspec.Struct, frozen=True):
    """How far a trial is, since its start, whatever the run's unit."""

    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0
    """Spent training: without starting, loading, saving and waiting."""


class Source(msgspec.Struct, frozen=True):
    """A checkpoint to load."""

    path: str
    """A file or folder, as the worker that saved it made it."""
    trial: int
    """Whose it is: another trial's is a donor's."""
    step: int
    state: dict[str, Any] = {}
    """What that worker said beside it."""


# From a worker.


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First message."""

    protocol: int
    token: str
    pid: int = 0


class Training(msgspec.Struct, frozen=True, tag="training"):
    """Starting and loading are over, training begins."""

    load_s: float = 0.0
    """How much of the time since the command went into loading a checkpoint."""


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """I am alive, and so far."""

    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """Scores, in order: one a finished episode, epoch, or whatever the program counts."""

    rows: list[tuple[float, int, int, float]]
    """(seconds, steps, episodes, score), the first three cumulative."""


class Reached(msgspec.Struct, frozen=True, tag="report"):
    """The milestone is reached, or the trial has diverged: `score` None. Awaits an answer."""

    step: int
    """The milestone, as it was given."""
    score: float | None
    reached: float
    """The true count in the run's unit."""
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    """The checkpoint is written. Answers `save` and `park`."""

    state: dict[str, Any] = {}
    """Anything; comes back with the checkpoint."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The worker cannot go on, and ends."""

    reason: str


FromWorker: TypeAlias = Hello | Training | Beat | Rows | Reached | Saved | Failed


# To a worker.


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome"):
    """What to train; the answer to `hello`."""

    protocol: int = PROTOCOL
    trial: int
    attempt: int
    node: int
    hparams: Hparams
    settings: dict[str, Any]
    """Of the worker's own kind; a command of the user's gets none."""
    seed: int
    unit: Unit
    since: int
    """The milestone told last; 0 before the first."""
    until: int
    """The next one."""
    source: Source | None
    """None starts from scratch."""
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0
    """The trial's own counters at `since`, for when the source is a donor's."""
    last_score: float | None = None
    folder: str
    """The trial's own folder, for logs."""
    heartbeat_s: float


class Train(msgspec.Struct, frozen=True, tag="train"):
    """Go on until the next milestone."""

    until: int


class Save(msgspec.Struct, frozen=True, tag="save"):
    """Write a checkpoint, a file or a folder, and say `saved`.

    After a report, then await the next message; in mid-phase, then train on.
    """

    path: str


class Adopt(msgspec.Struct, frozen=True, tag="adopt"):
    """Take a donor's weights and these hyperparameters, keep your own counters, train."""

    source: Source
    hparams: Hparams
    until: int


class Park(msgspec.Struct, frozen=True, tag="park"):
    """As soon as you can, in mid-phase too: write a checkpoint, say `saved`, exit."""

    path: str


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Exit; nothing of yours is needed any more."""


ToWorker: TypeAlias = Welcome | Train | Save | Adopt | Park | Stop
