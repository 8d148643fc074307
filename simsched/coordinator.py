"""The coordinator: nodes, attempts and durable checkpoints around one scheduler.

Sans-I/O, as h11 is: `handle` takes an event and returns the commands that a world carries
out. It knows no clock, process or file. Its rules:

1. After every event each idle node, in the order of their numbers, is given work: first a
   trial that waits for its restart, then what the scheduler says (`ask`), until there is none.
2. A checkpoint is a source only when it is durable (`Saved` has come). A run or an exploit
   that needs one still being saved holds its node and waits.
3. A trial that is asked for while it is itself still being saved comes back on that node
   when the save is done: a trial is never on two nodes.
4. Each start of a worker has a new attempt number. Messages of an older attempt are dropped.
5. A diverged trial (score None) may be stopped or given a donor's weights, nothing else.
6. A worker that fails is invisible to the scheduler: after a back-off the trial goes on from
   its newest durable checkpoint. Milestones told before are not told again. When its retries
   are spent, the trial is abandoned.
7. A save that was lost is made up for: the trial trains again up to its milestone, is saved,
   and then does what the verdict had said.
8. A node that will be gone gets no more work, and its worker is told to park. What was on it
   goes on elsewhere at once, from its newest durable checkpoint; that is no failure.
9. If the policy is lazy, a trial that pauses keeps its node, and going on there is free. It is
   saved when another trial needs the node; of several the one that was held longest goes first.
10. If the policy says so, a trial that trains is saved each time a while has passed.
"""

from collections.abc import Callable
from typing import Any

from simsched.events import (
    Command,
    End,
    Ended,
    Event,
    Failed,
    Interrupted,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Park,
    Parked,
    Recovered,
    Reported,
    Save,
    Saved,
    Snapped,
    Snapshot,
    TimerFired,
    Train,
)
from simsched.failures import DEADLINE, Failures
from simsched.messages import Checkpoint, Continue, Decision, Exploit, Pause, Report, Stop
from simsched.retries import Policy
from simsched.schedulers import Scheduler
from simsched.slot import NO_POLICY, ProtocolError, Slot

__all__ = ["NO_POLICY", "Coordinator", "ProtocolError", "Slot"]

_MAY_FREE = (Saved, Parked, Failed, Snapped)
"""Events after which a checkpoint may be needed no more."""


class Coordinator(Failures):
    """Turns events into commands; see the module's rules."""

    def __init__(self, scheduler: Scheduler, policy: Policy = NO_POLICY) -> None:
        super().__init__(scheduler, policy)
        self._of_a_node: dict[type, Callable[[Any, Slot, list[Command]], None]] = {
            Reported: self._reported, Saved: self._saved, Ended: self._ended,
            Failed: self._failed, Parked: self._parked, Snapped: self._snapped,
        }  # fmt: skip

    @property
    def finished(self) -> bool:
        """Whether the search is over and every node free."""
        over = self._cut_off or (not self._down and self.scheduler.done())
        return not self.slots and over

    @property
    def parked(self) -> bool:
        """Whether an interrupted run has no worker left."""
        return self._parking and all(slot.empty for slot in self.slots.values())

    @property
    def nodes(self) -> set[int]:
        """The nodes in service."""
        return self._nodes

    def handle(self, event: Event) -> list[Command]:
        """Take one event, return what is to be done, in this order.

        Raises:
            ProtocolError: the event or the scheduler's answer breaks the rules.
        """
        commands: list[Command] = []
        self.decision = None
        self.abandoned = ()
        handler = self._of_a_node.get(type(event))
        if handler is not None:
            slot = self.slots.get(event.node)  # type: ignore[union-attr]
            if slot is None or slot.attempt != event.attempt or slot.empty:  # type: ignore[union-attr]
                return commands
            handler(event, slot, commands)
        else:
            self._of_the_run(event, commands)
        free = self._idle or self._ready or self._kept
        if free and not (self._parking or self._cut_off):
            self._fill(commands)
        if self._deletes and (isinstance(event, _MAY_FREE) or self.finished):
            self._clear_out(commands)
        return commands

    def _of_the_run(self, event: Event, commands: list[Command]) -> None:
        if isinstance(event, NodeUp):
            if event.node in self._nodes:
                raise ProtocolError(f"node {event.node} came up twice")
            if not self._timed:
                self._time_run(event.at, commands)
            self._add_node(event.node)
        elif isinstance(event, NodeLeaving):
            self._leaving_soon(event.node, commands)
        elif isinstance(event, NodeDown):
            self._node_down(event, commands)
        elif isinstance(event, TimerFired):
            if event.timer == DEADLINE:
                self._cut(commands)
            elif event.timer.startswith("save-"):
                self._snapshot_is_due(event.timer, commands)
            else:
                trial = int(event.timer.removeprefix("retry-"))
                if trial in self._down:
                    self._ready.append(trial)
        elif isinstance(event, Interrupted):
            self._interrupt(commands)
        elif isinstance(event, Recovered):
            self._recover(event, commands)

    def _reported(self, event: Reported, slot: Slot, commands: list[Command]) -> None:
        target = slot.saving.step if slot.again and slot.saving is not None else slot.until
        if event.step != target or (slot.saving and not slot.again) or slot.waiting:
            raise ProtocolError(f"trial {slot.trial} reports {event.step}, not {target}")
        self._health.well(event.node)
        if slot.again:
            self._made_up_for(event, slot, commands)
            return
        member = slot.member
        member.since, member.reached = event.step, event.reached
        if event.reached > member.high:
            member.high = event.reached
        decision = self.scheduler.tell(Report(slot.trial, event.step, event.score))
        self.decision = decision
        if self._deletes and event.score is not None:
            self.shelf.scored(slot.trial, event.step, event.score)
        self._obey(event, slot, decision, commands)
        for trial in decision.retired:
            self._retire(trial, commands)

    def _obey(
        self, event: Reported, slot: Slot, decision: Decision, commands: list[Command]
    ) -> None:
        verdict, node = decision.verdict, event.node
        if event.score is None and (
            isinstance(verdict, Continue) or (isinstance(verdict, Pause) and verdict.save)
        ):
            raise ProtocolError(f"trial {slot.trial} diverged and was told to {verdict}")
        if isinstance(verdict, Stop):
            del self.members[slot.trial]
            if self._saves_last and event.score is not None:
                slot.last = True
                self._save(node, slot, commands, release=True)
            else:
                self._free(node, slot, commands)
        elif isinstance(verdict, Pause) and not verdict.save:
            self._free(node, slot, commands)
        elif isinstance(verdict, Pause) and self._holds(node, slot):
            if self._saves_each_milestone:
                slot.held = True  # it keeps its node once it is saved
                self._save(node, slot, commands, release=False)
            else:
                self._hold(node, slot, commands)
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
                self._train(node, slot, commands)

    def _holds(self, node: int, slot: Slot) -> bool:
        """Whether a trial that pauses keeps its node for now (rule 9)."""
        staying = not (self._parking or slot.parking or node in self._leaving)
        return self.policy.lazy and staying

    def _train(self, node: int, slot: Slot, commands: list[Command]) -> None:
        if not (self._parking or slot.parking):
            commands.append(Train(node, slot.attempt, slot.until))
        elif not slot.parking:
            slot.parking = True
            commands.append(Park(node, slot.attempt))

    def _save(self, node: int, slot: Slot, commands: list[Command], *, release: bool) -> None:
        slot.saving = Checkpoint(slot.trial, slot.until)
        slot.release = release
        self._order_save(node, slot, commands)

    def _order_save(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """Have `slot.saving` saved; a worker that is parking saves anyway, and that will do."""
        if slot.saving is not None and not slot.parking:
            commands.append(Save(node, slot.attempt, slot.saving))
        elif slot.saving is not None:
            slot.again = True

    def _made_up_for(self, event: Reported, slot: Slot, commands: list[Command]) -> None:
        """A lost save can be made now, unless the trial has diverged on its second way there."""
        if event.score is None:
            self._lose(event.node, slot, commands)
            return
        slot.again = False
        self._order_save(event.node, slot, commands)

    def _saved(self, event: Saved, slot: Slot, commands: list[Command]) -> None:
        node = event.node
        if slot.saving is None or slot.again:
            raise ProtocolError(f"node {node} saved what nobody asked for")
        self._health.well(node)
        checkpoint, slot.saving = slot.saving, None
        self.shelf.add(checkpoint)
        slot.member.origin, slot.member.at = checkpoint, slot.member.reached
        if slot.held and not slot.release:
            if self._holds(node, slot):
                self._hold(node, slot, commands)
            else:
                self._free(node, slot, commands)
        elif not slot.release:
            if self._parking:
                commands.append(End(node, slot.attempt))
                slot.empty = True
            elif node in self._leaving:
                self._move_on(node, slot, commands)
            else:
                commands.append(Train(node, slot.attempt, slot.until))
        elif slot.bound is None:
            self._free(node, slot, commands)
        elif node in self._leaving:
            slot.waiting, slot.until = slot.bound, slot.bound.until
            slot.bound, slot.release = None, False
            self._move_on(node, slot, commands)
        else:
            commands.append(End(node, slot.attempt))
            self._clearing.discard(node)
            self._assign(node, slot.bound, commands)
        for trial in self._waiting_for.pop(checkpoint, ()):
            self._wake(trial, commands)

    def _ended(self, event: Ended, slot: Slot, commands: list[Command]) -> None:
        self.abandoned = self.scheduler.abandon(slot.trial)
        self.members.pop(slot.trial, None)
        self._free(event.node, slot, commands)
        self._never_saved(slot, commands)
        for trial in self.abandoned:
            self._retire(trial, commands)

    def _snapshot_is_due(self, timer: str, commands: list[Command]) -> None:
        node, attempt = map(int, timer.removeprefix("save-").split("-"))
        slot = self.slots.get(node)
        if slot is None or slot.attempt != attempt or slot.empty or slot.parking:
            return
        if slot.held or slot.saving is not None or slot.waiting is not None:
            self._time_save(node, slot, commands)  # there is nothing new to save
        else:
            slot.snapping = True
            commands.append(Snapshot(node, attempt))

    def _snapped(self, event: Snapped, slot: Slot, commands: list[Command]) -> None:
        if not slot.snapping:
            raise ProtocolError(f"node {event.node} snapped what nobody asked for")
        slot.snapping = False
        member = slot.member
        member.high = max(member.high, event.reached)
        if event.step >= 0:
            self._health.well(event.node)
            member.origin, member.at = Checkpoint(slot.trial, event.step), event.reached
            self.shelf.add(member.origin)
        self._time_save(event.node, slot, commands)

    def _parked(self, event: Parked, slot: Slot, commands: list[Command]) -> None:
        if not slot.parking:
            raise ProtocolError(f"node {event.node} parked what nobody asked for")
        member = slot.member
        member.high = max(member.high, event.reached)
        if event.step >= 0:
            member.origin, member.at = Checkpoint(slot.trial, event.step), event.reached
            self.shelf.add(member.origin)
        if slot.last:  # it was stopped at the milestone that it reached meanwhile
            self._free(event.node, slot, commands)
            self._never_saved(slot, commands)
            return
        if not self._parking:
            self._move_on(event.node, slot, commands)
            return
        commands.append(End(event.node, slot.attempt))
        slot.empty = True
