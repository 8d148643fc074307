"""The simulated world: a SimPy cluster that carries out the coordinator's commands.

Each node is a SimPy process that does what it is told (start, load, train, save) and feeds
back what came of it. Events at one instant are taken by node number, whatever the order in
which they were scheduled; SimPy's priorities do that.
"""

import gc
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import simpy
from simpy.core import SimTime
from simpy.events import Event as SimEvent

from simsched.cluster import Cluster, microseconds
from simsched.control import Control
from simsched.coordinator import NO_POLICY, Coordinator, ProtocolError
from simsched.events import (
    Adopt,
    CancelTimer,
    Delete,
    End,
    Ended,
    Event,
    Hold,
    Keep,
    NodeCommand,
    NodeUp,
    Over,
    Park,
    Reported,
    Save,
    Saved,
    SetTimer,
    Snapshot,
    Start,
    Train,
    Withdraw,
)
from simsched.journal import Journal
from simsched.ledger import Ledger
from simsched.messages import Checkpoint, Hparams, TrialId
from simsched.replay import Continuation, Cursor, Curve
from simsched.retries import Policy
from simsched.schedulers import Scheduler
from simsched.timeline import Timeline

_OF_NO_NODE = frozenset((Over, Delete, SetTimer, CancelTimer))
"""Nothing fails here yet, so there is nothing to time or to abandon; checkpoints cost no disk."""
_NEVER = 2**30
"""Collections of middle-aged garbage before one of everything."""
_NOTHING_TO_DO = frozenset((Hold, End, Park, Keep, Snapshot, Withdraw))
_BY_NODE = 2
"""SimPy's own priorities are 0 and 1; nodes come after, in their order."""


@contextmanager
def young_garbage_only() -> Iterator[None]:
    """Keep the garbage collector to what is new: curves and books are large and stay.

    A run makes no cycles, so walking all of its books again and again would find nothing.
    """
    if gc.get_freeze_count():  # somebody else's choice
        yield
        return
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*thresholds[:2], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class Tick(SimEvent):
    """A timeout whose place among events at one instant is its node's number."""

    def __init__(self, env: simpy.Environment, delay: SimTime, node: int) -> None:
        # As SimPy's own Timeout: it has happened already, at a time to come.
        self.env = env
        self.callbacks = []
        self._ok = True
        self._value = None
        env.schedule(self, _BY_NODE + node, delay)  # type: ignore[arg-type]


class _Node:
    """A node's inbox."""

    def __init__(self, number: int, speed: float) -> None:
        self.number = number
        self.speed = speed
        self.commands: list[NodeCommand] = []
        self.wake: SimEvent | None = None
        self.cursor: Cursor | None = None


class SimulatedCluster:
    """Runs one scheduler over recorded curves on simulated nodes.

    Args:
        scheduler: decides; trial i of it replays `curves[i]`.
        curves: of the trials, in the order in which the scheduler starts them.
        neighbours: where to go on after an exploit; needed for PBT only.
        cluster: nodes and costs.
        maximum: a trial's full length in resource units.
        journal: written as the run goes, if given.
        policy: the coordinator's, beside the scheduler.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        curves: Sequence[Curve],
        neighbours: Continuation,
        cluster: Cluster,
        maximum: int,
        journal: Journal | None = None,
        policy: Policy = NO_POLICY,
    ) -> None:
        self.ledger = Ledger(maximum)
        self.control = Control(Coordinator(scheduler, policy), self.ledger, journal)
        self.curves = curves
        self.neighbours = neighbours
        self.start_us = microseconds(cluster.start_s)
        self.save_us = microseconds(cluster.save_s)
        self.load_us = microseconds(cluster.load_s)
        self.env = simpy.Environment(initial_time=0)
        self.nodes = [_Node(n, cluster.speed(n)) for n in range(cluster.nodes)]
        self.cursors: dict[TrialId, Cursor] = {}
        self.saved: dict[Checkpoint, tuple[float, Curve]] = {}
        """The score a checkpoint was saved at, and the curve it was on."""

    def run(self) -> Timeline:
        """Simulate to the end and return the timeline.

        Raises:
            SimschedError: a complete curve is too short for the milestones.
        """
        for node in self.nodes:
            self.env.process(self._work(node))
        with young_garbage_only():
            self.env.run()
        if not self.control.coordinator.finished:
            raise ProtocolError("the simulation stalled: no events are left, trials are")
        return self.ledger.close(int(self.env.now))

    def _feed(self, event: Event) -> None:
        """Let the control plane decide, and hand out its commands."""
        for command in self.control.feed(event):
            if type(command) in _OF_NO_NODE:
                continue
            node = self.nodes[command.node]  # type: ignore[union-attr]
            node.commands.append(command)  # type: ignore[arg-type]
            if node.wake is not None and type(command) is not Hold:
                node.wake.succeed()
                node.wake = None

    def _work(self, node: _Node) -> Generator[SimEvent, Any, None]:
        """Do one command after the other, for ever; idle nodes wait to be woken."""
        env, number = self.env, node.number
        yield Tick(env, 0, number)
        self._feed(NodeUp(0, number))
        while True:
            if not node.commands:
                node.wake = env.event()
                yield node.wake
            command = node.commands.pop(0)
            if type(command) in _NOTHING_TO_DO:
                continue
            event = self._outcome(node, command)  # type: ignore[arg-type]
            yield Tick(env, event.at - env.now, number)
            self._feed(event)

    def _outcome(self, node: _Node, command: Save | Start | Train | Adopt) -> Event:
        """Begin a command; return the event that it ends with, at the time it will."""
        now, number, attempt = int(self.env.now), node.number, command.attempt
        if isinstance(command, Save):
            self._remember(node, command.checkpoint)
            return Saved(now + self.save_us, number, attempt)
        start_us = load_us = 0
        if isinstance(command, Start):
            start_us = self.start_us
            load_us = self.load_us if command.source is not None else 0
            node.cursor = self._take_up(command)
        elif isinstance(command, Adopt):
            load_us = self.load_us
            if node.cursor is None:
                raise ProtocolError(f"node {number} has no trial that could adopt")
            node.cursor = self._exploit(node.cursor.trial, command.hparams, command.source)
        cursor = node.cursor
        if cursor is None:
            raise ProtocolError(f"node {number} has no trial to train")
        until = cursor.until = command.until
        leg = cursor.advance(until)
        at = now + start_us + load_us + round(leg.duration_us / node.speed)
        if leg.outcome == "censored":
            return Ended(at, number, attempt, leg.reached, start_us, load_us)
        return Reported(at, number, attempt, until, leg.score, leg.reached, start_us, load_us)

    def _take_up(self, command: Start) -> Cursor:
        """Return the cursor of a trial that starts, resumes, or goes on from a donor."""
        trial, source = command.trial, command.source
        if source is None:
            self.cursors[trial] = Cursor(self.curves[trial], trial)
        elif source != Checkpoint(trial, self.cursors[trial].until):
            # A donor's weights, which may be an older state of the trial's own: a donor can
            # have copied the trial before the trial copies it back.
            return self._exploit(trial, command.hparams, source)
        return self.cursors[trial]

    def _exploit(self, trial: TrialId, hparams: Hparams, source: Checkpoint) -> Cursor:
        score, curve = self.saved[source]
        step = self.cursors[trial].until
        cursor = self.neighbours.enter(trial, hparams, step, score, curve)
        self.cursors[trial] = cursor
        return cursor

    def _remember(self, node: _Node, checkpoint: Checkpoint) -> None:
        cursor = node.cursor
        if cursor is None or cursor.score is None:
            raise ProtocolError(f"node {node.number} has nothing to save")
        self.saved[checkpoint] = (cursor.score, cursor.curve)
