"""What a world tells the coordinator (events), and what it is told to do (commands).

Both worlds speak these: the simulated cluster and the live one. `at` is the world's time in
integer microseconds; `attempt` numbers the starts of workers, so that a message from an
older worker can be told from the present one's. `wait_us`, `start_us`, `load_us` and `redo_us`
say how long, since its command, a worker waited for that command to come, spent on starting, on
loading a checkpoint and on training again what had been lost; the rest it trained.
"""

from typing import Literal, TypeAlias

import msgspec

from simsched.messages import Checkpoint, Hparams, TrialId


class NodeUp(msgspec.Struct, frozen=True, gc=False, tag="node_up"):
    """A node is there, and free."""

    at: int
    node: int


class NodeLeaving(msgspec.Struct, frozen=True, gc=False, tag="node_leaving"):
    """A node will be gone soon (a spot instance's notice, maintenance, a shrinking cluster)."""

    at: int
    node: int


class NodeDown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="node_down"):
    """A node is gone, and what ran there; `NodeUp` brings it back.

    `attempt` and the rest say what its worker had done, as in `Failed`; 0 if there was none.
    `save_us`: how long it had been parking.
    """

    at: int
    node: int
    attempt: int = 0
    reached: float = 0.0
    start_us: int = 0
    load_us: int = 0
    redo_us: int = 0
    save_us: int = 0
    wait_us: int = 0


class Reported(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="reported"):
    """A worker reached its milestone; `score` None says that the trial diverged on the way.

    `step` is the milestone, `reached` the true count.
    """

    at: int
    node: int
    attempt: int
    step: int
    score: float | None
    reached: float
    start_us: int
    load_us: int
    redo_us: int = 0
    wait_us: int = 0


class Saved(msgspec.Struct, frozen=True, gc=False, tag="saved"):
    """The checkpoint that the worker was told to save is durable."""

    at: int
    node: int
    attempt: int


class Ended(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="ended"):
    """The trial can go no further though nothing failed: there is no more of its curve."""

    at: int
    node: int
    attempt: int
    reached: float
    start_us: int
    load_us: int
    redo_us: int = 0
    wait_us: int = 0


class Failed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="failed"):
    """A worker is gone, or could not do what it was told, and nobody had asked it to end."""

    at: int
    node: int
    attempt: int
    reason: str
    reached: float
    """The highest count that the trial is known to have had."""
    start_us: int = 0
    load_us: int = 0
    redo_us: int = 0
    spoilt: bool = False
    """The checkpoint that it was to load is damaged."""
    wait_us: int = 0
    save_us: int = 0
    """How long it had been parking, or saving in mid-phase."""


class Parked(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="parked"):
    """The worker has saved its trial as it was after `step` resource units, and is gone."""

    at: int
    node: int
    attempt: int
    step: int
    reached: float
    start_us: int = 0
    load_us: int = 0
    redo_us: int = 0
    save_us: int = 0
    wait_us: int = 0


class Snapped(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="snapped"):
    """The worker has saved its trial as it was after `step` resource units, and trains on.

    `save_us` of the time until `at` went into that. `step` -1: there was nothing to save.
    """

    at: int
    node: int
    attempt: int
    step: int
    reached: float
    start_us: int = 0
    load_us: int = 0
    redo_us: int = 0
    save_us: int = 0
    wait_us: int = 0


class TimerFired(msgspec.Struct, frozen=True, gc=False, tag="timer"):
    """The time that `SetTimer` asked for has passed."""

    at: int
    timer: str


class Interrupted(msgspec.Struct, frozen=True, gc=False, tag="interrupted"):
    """Somebody wants the run to stop for now, so that it can go on later."""

    at: int


class Recovered(msgspec.Struct, frozen=True, gc=False, tag="recovered"):
    """The run goes on after its coordinator was gone. No worker is left of before."""

    at: int


Event: TypeAlias = (
    NodeUp | NodeLeaving | NodeDown | Reported | Saved | Ended | Failed | Parked
    | Snapped | TimerFired | Interrupted | Recovered
)  # fmt: skip


class Hold(msgspec.Struct, frozen=True, gc=False, tag="hold"):
    """Keep the node for `trial`: its source is not durable yet, `Start` follows."""

    node: int
    attempt: int
    trial: TrialId


class Start(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="start"):
    """Start a worker, load `source` if there is one, train until the milestone `until`."""

    node: int
    attempt: int
    trial: TrialId
    hparams: Hparams
    until: int
    source: Checkpoint | None
    since: int = 0
    """The milestone that was told last."""
    count: float = 0.0
    """The trial's own true count when it took the state that it starts from."""
    redo_until: float = 0.0
    """It has been here before: training up to this count is done again."""


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


class Park(msgspec.Struct, frozen=True, gc=False, tag="park"):
    """Save the trial as it is, in mid-phase too, and end the worker; `Parked` is awaited."""

    node: int
    attempt: int


class Keep(msgspec.Struct, frozen=True, gc=False, tag="keep"):
    """The trial pauses, but keeps its node, and its worker, until another trial needs it."""

    node: int
    attempt: int


class Snapshot(msgspec.Struct, frozen=True, gc=False, tag="snapshot"):
    """Save the trial as it is, in mid-phase, and train on; `Snapped` is awaited."""

    node: int
    attempt: int


class Withdraw(msgspec.Struct, frozen=True, gc=False, tag="withdraw"):
    """Take a node out of service: workers keep failing on it."""

    node: int


class Over(msgspec.Struct, frozen=True, gc=False, tag="over"):
    """A trial is over though no verdict ended it: its retries are spent, or the run's time is."""

    trial: TrialId
    fate: Literal["lost", "censored"]


class Delete(msgspec.Struct, frozen=True, gc=False, tag="delete"):
    """Nothing needs this checkpoint any more."""

    checkpoint: Checkpoint


class SetTimer(msgspec.Struct, frozen=True, gc=False, tag="set_timer"):
    """Feed `TimerFired` after so many microseconds."""

    timer: str
    delay_us: int


class CancelTimer(msgspec.Struct, frozen=True, gc=False, tag="cancel_timer"):
    """The timer is not wanted any more."""

    timer: str


NodeCommand: TypeAlias = (
    Hold | Start | Train | Save | Adopt | End | Park | Keep | Snapshot | Withdraw
)
"""What concerns one node."""
Command: TypeAlias = NodeCommand | Over | Delete | SetTimer | CancelTimer
