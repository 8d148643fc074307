"""What a world tells the coordinator (events), and what it is told to do (commands).

Both worlds speak these: the simulated cluster and the live one. `at` is the world's time in
integer microseconds; `attempt` numbers the starts of workers, so that a message from an
older worker can be told from the present one's.
"""

from typing import TypeAlias

import msgspec

from simsched.messages import Checkpoint, Hparams, TrialId


class NodeUp(msgspec.Struct, frozen=True, gc=False, tag="node_up"):
    """A node is there, and free."""

    at: int
    node: int


class Reported(msgspec.Struct, frozen=True, gc=False, tag="reported"):
    """A worker reached its milestone; `score` None says that the trial diverged on the way.

    `step` is the milestone, `reached` the true count. `start_us` and `load_us` say how long,
    since its command, the worker spent on starting and on loading a checkpoint; the rest it
    trained.
    """

    at: int
    node: int
    attempt: int
    step: int
    score: float | None
    reached: float
    start_us: int
    load_us: int


class Saved(msgspec.Struct, frozen=True, gc=False, tag="saved"):
    """The checkpoint that the worker was told to save is durable."""

    at: int
    node: int
    attempt: int


class Ended(msgspec.Struct, frozen=True, gc=False, tag="ended"):
    """The trial can go no further though nothing failed: there is no more of its curve."""

    at: int
    node: int
    attempt: int
    reached: float
    start_us: int
    load_us: int


Event: TypeAlias = NodeUp | Reported | Saved | Ended


class Hold(msgspec.Struct, frozen=True, gc=False, tag="hold"):
    """Keep the node for `trial`: its source is not durable yet, `Start` follows."""

    node: int
    attempt: int
    trial: TrialId


class Start(msgspec.Struct, frozen=True, gc=False, tag="start"):
    """Start a worker, load `source` if there is one, train until the milestone `until`."""

    node: int
    attempt: int
    trial: TrialId
    hparams: Hparams
    until: int
    source: Checkpoint | None


class Train(msgspec.Struct, frozen=True, gc=False, tag="train"):
    """Go on until the milestone `until`."""

    node: int
    attempt: int
    until: int


class Save(msgspec.Struct, frozen=True, gc=False, tag="save"):
    """Save a checkpoint; `Saved` is awaited."""

    node: int
    attempt: int
    checkpoint: Checkpoint


class Adopt(msgspec.Struct, frozen=True, gc=False, tag="adopt"):
    """Load the weights of `source`, take these hyperparameters, train until `until`."""

    node: int
    attempt: int
    source: Checkpoint
    hparams: Hparams
    until: int


class End(msgspec.Struct, frozen=True, gc=False, tag="end"):
    """End the worker. The node counts as free; a `Start` on it waits until the worker is gone."""

    node: int
    attempt: int


Command: TypeAlias = Hold | Start | Train | Save | Adopt | End
