"""The coordinator's nodes: who is on which, in which attempt, and what begins there when.

The rules are those of `simsched.coordinator`; this part keeps the first four of them.
"""

from collections import defaultdict

from simsched.events import Adopt, Command, End, Hold, Keep, Save, SetTimer, Start, Train
from simsched.messages import Checkpoint, Decision, Exploit, Run, TrialId
from simsched.retries import Health, Member, Policy
from simsched.schedulers import Scheduler
from simsched.shelf import Shelf
from simsched.slot import NO_POLICY, ProtocolError, Slot, as_run, source_of
from simsched.waiting import IdleNodes, Line


class Slots:
    """What the coordinator knows of nodes and trials, and how work begins and ends on them."""

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
        self._idle = IdleNodes()
        self._attempts = 0
        self._saves_each_milestone = "milestone" in (scheduler.checkpoints, policy.save_at)
        self._saves_last = policy.save_at == "milestone"
        self._node_of: dict[TrialId, int] = {}
        self._waiting_for: dict[Checkpoint, list[TrialId]] = defaultdict(list)
        self._nodes: set[int] = set()
        self._leaving: set[int] = set()
        """Those of them that will be gone soon."""
        self._health = Health(policy.node_failures)
        self._kept = Line[int]()
        """Nodes whose trials are held there, the longest held first."""
        self._clearing: set[int] = set()
        """Nodes whose held trials are being saved, so that others can begin there."""
        self._down: dict[TrialId, Slot] = {}
        """Trials that wait for their restart."""
        self._ready = Line[TrialId]()
        """Those of them whose back-off is over."""
        self._parking = self._cut_off = self._timed = False
        self._held = getattr(scheduler, "held", None)
        self._deletes = policy.delete and (
            self._held is not None or scheduler.checkpoints != "milestone"
        )

    def _add_node(self, node: int) -> None:
        self._nodes.add(node)
        self._health.forget(node)
        self._idle.push(node)

    def _free(self, node: int, slot: Slot, commands: list[Command]) -> None:
        commands.append(End(node, slot.attempt))
        del self.slots[node], self._node_of[slot.trial]
        self._offer(node)

    def _offer(self, node: int) -> None:
        """A node has nothing to do; it gets no more work if it is leaving."""
        self._clearing.discard(node)
        if node not in self._leaving:
            self._idle.push(node)

    def _fill(self, commands: list[Command]) -> None:
        while True:
            if self._ready and self._is_blocked(self._down[self._ready.first]):
                self._ready.popleft()  # it is woken when its source is durable
                continue
            if self._ready and (self._idle or self._evict(commands)):
                slot = self._down.pop(self._ready.popleft())
                self._relaunch(self._idle.pop(), slot, commands)
                continue
            if self._kept and not self._idle and len(self._ready) > len(self._clearing):
                node = self._kept.first
                self._let_go(node, self.slots[node], commands)
                continue
            if not (self._idle or self._kept):
                return
            run = self.scheduler.ask()
            if run is None:
                return
            on = self._node_of.get(run.trial)
            saved = self._down.get(run.trial) if on is None else self.slots[on]
            if saved is None and not self._idle:
                self._take_over(run)
            elif saved is None:
                self._assign(self._idle.pop(), run, commands)
            elif saved.held and on is not None:
                self._resume_in_place(on, saved, run, commands)
            elif saved.release and saved.bound is None:
                saved.bound = run
            else:
                raise ProtocolError(f"trial {run.trial} is to run, but is on node {on} already")

    def _resume_in_place(self, node: int, slot: Slot, run: Run, commands: list[Command]) -> None:
        slot.held, slot.until = False, run.until
        self._kept.discard(node)
        if slot.saving is None:
            commands.append(Train(node, slot.attempt, slot.until))
        # else it is being saved, as at every milestone, and goes on after that

    def _hold(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """A paused trial keeps its node."""
        slot.held = True
        self._kept.append(node)
        commands.append(Keep(node, slot.attempt))

    def _take_over(self, run: Run) -> None:
        """A trial needs the node of one that is held: it begins when that one is saved."""
        member = self.members.setdefault(run.trial, Member(run.hparams))
        slot = Slot(0, run.trial, run.until, member, waiting=run, empty=True)
        self._down[run.trial] = slot
        self._ready.append(run.trial)

    def _let_go(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """Save a held trial, unless that is done, and free its node."""
        self._kept.discard(node)
        slot.held = False
        checkpoint = Checkpoint(slot.trial, slot.until)
        if checkpoint in self.shelf:
            self._free(node, slot, commands)
        else:
            slot.saving, slot.release = checkpoint, True
            self._clearing.add(node)
            commands.append(Save(node, slot.attempt, checkpoint))

    def _lost_while_held(self, node: int, slot: Slot) -> bool:
        """The worker of a held trial is gone. Return whether nothing is lost with it.

        If the trial was not saved, that is to be made up for.
        """
        if node not in self._kept:
            if slot.held:  # it was still being saved
                slot.held, slot.release = False, True
            return False
        self._kept.discard(node)
        slot.held = False
        checkpoint = Checkpoint(slot.trial, slot.until)
        if checkpoint in self.shelf:
            return True
        slot.saving, slot.release = checkpoint, True
        return False

    def _is_blocked(self, slot: Slot) -> bool:
        """Tell whether a trial that is to be restarted waits for a source, and note that."""
        source = None if slot.waiting is None else source_of(slot.waiting)
        if source is None or source in self.shelf or not self._is_being_saved(source):
            return False
        self._waiting_for[source].append(slot.trial)
        return True

    def _evict(self, commands: list[Command]) -> bool:
        """Take a node from a trial that waits there for a source; whose save may need one."""
        waiting = {trial for trials in self._waiting_for.values() for trial in trials}
        nodes = (self._node_of[trial] for trial in waiting if trial in self._node_of)
        for node in sorted(nodes, reverse=True):
            slot = self.slots[node]
            source = None if slot.waiting is None else source_of(slot.waiting)
            if slot.waiting is not None and source is not None and source not in self.shelf:
                commands.append(End(node, slot.attempt))
                self._leave(node, slot)
                slot.waiting = as_run(slot.trial, slot.waiting)
                slot.empty = True
                self._down[slot.trial] = slot
                return True
        return False

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
        away = self._parking or node in self._leaving
        if source is not None and (away or source not in self.shelf):
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
            self._launch(node, slot, work.until, commands)
        elif source is not None:
            commands.append(Adopt(node, slot.attempt, source, work.hparams, work.until))

    def _launch(self, node: int, slot: Slot, until: int, commands: list[Command]) -> None:
        member = slot.member
        start = Start(
            node, slot.attempt, slot.trial, member.hparams, until, member.origin,
            0 if slot.again else member.since,
            member.at,
            member.high if member.high > member.at else 0.0,
        )  # fmt: skip
        commands.append(start)
        self._time_save(node, slot, commands)

    def _time_save(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """Have a worker saved after a while, in mid-phase too, if that is the policy."""
        if self.policy.save_every_us is not None:
            commands.append(SetTimer(f"save-{node}-{slot.attempt}", self.policy.save_every_us))

    def _relaunch(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """Start a trial's worker again from where its newest durable state is."""
        self._attempts += 1
        slot.attempt = self._attempts
        slot.parking = slot.empty = slot.snapping = False
        self.slots[node] = slot
        self._node_of[slot.trial] = node
        if slot.waiting is not None:
            work, slot.waiting = slot.waiting, None
            self._begin(node, slot, work, commands)
            return
        member = slot.member
        if member.origin is not None and member.origin not in self.shelf:
            member.origin, member.at = None, 0.0  # another trial has found it damaged
            if member.mixed:
                self._give_up(node, slot, commands)
                return
        until = slot.saving.step if slot.again and slot.saving is not None else slot.until
        self._launch(node, slot, until, commands)

    def _leave(self, node: int, slot: Slot, *, withdraw: bool = False) -> None:
        del self.slots[node], self._node_of[slot.trial]
        if withdraw:
            self._clearing.discard(node)
            self._nodes.discard(node)
            self._leaving.discard(node)
            self._health.forget(node)
        else:
            self._offer(node)

    def _wait(
        self,
        node: int,
        slot: Slot,
        work: Run | Exploit,
        source: Checkpoint,
        commands: list[Command],
    ) -> None:
        """Let work wait until its source is durable, or the interrupted run goes on."""
        if source not in self.shelf:
            if not self._is_being_saved(source):
                self._without(node, slot, work, source, commands)
                return
            self._waiting_for[source].append(slot.trial)
        if node in self._leaving and not self._parking:
            slot.waiting = work
            self._move_on(node, slot, commands)
            return
        if isinstance(work, Exploit) and self._parking:
            commands.append(End(node, slot.attempt))
            self._attempts += 1
            slot.attempt = self._attempts
        slot.waiting = work
        if isinstance(work, Exploit) and not self._parking:
            return
        slot.waiting = as_run(slot.trial, work)
        slot.empty = True
        commands.append(Hold(node, slot.attempt, slot.trial))

    def _is_being_saved(self, checkpoint: Checkpoint) -> bool:
        node = self._node_of.get(checkpoint.trial)
        slot = self._down.get(checkpoint.trial) if node is None else self.slots[node]
        return slot is not None and slot.saving == checkpoint

    def _wake(self, trial: TrialId, commands: list[Command]) -> None:
        """What the trial waits for is durable, or never will be."""
        node = self._node_of.get(trial)
        if node is None:
            if trial in self._down:
                self._ready.append(trial)
            return
        slot = self.slots[node]
        if slot.waiting is not None:
            work, slot.waiting = slot.waiting, None
            self._begin(node, slot, work, commands)

    def _move_on(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """A trial leaves its node, to go on elsewhere."""
        raise NotImplementedError

    def _give_up(self, node: int, slot: Slot, commands: list[Command]) -> None:
        """A trial that has no worker cannot go on."""
        raise NotImplementedError

    def _without(
        self,
        node: int,
        slot: Slot,
        work: Run | Exploit,
        source: Checkpoint,
        commands: list[Command],
    ) -> None:
        """The source of some work is lost for good."""
        raise NotImplementedError
