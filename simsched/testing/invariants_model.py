"""A model of a run, made from what its journal holds: who is where, what is durable.

It is written apart from the coordinator, and simpler, so that the two can be compared. This
half takes in events; `simsched.testing.invariants` the commands that answer them.
"""

from typing import Literal, TypeAlias

import msgspec

from simsched.events import (
    Ended,
    Event,
    Failed,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Parked,
    Recovered,
    Reported,
    Saved,
    Snapped,
    TimerFired,
)
from simsched.messages import Checkpoint, Decision, Exploit, Pause, Stop, TrialId
from simsched.retries import Policy

OfAWorker: TypeAlias = Reported | Saved | Ended | Failed | Parked | Snapped


class Violation(AssertionError):  # noqa: N818 - it is what a swarm looks for
    """A rule of the control plane is broken."""


class Life(msgspec.Struct):
    """One trial: it is in exactly one of three phases."""

    phase: Literal["running", "paused", "over"] = "running"
    told: int = 0
    """The milestone that was told last."""
    failures: int = 0
    origin: Checkpoint | None = None
    """The durable state that it would go on from."""
    newest: Checkpoint | None = None
    """What it saved last itself."""
    best: tuple[float, int] | None = None
    unlucky: bool = False
    """A checkpoint that it could have gone on from was damaged, or was never saved."""


class Occupant(msgspec.Struct):
    """Who is on a node, through save, load and grace."""

    trial: TrialId
    attempt: int
    held: bool = False
    """There is no worker yet."""
    saving: Checkpoint | None = None
    loading: Checkpoint | None = None


class Model:
    """What is true after the events so far. `policy`: the coordinator's."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.at = 0
        self.lives: dict[TrialId, Life] = {}
        self.on: dict[int, Occupant] = {}
        self.nodes: dict[int, int] = {}
        """The nodes that ever were in service, and since when."""
        self.serving: set[int] = set()
        self.leaving: set[int] = set()
        self.durable: set[Checkpoint] = set()
        self.deleted: set[Checkpoint] = set()
        self.damaged: set[Checkpoint] = set()
        """What was found damaged, so that it was deleted before its time."""
        self.timers: set[str] = set()
        self.lost: set[TrialId] = set()
        self.attempts = self.milestones = self.failed = self.failures = 0
        self._failing: dict[int, list[TrialId]] = {}

    def is_stale(self, event: Event) -> bool:
        """Tell whether an event is the message of a worker that nobody waits for."""
        if not isinstance(event, OfAWorker):
            return False
        here = self.on.get(event.node)
        return here is None or here.held or here.attempt != event.attempt

    def _event(self, event: Event, decision: Decision | None) -> None:
        if isinstance(event, Reported):
            self._reported(event, decision)
        elif isinstance(event, Saved | Parked | Snapped):
            self._saved(event)
        elif isinstance(event, Failed):
            self.failed += 1
            self._failed(event.node, self.on[event.node])
            if event.spoilt:
                self._spoilt(self.on[event.node])
        elif isinstance(event, Ended):
            self._over(self.on[event.node].trial)
        elif isinstance(event, NodeUp):
            self.nodes.setdefault(event.node, event.at)
            self.serving.add(event.node)
            self.leaving.discard(event.node)
            self._failing.pop(event.node, None)
        elif isinstance(event, NodeLeaving):
            if event.node in self.serving:
                self.leaving.add(event.node)
        elif isinstance(event, NodeDown):
            self._out_of_service(event.node)
        elif isinstance(event, TimerFired):
            self.timers.discard(event.timer)
        elif isinstance(event, Recovered):
            self.on.clear()
            self.timers.clear()

    def _reported(self, event: Reported, decision: Decision | None) -> None:
        self._failing.pop(event.node, None)
        here = self.on[event.node]
        here.loading = None
        life = self.lives[here.trial]
        if decision is None:  # it made up for a lost save, or could not
            require(event.step <= life.told, f"milestone {event.step} is not told")
            if event.score is None:
                self._failed(event.node, here)
            return
        require(life.phase == "running", f"trial {here.trial} is {life.phase}, and told")
        ahead = event.step > life.told
        require(ahead, f"trial {here.trial}: {event.step} is told after {life.told}")
        self.milestones += 1
        life.told = event.step
        if event.score is not None and (life.best is None or event.score > life.best[0]):
            life.best = event.score, event.step
        if isinstance(decision.verdict, Stop):
            self._over(here.trial)
        elif isinstance(decision.verdict, Pause):
            life.phase = "paused"
        elif isinstance(decision.verdict, Exploit):
            self._source(decision.verdict.donor, here.trial, durable=False)

    def _saved(self, event: Saved | Parked | Snapped) -> None:
        here = self.on[event.node]
        saved: Checkpoint | None
        if isinstance(event, Saved):
            saved, here.saving = here.saving, None
            require(saved is not None, "a save that nobody asked for")
            self._failing.pop(event.node, None)
        else:
            saved = Checkpoint(here.trial, event.step) if event.step >= 0 else None
            if isinstance(event, Snapped) and saved is not None:
                self._failing.pop(event.node, None)
        if saved is not None:
            self.durable.add(saved)
            self.deleted.discard(saved)
            self.damaged.discard(saved)
            self.lives[here.trial].origin = self.lives[here.trial].newest = saved

    def _failed(self, node: int, here: Occupant) -> None:
        self.failures += 1
        life = self.lives[here.trial]
        safe = Checkpoint(here.trial, life.told) in self.durable and here.saving is None
        life.failures += not (life.phase == "paused" and safe)
        self._failing.setdefault(node, []).append(here.trial)

    def _spoilt(self, here: Occupant) -> None:
        damaged = here.loading
        require(damaged is not None, "a checkpoint is damaged that nobody loads")
        assert damaged is not None  # noqa: S101 - as just required
        self.durable.discard(damaged)
        self.damaged.add(damaged)
        for life in self.lives.values():
            if life.origin == damaged:
                life.origin, life.unlucky = None, True
        self.lives[here.trial].unlucky = True

    def _budget(self, event: Failed) -> None:
        """Whose retries are spent is over, and nobody before."""
        for trial in self._failing.get(event.node, ())[-1:]:
            life = self.lives[trial]
            spent = life.failures > self.policy.retries
            require(not spent or life.phase == "over", f"trial {trial} has no retries left")

    def _over(self, trial: TrialId) -> None:
        life = self.lives[trial]
        require(life.phase != "over", f"trial {trial} is over twice")
        life.phase = "over"

    def _retire(self, trials: tuple[TrialId, ...]) -> None:
        for trial in trials:
            phase = self.lives[trial].phase
            require(phase == "paused", f"trial {trial} retires, but is {phase}")
            self._over(trial)

    def _out_of_service(self, node: int) -> None:
        self.serving.discard(node)
        self.leaving.discard(node)
        self._failing.pop(node, None)
        self.on.pop(node, None)

    def _source(self, source: Checkpoint, trial: TrialId, *, durable: bool) -> None:
        require(source.trial in self.lives, f"trial {trial} takes {source} of nobody")
        gone = source in self.deleted and source not in self.damaged
        require(not gone, f"trial {trial} takes {source}, which was deleted")
        if durable:
            require(source in self.durable, f"trial {trial} takes {source}: not durable")

    def best(self) -> set[Checkpoint]:
        """Return the checkpoints that `Policy.keep_best` keeps."""
        ranked = sorted(
            (-life.best[0], trial, life.best[1])
            for trial, life in self.lives.items()
            if life.best is not None and Checkpoint(trial, life.best[1]) in self.durable
        )
        return {Checkpoint(trial, step) for _, trial, step in ranked[: self.policy.keep_best]}


def require(condition: bool, what: str) -> None:
    """Raise Violation unless a condition holds."""
    if not condition:
        raise Violation(what)
