"""What must hold after every event of a run, whatever fails.

`Books` follows the events and answers that a journal holds, as a model of its own: who is
where, what is durable, who failed how often. It refuses an answer that breaks a rule. Made
again from a journal it says whether a run that was recorded kept the rules.
"""

from simsched.events import (
    Adopt,
    CancelTimer,
    Command,
    Delete,
    End,
    Event,
    Failed,
    Hold,
    Keep,
    Over,
    Park,
    Reported,
    Save,
    SetTimer,
    Snapshot,
    Start,
    TimerFired,
    Train,
    Withdraw,
)
from simsched.messages import Checkpoint, Decision, TrialId
from simsched.testing.invariants_model import Life, Model, Occupant, Violation, require

__all__ = ["Books", "Violation"]


class Books(Model):
    """The model of a run, and the rules for the commands that answer its events."""

    def observe(
        self,
        event: Event,
        decision: Decision | None,
        abandoned: tuple[TrialId, ...],
        commands: list[Command],
    ) -> None:
        """Take in one record. Raises Violation."""
        require(event.at >= self.at, f"time runs back from {self.at}")
        self.at = event.at
        if self.is_stale(event):
            silent = decision is None and not abandoned and not commands
            require(silent, "a message of an older attempt is answered")
            return
        self._event(event, decision)
        if decision is not None:
            require(isinstance(event, Reported), "a decision, but no report")
            self._retire(decision.retired)
        self._retire(abandoned)
        for command in commands:
            self._command(command, event)
        if isinstance(event, Failed):
            self._budget(event)

    def _command(self, command: Command, event: Event) -> None:
        if isinstance(command, Start | Hold):
            self._begins(command)
        elif isinstance(command, Train | Save | Adopt | Park | Keep | Snapshot):
            self._goes_on(command)
        elif isinstance(command, End):
            here = self.on.pop(command.node, None)
            mine = here is None or here.attempt == command.attempt
            require(mine, f"{command} ends another attempt")
        elif isinstance(command, Withdraw):
            failed = self._failing.get(command.node, [])
            enough = len(failed) >= self.policy.node_failures and len(set(failed)) > 1
            require(enough, f"node {command.node} is withdrawn after {len(failed)} failures")
            self._out_of_service(command.node)
        elif isinstance(command, Over):
            self._is_over(command, event)
        elif isinstance(command, Delete):
            self._delete(command.checkpoint)
        elif isinstance(command, SetTimer):
            require(command.timer not in self.timers, f"timer {command.timer} is set twice")
            self.timers.add(command.timer)
        elif isinstance(command, CancelTimer):
            self.timers.discard(command.timer)  # who waits for a source has none; it does no harm

    def _begins(self, command: Start | Hold) -> None:
        node, trial = command.node, command.trial
        require(node in self.serving, f"{command} on a node that is not in service")
        require(node not in self.leaving, f"{command} on a node that is leaving")
        here = self.on.get(node)
        if here is not None and here.held and here.attempt == command.attempt:
            require(here.trial == trial, f"{command} after Hold")
        else:
            require(here is None, f"{command} on a node that is not free")
            require(command.attempt > self.attempts, f"{command}: an old attempt number")
        elsewhere = [n for n, o in self.on.items() if o.trial == trial and n != node]
        require(not elsewhere, f"{command}, but it is on node {elsewhere}")
        self.attempts = max(self.attempts, command.attempt)
        life = self.lives.setdefault(trial, Life())
        require(life.phase != "over", f"{command}, but the trial is over")
        self.on[node] = Occupant(trial, command.attempt, held=isinstance(command, Hold))
        if isinstance(command, Hold):
            return
        if command.until > life.told:
            life.phase = "running"
        else:
            require(command.until == life.told, f"{command}: told already, up to {life.told}")
        if command.source is not None:
            self._load(self.on[node], command.source)
        elif life.origin is not None:
            raise Violation(f"{command} does not go on from {life.origin}")

    def _load(self, here: Occupant, source: Checkpoint) -> None:
        self._source(source, here.trial, durable=True)
        here.loading = source
        self.lives[here.trial].origin = source

    def _goes_on(self, command: Train | Save | Adopt | Park | Keep | Snapshot) -> None:
        here = self.on.get(command.node)
        mine = here is not None and here.attempt == command.attempt and not here.held
        require(mine, f"{command}, but who is there is {here}")
        assert here is not None  # noqa: S101 - as just required
        life = self.lives[here.trial]
        if isinstance(command, Save):
            right = command.checkpoint == Checkpoint(here.trial, life.told)
            require(right, f"{command} is not of milestone {life.told}")
            require(here.saving is None, f"{command} while {here.saving} is being saved")
            here.saving = command.checkpoint
        elif isinstance(command, Keep):
            idle = here.saving is None and life.phase == "paused" and self.policy.lazy
            require(idle, f"{command} after {life}")
        elif isinstance(command, Train | Adopt):
            if self.policy.lazy and life.phase == "paused" and isinstance(command, Train):
                life.phase = "running"  # it goes on in place
            idle = here.saving is None and life.phase == "running"
            require(idle and command.until > life.told, f"{command} after {life}")
            if isinstance(command, Adopt):
                self._load(here, command.source)

    def _is_over(self, command: Over, event: Event) -> None:
        life = self.lives[command.trial]
        if command.fate == "lost":
            self.lost.add(command.trial)
            spent = life.failures > self.policy.retries
            require(spent or self._may_be_hopeless(life), f"{command}: it has retries left")
        else:
            timed = isinstance(event, TimerFired) and self.policy.max_time_us is not None
            require(timed, f"{command}, but time is not up")
        self._over(command.trial)

    def _may_be_hopeless(self, life: Life) -> bool:
        """Whether weights that it needs may be gone for good: its own, or those of a donor."""
        return life.unlucky or bool(self.lost) or any(each.unlucky for each in self.lives.values())

    def _delete(self, checkpoint: Checkpoint) -> None:
        require(checkpoint not in self.deleted, f"{checkpoint} is deleted twice")
        users = [t for t, life in self.lives.items()
                 if life.origin == checkpoint and life.phase != "over"]  # fmt: skip
        require(not users, f"{checkpoint} is deleted, but trials {users} go on from it")
        require(checkpoint not in self.best(), f"{checkpoint} is deleted, but is to be kept")
        self.durable.discard(checkpoint)
        self.deleted.add(checkpoint)
