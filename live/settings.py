"""All that a live search was given: enough to run it again, and to refuse to resume another."""

import hashlib
from importlib.resources import files
from typing import Any, Literal

import msgspec

from simsched.checkpointing import Saving, parse_saving
from simsched.messages import Hparams, Unit
from simsched.schedulers import Plan
from simsched.space import SearchSpace

_CONTROL_PLANE = (
    "coordinator.py",
    "draws.py",
    "events.py",
    "failures.py",
    "messages.py",
    "retries.py",
    "shelf.py",
    "slot.py",
    "slots.py",
    "waiting.py",
    "space.py",
)


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a live search, as its folder keeps them."""

    version: str
    code: str
    """Digest of the files that decide: a search is resumed by the code that began it."""
    game: str | None = None
    """An Atari game or Gymnasium environment for the GA3C worker; None where `command` is given."""
    command: str | None = None
    """A program of the user's, with {name} for each hyperparameter."""
    preset: str = "fast"
    training: dict[str, Any] = {}
    """GA3C settings that all trials share, where they differ from the published ones."""
    nodes: int
    nodes_per_gpu: int | None = None
    cores_per_node: int | None = None
    workers: int = 16
    scheduler: str = "hypertrick"
    phases: int = 4
    phase_length: int
    unit: Unit = "steps"
    space: dict[str, Any]
    """The search space as JSON."""
    first: list[Hparams] = []
    """Configurations of the first trials; the others are drawn."""
    metric: str = "return"
    mode: Literal["max", "min"] = "max"
    max_time_s: float | None = None
    seed: int = 0
    retries: int = 3
    """Restarts of a trial after failures, before it is abandoned."""
    checkpoints: str = "milestone"
    """When trials are saved, see `simsched.checkpointing`."""
    preemption: Literal["eager", "lazy"] = "eager"
    """lazy: a paused trial keeps its node until another needs it."""
    complete: bool = False
    """Train on what the scheduler stopped, after the search."""
    tensorboard: bool = True
    heartbeat_s: float = 1.0
    silent_after_s: float = 60.0
    """A worker that says nothing for so long is taken for hung."""
    start_timeout_s: float = 120.0
    """How long a worker may take until it begins to train."""
    grace_s: float = 10.0
    """How long a worker may take to save or to leave when asked, and again after SIGTERM."""
    backoff_s: float = 1.0
    """Wait before a trial's first restart; doubled with each further one, at most a minute."""
    evaluation_episodes: int = 10
    """Fresh episodes for each of the top three; 0 evaluates none."""

    @property
    def saving(self) -> Saving:
        """When trials are saved."""
        return parse_saving(self.checkpoints)

    @property
    def plan(self) -> Plan:
        """What the scheduler is given."""
        return Plan(self.workers, self.phases, self.phase_length, self.seed)

    @property
    def search_space(self) -> SearchSpace:
        """The search space."""
        return SearchSpace.from_json(self.space)


def code_digest() -> str:
    """Return a digest of the files whose change could change a decision."""
    digest = hashlib.sha256()
    package = files("simsched")
    for name in _CONTROL_PLANE:
        digest.update((package / name).read_bytes())
    for folder in ("schedulers", "searchers"):
        for entry in sorted((package / folder).iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                digest.update(entry.read_bytes())
    return digest.hexdigest()[:16]
