"""The coordinator: nodes, attempts and durable checkpoints around one scheduler.

Sans-I/O, as h11 is: `handle` takes an event and returns the commands that a world carries
out. It knows no clock, process or file. Its rules:

1. After every event each idle node, in the order of their numbers, is offered to the
   scheduler (`ask`), until it has nothing to run.
2. A checkpoint is a source only when it is durable (`Saved` has come). A run or an exploit
   that needs one still being saved holds its node and waits.
3. A trial that is asked for while it is itself still being saved comes back on that node
   when the save is done: a trial is never on two nodes.
4. Each start of a worker has a new attempt number. Messages of an older attempt are dropped.
5. A diverged trial (score None) may be stopped or given a donor's weights, nothing else.
"""

import heapq
from collections import defaultdict

import msgspec

from simsched.events import (
    Adopt,
    Command,
    End,
    Ended,
    Event,
    Hold,
    NodeUp,
    Reported,
    Save,
    Saved,
    Start,
    Train,
)
from simsched.messages import (
    Checkpoint,
    Continue,
    Decision,
    Exploit,
    Pause,
    Report,
    Run,
    Stop,
    TrialId,
)
from simsched.schedulers import Scheduler


class ProtocolError(RuntimeError):
    """A world or a scheduler broke the rules: a bug, never a user's mistake."""


class Slot(msgspec.Struct, gc=False):
    """What the coordinator knows of a busy node."""

    attempt: int
    trial: TrialId
    until: int
    """The milestone that is awaited."""
    saving: Checkpoint | None = None
    release: bool = False
    """The node is given away when the save is done."""
    bound: Run | None = None
    """Who starts here when the save is done (rule 3)."""
    waiting: Run | Exploit | None = None
    """What begins here when its source is durable (rule 2)."""


class Coordinator:
    """Turns events into commands; see the module's rules."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.slots: dict[int, Slot] = {}
        self.decision: Decision | None = None
        """The scheduler's answer to the newest event, if that was a report."""
        self.abandoned: tuple[TrialId, ...] = ()
        """Who retired through the newest event, if that was the end of a trial."""
        self._idle: list[int] = []
        self._attempts = 0
        self._saves_each_milestone = scheduler.checkpoints == "milestone"
        self._durable: set[Checkpoint] = set()
        self._node_of: dict[TrialId, int] = {}
        self._waiting_for: dict[Checkpoint, list[int]] = defaultdict(list)
        self._nodes: set[int] = set()

    @property
    def finished(self) -> bool:
        """Whether the search is over and every node free."""
        return not self.slots and self.scheduler.done()

    def handle(self, event: Event) -> list[Command]:
        """Take one event, return what is to be done, in this order.

        Raises:
            ProtocolError: the event or the scheduler's answer breaks the rules.
        """
        commands: list[Command] = []
        self.decision = None
        self.abandoned = ()
        if isinstance(event, NodeUp):
            if event.node in self._nodes:
                raise ProtocolError(f"node {event.node} came up twice")
            self._nodes.add(event.node)
            heapq.heappush(self._idle, event.node)
        else:
            slot = self.slots.get(event.node)
            if slot is None or slot.attempt != event.attempt:
                return commands
            if isinstance(event, Reported):
                self._reported(event, slot, commands)
            elif isinstance(event, Saved):
                self._saved(event.node, slot, commands)
            else:
                self._ended(event, slot, commands)
        if self._idle:
            self._fill(commands)
        return commands

    def _reported(self, event: Reported, slot: Slot, commands: list[Command]) -> None:
        if event.step != slot.until or slot.saving or slot.waiting:
            raise ProtocolError(f"trial {slot.trial} reports {event.step}, not {slot.until}")
        decision = self.scheduler.tell(Report(slot.trial, event.step, event.score))
        self.decision = decision
        verdict, node = decision.verdict, event.node
        if event.score is None and (
            isinstance(verdict, Continue) or (isinstance(verdict, Pause) and verdict.save)
        ):
            raise ProtocolError(f"trial {slot.trial} diverged and was told to {verdict}")
        if isinstance(verdict, Stop) or (isinstance(verdict, Pause) and not verdict.save):
            self._free(node, slot, commands)
        elif isinstance(verdict, Pause):
            self._save(node, slot, commands, release=True)
        else:
            if verdict.until <= slot.until:
                raise ProtocolError(f"trial {slot.trial}: milestone {verdict.until} is not ahead")
            if isinstance(verdict, Exploit):
                slot.until = verdict.until
                self._begin(node, slot, verdict, commands)
            elif self._saves_each_milestone:
                self._save(node, slot, commands, release=False)
                slot.until = verdict.until
            else:
                slot.until = verdict.until
                commands.append(Train(node, slot.attempt, verdict.until))

    def _save(self, node: int, slot: Slot, commands: list[Command], *, release: bool) -> None:
        slot.saving = Checkpoint(slot.trial, slot.until)
        slot.release = release
        commands.append(Save(node, slot.attempt, slot.saving))

    def _saved(self, node: int, slot: Slot, commands: list[Command]) -> None:
        if slot.saving is None:
            raise ProtocolError(f"node {node} saved what nobody asked for")
        checkpoint, slot.saving = slot.saving, None
        self._durable.add(checkpoint)
        if not slot.release:
            commands.append(Train(node, slot.attempt, slot.until))
        elif slot.bound is None:
            self._free(node, slot, commands)
        else:
            commands.append(End(node, slot.attempt))
            self._assign(node, slot.bound, commands)
        for other in self._waiting_for.pop(checkpoint, ()):
            waiting = self.slots[other].waiting
            if waiting is not None:
                self.slots[other].waiting = None
                self._begin(other, self.slots[other], waiting, commands)

    def _ended(self, event: Ended, slot: Slot, commands: list[Command]) -> None:
        self.abandoned = self.scheduler.abandon(slot.trial)
        self._free(event.node, slot, commands)

    def _free(self, node: int, slot: Slot, commands: list[Command]) -> None:
        commands.append(End(node, slot.attempt))
        del self.slots[node], self._node_of[slot.trial]
        heapq.heappush(self._idle, node)

    def _fill(self, commands: list[Command]) -> None:
        while self._idle:
            run = self.scheduler.ask()
            if run is None:
                return
            on = self._node_of.get(run.trial)
            if on is None:
                self._assign(heapq.heappop(self._idle), run, commands)
            elif self.slots[on].release and self.slots[on].bound is None:
                self.slots[on].bound = run
            else:
                raise ProtocolError(f"trial {run.trial} is to run, but is on node {on} already")

    def _assign(self, node: int, run: Run, commands: list[Command]) -> None:
        self._attempts += 1
        slot = self.slots[node] = Slot(self._attempts, run.trial, run.until)
        self._node_of[run.trial] = node
        self._begin(node, slot, run, commands)

    def _begin(self, node: int, slot: Slot, work: Run | Exploit, commands: list[Command]) -> None:
        """Start a run or an exploit now if its source is durable, else let it wait."""
        source = work.source if isinstance(work, Run) else work.donor
        if source is not None and source not in self._durable:
            slot.waiting = work
            self._waiting_for[source].append(node)
            if isinstance(work, Run):
                commands.append(Hold(node, slot.attempt, work.trial))
        elif isinstance(work, Run):
            commands.append(Start(node, slot.attempt, work.trial, work.hparams, work.until, source))
        elif source is not None:
            commands.append(Adopt(node, slot.attempt, source, work.hparams, work.until))
