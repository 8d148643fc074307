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
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

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
    Interrupted,
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
from simsched.retries import Health, Member, Policy
from simsched.schedulers import Scheduler
from simsched.shelf import Shelf

DEADLINE = "deadline"
NO_POLICY = Policy()


class ProtocolError(RuntimeError):
    """A world or a scheduler broke the rules: a bug, never a user's mistake."""


class Slot(msgspec.Struct, gc=False):
    """What the coordinator knows of a busy node, or of a trial that waits for its restart."""

    attempt: int
    trial: TrialId
    until: int
    """The milestone that is awaited."""
    member: Member
    saving: Checkpoint | None = None
    release: bool = False
    """The node is given away when the save is done."""
    last: bool = False
    """The trial is over; this save is for keeping."""
    again: bool = False
    """A save was lost: the worker trains up to `saving.step` once more."""
    bound: Run | None = None
    """Who starts here when the save is done (rule 3)."""
    waiting: Run | Exploit | None = None
    """What begins here when its source is durable (rule 2)."""
    parking: bool = False
    """The worker was told to save and end."""
    empty: bool = False
    """There is no worker: it was parked, or waits for its source."""


class Coordinator:
    """Turns events into commands; see the module's rules."""

    def __init__(self, scheduler: Scheduler, policy: Policy = NO_POLICY) -> None:
        self.scheduler = scheduler
        self.policy = policy
        self.slots: dict[int, Slot] = {}
        self.decision: Decision | None = None
        """The scheduler's answer to the newest event, if that was a report."""
        self.abandoned: tuple[TrialId, ...] = ()
        """Who retired through the newest event, if that was the end of a trial."""
        self.shelf = Shelf(policy.keep_best)
        self.members: dict[TrialId, Member] = {}
        """Trials that have started and are not over."""
        self.failures = 0
        self._idle: list[int] = []
        self._attempts = 0
        self._saves_each_milestone = "milestone" in (scheduler.checkpoints, policy.save_at)
        self._saves_last = policy.save_at == "milestone"
        self._node_of: dict[TrialId, int] = {}
        self._waiting_for: dict[Checkpoint, list[TrialId]] = defaultdict(list)
        self._nodes: set[int] = set()
        self._health = Health(policy.node_failures)
        self._down: dict[TrialId, Slot] = {}
        """Trials that wait for their restart."""
        self._ready: deque[TrialId] = deque()
        """Those of them whose back-off is over."""
        self._parking = self._cut_off = False
        self._held = getattr(scheduler, "held", None)
        self._deletes = policy.delete and (
            self._held is not None or scheduler.checkpoints != "milestone"
        )
        self._of_a_node: dict[type, Callable[[Any, Slot, list[Command]], None]] = {
            Reported: self._reported, Saved: self._saved, Ended: self._ended,
            Failed: self._failed, Parked: self._parked,
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
        if (self._idle or self._ready) and not (self._parking or self._cut_off):
            self._fill(commands)
        if self._deletes and isinstance(event, Saved | Parked | Failed):
            self._clear_out(commands)
        return commands

    def _of_the_run(self, event: Event, commands: list[Command]) -> None:
        if isinstance(event, NodeUp):
            if event.node in self._nodes:
                raise ProtocolError(f"node {event.node} came up twice")
            if not self._nodes and self.policy.max_time_us is not None and not self._attempts:
                commands.append(SetTimer(DEADLINE, max(0, self.policy.max_time_us - event.at)))
            self._nodes.add(event.node)
            self._health.forget(event.node)
            heapq.heappush(self._idle, event.node)
        elif isinstance(event, TimerFired):
            if event.timer == DEADLINE:
                self._cut(commands)
            else:
                trial = int(event.timer.removeprefix("retry-"))
                if trial in self._down and trial not in self._ready:
                    self._ready.append(trial)
        elif isinstance(event, Interrupted):
            self._interrupt(commands)
        elif isinstance(event, Recovered):
            self._recover(event, commands)

    # What workers say.

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

    def _train(self, node: int, slot: Slot, commands: list[Command]) -> None:
        if not self._parking:
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
        if not slot.release:
            if self._parking:
                commands.append(End(node, slot.attempt))
                slot.empty = True
            else:
                commands.append(Train(node, slot.attempt, slot.until))
        elif slot.bound is None:
            self._free(node, slot, commands)
        else:
            commands.append(End(node, slot.attempt))
            self._assign(node, slot.bound, commands)
        for trial in self._waiting_for.pop(checkpoint, ()):
            self._wake(trial, commands)

    def _ended(self, event: Ended, slot: Slot, commands: list[Command]) -> None:
        self.abandoned = self.scheduler.abandon(slot.trial)
        self.members.pop(slot.trial, None)
        self._free(event.node, slot, commands)

    def _failed(self, event: Failed, slot: Slot, commands: list[Command]) -> None:
        member = slot.member
        member.high = max(member.high, event.reached)
        if event.spoilt and member.origin is not None:
            self.shelf.spoilt(member.origin)
            if self._deletes:
                commands.append(Delete(member.origin))
            member.origin, member.at = None, 0.0
        self._lose(event.node, slot, commands)

    def _parked(self, event: Parked, slot: Slot, commands: list[Command]) -> None:
        if not slot.parking:
            raise ProtocolError(f"node {event.node} parked what nobody asked for")
        member = slot.member
        member.high = max(member.high, event.reached)
        if event.step >= 0:
            member.origin, member.at = Checkpoint(slot.trial, event.step), event.reached
            self.shelf.add(member.origin)
        commands.append(End(event.node, slot.attempt))
        slot.empty = True

    # Nodes and attempts.

    def _free(self, node: int, slot: Slot, commands: list[Command]) -> None:
        commands.append(End(node, slot.attempt))
        del self.slots[node], self._node_of[slot.trial]
        heapq.heappush(self._idle, node)

    def _fill(self, commands: list[Command]) -> None:
        while self._idle:
            if self._ready:
                slot = self._down.pop(self._ready.popleft())
                self._relaunch(heapq.heappop(self._idle), slot, commands)
                continue
            run = self.scheduler.ask()
            if run is None:
                return
            on = self._node_of.get(run.trial)
            saved = self._down.get(run.trial) if on is None else self.slots[on]
            if saved is None:
                self._assign(heapq.heappop(self._idle), run, commands)
            elif saved.release and saved.bound is None:
                saved.bound = run
            else:
                raise ProtocolError(f"trial {run.trial} is to run, but is on node {on} already")

    def _assign(self, node: int, run: Run, commands: list[Command]) -> None:
        member = self.members.get(run.trial)
        if member is None:
            member = self.members[run.trial] = Member(run.hparams)
        self._attempts += 1
        slot = self.slots[node] = Slot(self._attempts, run.trial, run.until, member)
        self._node_of[run.trial] = node
        self._begin(node, slot, run, commands)

    def _begin(self, node: int, slot: Slot, work: Run | Exploit, commands: list[Command]) -> None:
        """Start a run or an exploit now if its source is durable, else let it wait."""
        source = work.source if isinstance(work, Run) else work.donor
        if source is not None and (self._parking or source not in self.shelf):
            self._wait(node, slot, work, source, commands)
            return
        member = slot.member
        if source is not None:
            if source.trial != slot.trial:
                member.mixed = True
                member.at = member.reached
            member.origin = source
            member.hparams = work.hparams
        if isinstance(work, Run):
            slot.empty = False
            commands.append(self._start(node, slot, work.until))
        elif source is not None:
            commands.append(Adopt(node, slot.attempt, source, work.hparams, work.until))

    def _start(self, node: int, slot: Slot, until: int) -> Start:
        member = slot.member
        return Start(
            node, slot.attempt, slot.trial, member.hparams, until, member.origin,
            0 if slot.again else member.since,
            member.at,
            member.high if member.high > member.at else 0.0,
        )  # fmt: skip

    def _wait(
        self, node: int, slot: Slot, work: Run | Exploit, source: Checkpoint, commands: list[Command]
    ) -> None:
        """Let work wait until its source is durable, or the interrupted run goes on."""
        if source not in self.shelf:
            if not self._is_being_saved(source):
                self._without(node, slot, work, source, commands)
                return
            self._waiting_for[source].append(slot.trial)
        if isinstance(work, Exploit) and self._parking:
            commands.append(End(node, slot.attempt))
            self._attempts += 1
            slot.attempt = self._attempts
        slot.waiting = work
        if isinstance(work, Exploit) and not self._parking:
            return
        slot.waiting = _as_run(slot.trial, work)
        slot.empty = True
        commands.append(Hold(node, slot.attempt, slot.trial))

    def _is_being_saved(self, checkpoint: Checkpoint) -> bool:
        return any(
            slot.saving == checkpoint for slot in (*self.slots.values(), *self._down.values())
        )

    def _without(
        self, node: int, slot: Slot, work: Run | Exploit, source: Checkpoint, commands: list[Command]
    ) -> None:
        """The source is lost for good: its trial's newest durable checkpoint must do."""
        instead = self.shelf.newest(source.trial)
        if instead is None:
            if not slot.empty:
                commands.append(End(node, slot.attempt))
            self._leave(node, slot)
            self._abandon(slot, commands)
        elif isinstance(work, Run):
            self._begin(node, slot, msgspec.structs.replace(work, source=instead), commands)
        else:
            self._begin(node, slot, msgspec.structs.replace(work, donor=instead), commands)

    def _wake(self, trial: TrialId, commands: list[Command]) -> None:
        """What the trial waits for is durable, or never will be."""
        node = self._node_of.get(trial)
        if node is None:
            return  # it waits for its restart, and looks then
        slot = self.slots[node]
        if slot.waiting is not None:
            work, slot.waiting = slot.waiting, None
            self._begin(node, slot, work, commands)

    def _leave(self, node: int, slot: Slot, *, withdraw: bool = False) -> None:
        del self.slots[node], self._node_of[slot.trial]
        if withdraw:
            self._nodes.discard(node)
            self._health.forget(node)
        else:
            heapq.heappush(self._idle, node)

    # Failures.

    def _lose(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """A worker is gone: start the trial again after a while, or abandon it."""
        self.failures += 1
        withdraw = self._health.failed(node, slot.trial)
        commands.append(End(node, slot.attempt))
        if withdraw:
            commands.append(Withdraw(node))
        self._leave(node, slot, withdraw=withdraw)
        member = slot.member
        member.failures += 1
        if slot.last:
            return  # the trial is over; only its last checkpoint is lost
        slot.again = slot.saving is not None
        if slot.waiting is not None:
            slot.waiting = _as_run(slot.trial, slot.waiting)
        slot.parking, slot.empty = False, True
        hopeless = member.origin is None and member.mixed
        if hopeless or member.failures > self.policy.retries:
            self._abandon(slot, commands)
        else:
            self._down[slot.trial] = slot
            delay_us = self.policy.backoff(member.failures)
            commands.append(SetTimer(f"retry-{slot.trial}", delay_us))

    def _abandon(self, slot: Slot, commands: list[Command]) -> None:
        retired = self.scheduler.abandon(slot.trial)
        self.abandoned += retired
        self.members.pop(slot.trial, None)
        commands.append(Over(slot.trial, "lost"))
        for trial in retired:
            self._retire(trial, commands)
        if slot.saving is not None:
            for trial in self._waiting_for.pop(slot.saving, ()):
                self._wake(trial, commands)

    def _retire(self, trial: TrialId, commands: list[Command]) -> None:
        """A paused trial is over: nothing is trained again for it."""
        self.members.pop(trial, None)
        if trial in self._down:
            del self._down[trial]
            if trial in self._ready:
                self._ready.remove(trial)
            else:
                commands.append(CancelTimer(f"retry-{trial}"))
        node = self._node_of.get(trial)
        if node is not None and self.slots[node].again:
            self._free(node, self.slots[node], commands)

    def _relaunch(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """Start a trial's worker again from where its newest durable state is."""
        self._attempts += 1
        slot.attempt = self._attempts
        slot.parking = slot.empty = False
        self.slots[node] = slot
        self._node_of[slot.trial] = node
        if slot.waiting is not None:
            work, slot.waiting = slot.waiting, None
            self._begin(node, slot, work, commands)
            return
        until = slot.saving.step if slot.again and slot.saving is not None else slot.until
        commands.append(self._start(node, slot, until))

    # The whole run.

    def _interrupt(self, commands: list[Command]) -> None:
        """Save all that trains, and end all workers."""
        self._parking = True
        for node in sorted(self.slots):
            slot = self.slots[node]
            if slot.empty or (slot.saving is not None and not slot.again):
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
        for node in sorted(self.slots):
            slot = self.slots[node]
            if slot.last and not slot.empty:  # a checkpoint for keeping is not worth a phase
                self._free(node, slot, commands)
                continue
            slot.again = slot.saving is not None
            if slot.waiting is not None:
                slot.waiting = _as_run(slot.trial, slot.waiting)
            self._relaunch(node, slot, commands)
        for trial, slot in self._down.items():
            if trial not in self._ready:
                delay_us = self.policy.backoff(slot.member.failures)
                commands.append(SetTimer(f"retry-{trial}", delay_us))
        if self.policy.max_time_us is not None:
            commands.append(SetTimer(DEADLINE, max(0, self.policy.max_time_us - event.at)))

    def _cut(self, commands: list[Command]) -> None:
        """The run's time is over: end everything as it is."""
        self._cut_off = True
        for node in sorted(self.slots):
            self._free(node, self.slots[node], commands)
        commands.extend(
            CancelTimer(f"retry-{trial}") for trial in self._down if trial not in self._ready
        )
        self._down.clear()
        self._ready.clear()
        commands.extend(Over(trial, "censored") for trial in sorted(self.members))
        self.members.clear()

    def _clear_out(self, commands: list[Command]) -> None:
        """Have checkpoints deleted that nothing can need any more."""
        needed = {m.origin for m in self.members.values() if m.origin is not None}
        for slot in (*self.slots.values(), *self._down.values()):
            if slot.waiting is not None:
                source = _source_of(slot.waiting)
                needed.update(() if source is None else (source,))
        if self._held is not None:
            needed.update(self._held())
        gone = self.shelf.clear_out(needed, keep_newest=self.policy.keep_stopped)
        commands.extend(Delete(checkpoint) for checkpoint in gone)


def _as_run(trial: TrialId, work: Run | Exploit) -> Run:
    if isinstance(work, Run):
        return work
    return Run(trial, work.hparams, work.until, work.donor)


def _source_of(work: Run | Exploit) -> Checkpoint | None:
    return work.source if isinstance(work, Run) else work.donor
