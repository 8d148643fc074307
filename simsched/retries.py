"""What the coordinator knows of trials and nodes beyond the present moment: failures, restarts."""

from typing import Literal, TypeAlias

import msgspec

from simsched.messages import Checkpoint, Hparams, TrialId

SavePolicy: TypeAlias = Literal["scheduler", "milestone"]


class Policy(msgspec.Struct, frozen=True):
    """How a coordinator treats failures, checkpoints and time.

    The defaults suit a world in which nothing fails and checkpoints cost no disk.
    """

    save_at: SavePolicy = "scheduler"
    """scheduler saves where the scheduler needs it; milestone after every scored milestone."""
    retries: int = 3
    """Restarts of a trial after failures."""
    backoff_us: int = 1_000_000
    """Before the first restart; doubled with each further one."""
    longest_backoff_us: int = 60_000_000
    node_failures: int = 4
    """Failures in a row, of two trials at least, that take a node out of service."""
    max_time_us: int | None = None
    """When the run is cut off."""
    delete: bool = False
    """Whether checkpoints that nothing needs any more are deleted."""
    keep_best: int = 3
    """Of so many trials the checkpoint of the best milestone is kept."""
    lazy: bool = False
    """Whether a paused trial keeps its node, unsaved, until another trial needs it."""
    save_every_us: int | None = None
    """Time between two saves of a trial that trains, in mid-phase too."""
    keep_stopped: bool = False
    """Whether the newest checkpoint of a trial that is over is kept."""

    def backoff(self, failures: int) -> int:
        """Return how long to wait before the restart after so many failures, in µs."""
        return min(self.longest_backoff_us, self.backoff_us << min(failures - 1, 40))


class Member(msgspec.Struct, gc=False):
    """A trial that is not over: what it takes to start its worker again."""

    hparams: Hparams
    since: int = 0
    """The milestone that was told last."""
    reached: float = 0.0
    """The trial's true count there."""
    high: float = 0.0
    """The highest count that it is known to have had."""
    origin: Checkpoint | None = None
    """The newest durable state that it goes on from, its own or a donor's."""
    at: float = 0.0
    """The trial's own true count when it took that state."""
    mixed: bool = False
    """It has taken a donor's weights, so that it cannot be trained again from scratch."""
    failures: int = 0


class Health:
    """Which nodes keep failing."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._failed: dict[int, list[TrialId]] = {}
        """By node: the trials that failed on it since something went well there."""

    def well(self, node: int) -> None:
        """Something went well on the node."""
        if self._failed:
            self._failed.pop(node, None)

    def failed(self, node: int, trial: TrialId) -> bool:
        """Note a failure. Return whether the node is to be taken out of service."""
        trials = self._failed.setdefault(node, [])
        trials.append(trial)
        return len(trials) >= self.limit and len(set(trials)) > 1

    def forget(self, node: int) -> None:
        """The node is out of service, or new."""
        self._failed.pop(node, None)
