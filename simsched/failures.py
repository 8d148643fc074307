"""What the coordinator does when workers fail, runs are interrupted, and time is up.

Rules 6 to 8 of `simsched.coordinator`.
"""

import msgspec

from simsched.events import (
    CancelTimer,
    Command,
    Delete,
    End,
    Failed,
    NodeDown,
    Over,
    Park,
    Recovered,
    SetTimer,
    Withdraw,
)
from simsched.messages import Checkpoint, Exploit, Run, TrialId
from simsched.slot import Slot, as_run, source_of
from simsched.slots import Slots

DEADLINE = "deadline"
"""Name of the timer that ends a run whose time is up."""


class Failures(Slots):
    """Failures and interruptions, on top of nodes and trials."""

    def _failed(self, event: Failed, slot: Slot, commands: list[Command]) -> None:
        member = slot.member
        member.high = max(member.high, event.reached)
        if event.spoilt and member.origin is not None:
            damaged = member.origin
            if damaged in self.shelf and self._deletes:
                commands.append(Delete(damaged))
            self.shelf.spoilt(damaged)
            if damaged.trial == slot.trial:
                member.origin, member.at = None, 0.0
            else:
                member.origin = self.shelf.newest(damaged.trial)
        self._lose(event.node, slot, commands)

    def _lose(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """A worker is gone: start the trial again after a while, or abandon it."""
        self.failures += 1
        withdraw = self._health.failed(node, slot.trial)
        commands.append(End(node, slot.attempt))
        if withdraw:
            commands.append(Withdraw(node))
        whole = self._lost_while_held(node, slot)
        self._leave(node, slot, withdraw=withdraw)
        if slot.last or whole:
            self._never_saved(slot, commands)
            return  # nothing but a checkpoint for keeping is lost
        member = slot.member
        member.failures += 1
        slot.again = slot.saving is not None
        if slot.waiting is not None:
            slot.waiting = as_run(slot.trial, slot.waiting)
        slot.parking, slot.empty = False, True
        hopeless = member.origin is None and member.mixed
        if hopeless or member.failures > self.policy.retries:
            self._abandon(slot, commands)
        else:
            self._down[slot.trial] = slot
            delay_us = self.policy.backoff(member.failures)
            commands.append(SetTimer(f"retry-{slot.trial}", delay_us))

    def _leaving_soon(self, node: int, commands: list[Command]) -> None:
        """Rule 8: have the node's trial saved as it is, while there is time."""
        if node not in self._nodes or node in self._leaving:
            return
        self._leaving.add(node)
        slot = self.slots.get(node)
        if slot is None:
            self._idle.take_out(node)
        elif self._parking or slot.parking or (slot.saving is not None and not slot.again):
            return  # it is being saved anyway
        elif node in self._kept:
            self._let_go(node, slot, commands)
        elif slot.waiting is not None or slot.empty:
            self._move_on(node, slot, commands)
        else:
            slot.parking = True
            commands.append(Park(node, slot.attempt))

    def _node_down(self, event: NodeDown, commands: list[Command]) -> None:
        """A node is gone. Its trial goes on elsewhere, from its newest durable checkpoint."""
        node = event.node
        slot = self.slots.get(node)
        self._leaving.add(node)  # so that it is not offered again
        if slot is not None:
            slot.member.high = max(slot.member.high, event.reached)
            self._move_on(node, slot, commands, end=False)
        self._idle.take_out(node)
        self._leaving.discard(node)
        self._nodes.discard(node)
        self._health.forget(node)

    def _move_on(self, node: int, slot: Slot, commands: list[Command], *, end: bool = True) -> None:
        """A trial leaves its node. `end`: the node is there, and a worker on it to be ended."""
        if end:
            commands.append(End(node, slot.attempt))
        whole = self._lost_while_held(node, slot)
        self._leave(node, slot)
        if slot.last or whole:
            self._never_saved(slot, commands)
            return  # nothing but a checkpoint for keeping is lost
        slot.again = slot.saving is not None
        if slot.waiting is not None:
            slot.waiting = as_run(slot.trial, slot.waiting)
        slot.parking, slot.empty = False, True
        if slot.member.origin is None and slot.member.mixed and slot.waiting is None:
            self._abandon(slot, commands)
            return
        self._down[slot.trial] = slot
        self._ready.append(slot.trial)

    def _without(
        self,
        node: int,
        slot: Slot,
        work: Run | Exploit,
        source: Checkpoint,
        commands: list[Command],
    ) -> None:
        """The source is lost for good: its trial's newest durable checkpoint must do."""
        instead = self.shelf.newest(source.trial)
        if instead is None:
            self._give_up(node, slot, commands)
        elif isinstance(work, Run):
            self._begin(node, slot, msgspec.structs.replace(work, source=instead), commands)
        else:
            self._begin(node, slot, msgspec.structs.replace(work, donor=instead), commands)

    def _give_up(self, node: int, slot: Slot, commands: list[Command]) -> None:
        commands.append(End(node, slot.attempt))
        self._leave(node, slot)
        self._abandon(slot, commands)

    def _abandon(self, slot: Slot, commands: list[Command]) -> None:
        retired = self.scheduler.abandon(slot.trial)
        self.abandoned += retired
        self.members.pop(slot.trial, None)
        commands.append(Over(slot.trial, "lost"))
        for trial in retired:
            self._retire(trial, commands)
        self._never_saved(slot, commands)

    def _never_saved(self, slot: Slot, commands: list[Command]) -> None:
        """Whoever waits for what a slot was to save must do without."""
        if slot.saving is not None:
            lost, slot.saving = slot.saving, None
            for trial in self._waiting_for.pop(lost, ()):
                self._wake(trial, commands)

    def _retire(self, trial: TrialId, commands: list[Command]) -> None:
        """A paused trial is over: nothing is trained again for it."""
        self.members.pop(trial, None)
        if trial in self._down:
            self._never_saved(self._down.pop(trial), commands)
            if trial in self._ready:
                self._ready.discard(trial)
            else:
                commands.append(CancelTimer(f"retry-{trial}"))
        node = self._node_of.get(trial)
        if node is not None:
            slot = self.slots[node]
            if slot.again or slot.empty or node in self._kept:
                self._kept.discard(node)
                self._free(node, slot, commands)
                self._never_saved(slot, commands)
            else:
                slot.last = slot.release = True  # the save goes on, and is not made up for

    def _clear_out(self, commands: list[Command]) -> None:
        """Have checkpoints deleted that nothing can need any more."""
        needed = {m.origin for m in self.members.values() if m.origin is not None}
        for slot in (*self.slots.values(), *self._down.values()):
            needed.update(() if slot.member.origin is None else (slot.member.origin,))
            if slot.waiting is not None:
                source = source_of(slot.waiting)
                needed.update(() if source is None else (source,))
        if self._held is not None and not (self._cut_off or self.scheduler.done()):
            needed.update(self._held())
        gone = self.shelf.clear_out(needed, keep_newest=self.policy.keep_stopped)
        commands.extend(Delete(checkpoint) for checkpoint in gone)

    def _interrupt(self, commands: list[Command]) -> None:
        """Save all that trains, and end all workers."""
        self._parking = True
        for node in sorted(self.slots):
            slot = self.slots[node]
            if node in self._kept:
                self._let_go(node, slot, commands)
                continue
            if slot.empty or slot.parking or (slot.saving is not None and not slot.again):
                continue
            if slot.waiting is not None:
                work, slot.waiting = slot.waiting, None
                self._begin(node, slot, work, commands)
            else:
                slot.parking = True
                commands.append(Park(node, slot.attempt))

    def _recover(self, event: Recovered, commands: list[Command]) -> None:
        """Start every worker anew; those of before are gone, and what they say is dropped."""
        self._parking = False
        self._clearing.clear()
        for node in sorted(self.slots):
            slot = self.slots[node]
            if node in self._leaving:
                self._move_on(node, slot, commands)
                continue
            if self._lost_while_held(node, slot):
                self._free(node, slot, commands)
                continue
            if slot.last:  # a checkpoint for keeping is not worth a phase
                self._free(node, slot, commands)
                self._never_saved(slot, commands)
                continue
            slot.again = slot.saving is not None
            if slot.waiting is not None:
                slot.waiting = as_run(slot.trial, slot.waiting)
            self._relaunch(node, slot, commands)
        for trial, slot in self._down.items():
            if slot.waiting is not None and trial not in self._ready:
                self._ready.append(trial)
            elif trial not in self._ready:
                delay_us = self.policy.backoff(slot.member.failures)
                commands.append(SetTimer(f"retry-{trial}", delay_us))
        self._time_run(event.at, commands)

    def _time_run(self, at: int, commands: list[Command]) -> None:
        """Set the deadline: when the first node comes up, and once more after a recovery."""
        self._timed = True
        if self.policy.max_time_us is not None:
            commands.append(SetTimer(DEADLINE, max(0, self.policy.max_time_us - at)))

    def _cut(self, commands: list[Command]) -> None:
        """The run's time is over: end everything as it is."""
        self._cut_off = True
        for node in sorted(self.slots):
            self._free(node, self.slots[node], commands)
        self._kept.clear()
        commands.extend(
            CancelTimer(f"retry-{trial}") for trial in self._down if trial not in self._ready
        )
        for trial, slot in self._down.items():
            if slot.attempt == 0 and slot.member.since == 0:
                del self.members[trial]  # it was to take a node over, and never began
        self._down.clear()
        self._ready.clear()
        commands.extend(Over(trial, "censored") for trial in sorted(self.members))
        self.members.clear()
