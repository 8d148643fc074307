"""What a live search looks like at a moment: the values that the terminal view draws."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from simsched.messages import Hparams
from simsched.results import Fate

Doing: TypeAlias = Literal[
    "idle", "starting", "loading", "training", "saving", "waiting", "leaving", "out of service"
]


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node and what runs on it."""

    node: int
    name: str
    """As `simsched nodes` shows it: "cores 0-1" or "GPU 0"."""
    doing: Doing
    trial: int | None = None
    attempt: int | None = None
    phase: int | None = None
    """The phase that is trained, from 0."""
    count: float | None = None
    """The trial's count in the run's unit."""
    until: int | None = None
    score: float | None = None
    """Of the trial's newest milestone, in the metric's own sense."""
    steps_per_s: float | None = None
    cpu_percent: float | None = None
    """Of the node's cores: 100 is all of them busy."""
    gpu_percent: float | None = None
    gpu_memory_bytes: int | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole search."""

    elapsed_s: float
    nodes: Sequence[NodeStatus]
    trials: int
    """Of the search; some may not have started."""
    started: int
    fates: dict[Fate, int]
    """Trials that are over, by fate."""
    paused: int
    milestones: int
    """Told so far."""
    best_score: float | None
    best_trial: int | None
    best_hparams: Hparams | None
    failures: int
    """Workers that failed so far."""
    checkpoint_bytes: int
    """On the disk now."""
    time_left_s: float | None = None
    """From a simulation of what remains; None while there is nothing to go by."""
    progress: float | None = None
    """Share of the search that is over, by the same simulation."""
