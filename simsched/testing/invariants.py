"""What must hold after every event of a run, whatever fails.

`Books` follows the events and answers that a journal holds, as a model of its own: who is
where, what is durable, who failed how often. It refuses an answer that breaks a rule. Made
again from a journal it says whether a run that was recorded kept the rules.
"""

from typing import Literal, TypeAlias

import msgspec

from simsched.events import (
    Adopt,
    CancelTimer,
    Command,
    Delete,
    End,
    Ended,
    Event,
    Failed,
    Hold,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Over,
    Park,
    Parked,
    Recovered,
    Reported,
    Save,
    Saved,
    SetTimer,
    Start,
    TimerFired,
    Train,
    Withdraw,
)
from simsched.messages import Checkpoint, Decision, Exploit, Pause, Stop, TrialId
from simsched.retries import Policy

OfAWorker: TypeAlias = Reported | Saved | Ended | Failed | Parked


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


class Books:
    """A model of a run. `policy`: the coordinator's."""

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
        self.timers: set[str] = set()
        self.lost: set[TrialId] = set()
        self.attempts = self.milestones = self.failures = 0
        self._failing: dict[int, list[TrialId]] = {}

    def is_stale(self, event: Event) -> bool:
        """Tell whether an event is the message of a worker that nobody waits for."""
        if not isinstance(event, OfAWorker):
            return False
        here = self.on.get(event.node)
        return here is None or here.held or here.attempt != event.attempt

    def observe(
        self,
        event: Event,
        decision: Decision | None,
        abandoned: tuple[TrialId, ...],
        commands: list[Command],
    ) -> None:
        """Take in one record. Raises Violation."""
        _require(event.at >= self.at, f"time runs back from {self.at}")
        self.at = event.at
        if self.is_stale(event):
            silent = decision is None and not abandoned and not commands
            _require(silent, "a message of an older attempt is answered")
            return
        self._event(event, decision)
        if decision is not None:
            _require(isinstance(event, Reported), "a decision, but no report")
            self._retire(decision.retired)
        self._retire(abandoned)
        for command in commands:
            self._command(command, event)
        if isinstance(event, Failed):
            self._budget(event)

    def _event(self, event: Event, decision: Decision | None) -> None:
        if isinstance(event, Reported):
            self._reported(event, decision)
        elif isinstance(event, Saved | Parked):
            self._saved(event)
        elif isinstance(event, Failed):
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
            _require(event.step <= life.told, f"milestone {event.step} is not told")
            if event.score is None:
                self._failed(event.node, here)
            return
        _require(life.phase == "running", f"trial {here.trial} is {life.phase}, and told")
        ahead = event.step > life.told
        _require(ahead, f"trial {here.trial}: {event.step} is told after {life.told}")
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

    def _saved(self, event: Saved | Parked) -> None:
        here = self.on[event.node]
        saved: Checkpoint | None
        if isinstance(event, Saved):
            saved, here.saving = here.saving, None
            _require(saved is not None, "a save that nobody asked for")
            self._failing.pop(event.node, None)
        else:
            saved = Checkpoint(here.trial, event.step) if event.step >= 0 else None
        if saved is not None:
            self.durable.add(saved)
            self.deleted.discard(saved)
            self.lives[here.trial].origin = saved

    def _failed(self, node: int, here: Occupant) -> None:
        self.failures += 1
        self.lives[here.trial].failures += 1
        self._failing.setdefault(node, []).append(here.trial)

    def _spoilt(self, here: Occupant) -> None:
        damaged = here.loading
        _require(damaged is not None, "a checkpoint is damaged that nobody loads")
        assert damaged is not None  # noqa: S101 - as just required
        self.durable.discard(damaged)
        for life in self.lives.values():
            if life.origin == damaged:
                life.origin, life.unlucky = None, True
        self.lives[here.trial].unlucky = True

    def _budget(self, event: Failed) -> None:
        """Whose retries are spent is over, and nobody before."""
        for trial in self._failing.get(event.node, ())[-1:]:
            life = self.lives[trial]
            spent = life.failures > self.policy.retries
            _require(not spent or life.phase == "over", f"trial {trial} has no retries left")

    def _over(self, trial: TrialId) -> None:
        life = self.lives[trial]
        _require(life.phase != "over", f"trial {trial} is over twice")
        life.phase = "over"

    def _retire(self, trials: tuple[TrialId, ...]) -> None:
        for trial in trials:
            phase = self.lives[trial].phase
            _require(phase == "paused", f"trial {trial} retires, but is {phase}")
            self._over(trial)

    def _out_of_service(self, node: int) -> None:
        self.serving.discard(node)
        self.leaving.discard(node)
        self._failing.pop(node, None)
        self.on.pop(node, None)

    def _command(self, command: Command, event: Event) -> None:
        if isinstance(command, Start | Hold):
            self._begins(command)
        elif isinstance(command, Train | Save | Adopt | Park):
            self._goes_on(command)
        elif isinstance(command, End):
            here = self.on.pop(command.node, None)
            mine = here is None or here.attempt == command.attempt
            _require(mine, f"{command} ends another attempt")
        elif isinstance(command, Withdraw):
            failed = self._failing.get(command.node, [])
            enough = len(failed) >= self.policy.node_failures and len(set(failed)) > 1
            _require(enough, f"node {command.node} is withdrawn after {len(failed)} failures")
            self._out_of_service(command.node)
        elif isinstance(command, Over):
            self._is_over(command, event)
        elif isinstance(command, Delete):
            self._delete(command.checkpoint)
        elif isinstance(command, SetTimer):
            _require(command.timer not in self.timers, f"timer {command.timer} is set twice")
            self.timers.add(command.timer)
        elif isinstance(command, CancelTimer):
            _require(command.timer in self.timers, f"there is no timer {command.timer}")
            self.timers.remove(command.timer)

    def _begins(self, command: Start | Hold) -> None:
        node, trial = command.node, command.trial
        _require(node in self.serving, f"{command} on a node that is not in service")
        _require(node not in self.leaving, f"{command} on a node that is leaving")
        here = self.on.get(node)
        if here is not None and here.held and here.attempt == command.attempt:
            _require(isinstance(command, Start) and here.trial == trial, f"{command} after Hold")
        else:
            _require(here is None, f"{command} on a node that is not free")
            _require(command.attempt > self.attempts, f"{command}: an old attempt number")
        elsewhere = [n for n, o in self.on.items() if o.trial == trial and n != node]
        _require(not elsewhere, f"{command}, but it is on node {elsewhere}")
        self.attempts = max(self.attempts, command.attempt)
        life = self.lives.setdefault(trial, Life())
        _require(life.phase != "over", f"{command}, but the trial is over")
        self.on[node] = Occupant(trial, command.attempt, held=isinstance(command, Hold))
        if isinstance(command, Hold):
            return
        if command.until > life.told:
            life.phase = "running"
        else:
            _require(command.until == life.told, f"{command}: told already, up to {life.told}")
        if command.source is not None:
            self._load(self.on[node], command.source)
        elif life.origin is not None:
            raise Violation(f"{command} does not go on from {life.origin}")

    def _load(self, here: Occupant, source: Checkpoint) -> None:
        self._source(source, here.trial, durable=True)
        here.loading = source
        self.lives[here.trial].origin = source

    def _source(self, source: Checkpoint, trial: TrialId, *, durable: bool) -> None:
        _require(source.trial in self.lives, f"trial {trial} takes {source} of nobody")
        _require(source not in self.deleted, f"trial {trial} takes {source}, which was deleted")
        if durable:
            _require(source in self.durable, f"trial {trial} takes {source}: not durable")

    def _goes_on(self, command: Train | Save | Adopt | Park) -> None:
        here = self.on.get(command.node)
        mine = here is not None and here.attempt == command.attempt and not here.held
        _require(mine, f"{command}, but who is there is {here}")
        assert here is not None  # noqa: S101 - as just required
        life = self.lives[here.trial]
        if isinstance(command, Save):
            right = command.checkpoint == Checkpoint(here.trial, life.told)
            _require(right, f"{command} is not of milestone {life.told}")
            _require(here.saving is None, f"{command} while {here.saving} is being saved")
            here.saving = command.checkpoint
        elif isinstance(command, Train | Adopt):
            idle = here.saving is None and life.phase == "running"
            _require(idle and command.until > life.told, f"{command} after {life}")
            if isinstance(command, Adopt):
                self._load(here, command.source)

    def _is_over(self, command: Over, event: Event) -> None:
        life = self.lives[command.trial]
        if command.fate == "lost":
            self.lost.add(command.trial)
            spent = life.failures > self.policy.retries
            _require(spent or self._may_be_hopeless(life), f"{command}: it has retries left")
        else:
            timed = isinstance(event, TimerFired) and self.policy.max_time_us is not None
            _require(timed, f"{command}, but time is not up")
        self._over(command.trial)

    def _may_be_hopeless(self, life: Life) -> bool:
        """Whether weights that it needs may be gone for good: its own, or those of a donor."""
        return life.unlucky or bool(self.lost) or any(each.unlucky for each in self.lives.values())

    def _delete(self, checkpoint: Checkpoint) -> None:
        _require(checkpoint not in self.deleted, f"{checkpoint} is deleted twice")
        users = [t for t, life in self.lives.items()
                 if life.origin == checkpoint and life.phase != "over"]  # fmt: skip
        _require(not users, f"{checkpoint} is deleted, but trials {users} go on from it")
        _require(checkpoint not in self.best(), f"{checkpoint} is deleted, but is to be kept")
        self.durable.discard(checkpoint)
        self.deleted.add(checkpoint)

    def best(self) -> set[Checkpoint]:
        """Return the checkpoints that `Policy.keep_best` keeps."""
        ranked = sorted(
            (-life.best[0], trial, life.best[1])
            for trial, life in self.lives.items()
            if life.best is not None and Checkpoint(trial, life.best[1]) in self.durable
        )
        return {Checkpoint(trial, step) for _, trial, step in ranked[: self.policy.keep_best]}


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Violation(what)
