"""A simulated cluster that misbehaves: nodes fail, are taken back, share a store, differ.

It drives the same coordinator as every other world. What a node's worker had trained when it was
lost is trained again from the newest durable checkpoint; the books call that `redo`.
"""

from collections.abc import Generator, Sequence
from typing import Any, Literal

import simpy
from simpy.events import Event as SimEvent

from simsched.cluster import Cluster, Fleet, microseconds
from simsched.coordinator import NO_POLICY
from simsched.draws import keyed
from simsched.errors import SimschedError
from simsched.events import (
    Adopt,
    CancelTimer,
    End,
    Ended,
    Event,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Park,
    Parked,
    Reported,
    Save,
    Saved,
    SetTimer,
    Snapped,
    Snapshot,
    Start,
    TimerFired,
    Train,
)
from simsched.journal import Journal
from simsched.messages import Checkpoint, TrialId
from simsched.outages import Outage, outages
from simsched.progress import Place, Progress, Spent, Stretch
from simsched.replay import Continuation, Curve
from simsched.retries import Policy
from simsched.schedulers import Scheduler
from simsched.shared_store import SharedStore
from simsched.simulation import SimulatedCluster, Tick, young_garbage_only
from simsched.timeline import US_PER_S, Timeline

MOST_LOSSES = 10_000
"""A trial that loses its node so often between two milestones will never reach the second."""


class _Node:
    """A node, its inbox, and what its worker is doing."""

    def __init__(self, number: int, speed: float) -> None:
        self.number = number
        self.speed = speed
        self.commands: list[Any] = []
        self.wake: SimEvent | None = None
        self.process: simpy.Process | None = None
        self.trial: TrialId = -1
        self.attempt = 0
        self.rate = speed
        """Speed of its worker, which may be a straggler."""
        self.place_us = 0
        """Where the worker stands on its trial's path."""
        self.stretch: Stretch | None = None
        """What it trains, while it does."""
        self.busy = False


class UnreliableCluster(SimulatedCluster):
    """Runs one scheduler over recorded curves on a fleet.

    Args:
        scheduler: decides; trial i of it replays `curves[i]`.
        curves: of the trials, in the order in which the scheduler starts them.
        neighbours: where to go on after an exploit; needed for PBT only.
        fleet: nodes, costs, and what goes wrong.
        maximum: a trial's full length in resource units.
        journal: written as the run goes, if given.
        policy: the coordinator's, beside the scheduler.
        seed: of outages and stragglers: the same for all schedulers that are compared.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        curves: Sequence[Curve],
        neighbours: Continuation,
        fleet: Fleet,
        maximum: int,
        journal: Journal | None = None,
        policy: Policy = NO_POLICY,
        *,
        seed: int = 0,
    ) -> None:
        costs = fleet.costs
        cluster = Cluster(
            fleet.size, start_s=costs.start_s, save_s=costs.save_s, load_s=costs.load_s
        )
        super().__init__(scheduler, curves, neighbours, cluster, maximum, journal, policy)
        self.fleet, self.seed = fleet, seed
        self.hand_over_us = microseconds(costs.hand_over_s)
        self.progress = Progress(curves, neighbours)
        self.store = SharedStore(self.env, fleet.store)
        self.machines = [_Node(n, fleet.kind_of(n)[0].speed) for n in range(fleet.size)]
        self.lost_nodes = 0
        """Times that a node went while a trial was on it."""
        self._losses: dict[TrialId, int] = {}
        self._timers: dict[str, simpy.Process] = {}
        self._over = self.env.event()

    def run(self) -> Timeline:
        """Simulate to the end and return the timeline.

        Raises:
            SimschedError: a curve is too short, or the cluster can never finish.
        """
        for node in self.machines:
            node.process = self.env.process(self._work_on(node))
            self.env.process(self._fate(node))
        with young_garbage_only():
            try:
                self.env.run(until=self._over)
            except RuntimeError as error:
                if self._over.triggered:
                    raise
                raise SimschedError(
                    f"the search cannot end: after {self.env.now / US_PER_S:,.0f} s no node will "
                    "ever be in service again; let nodes return (to_s, scale, return_s)"
                ) from error
        return self.ledger.close(int(self.env.now))

    def _feed(self, event: Event) -> None:
        for command in self.control.feed(event):
            if isinstance(command, SetTimer):
                self._timers[command.timer] = self.env.process(self._ring(command))
            elif isinstance(command, CancelTimer):
                process = self._timers.pop(command.timer, None)
                if process is not None and process.is_alive:
                    process.interrupt()
            elif isinstance(command, Snapshot):
                self._snapshot(self.machines[command.node], command)
            elif isinstance(command, Start | Train | Save | Adopt | End | Park):
                self._tell(self.machines[command.node], command)
        if self.control.coordinator.finished and not self._over.triggered:
            self._over.succeed()

    def _tell(self, node: _Node, command: Start | Train | Save | Adopt | End | Park) -> None:
        if isinstance(command, End | Park):
            if node.busy and node.attempt == command.attempt and node.process is not None:
                node.process.interrupt("park" if isinstance(command, Park) else "end")
            return
        node.commands.append(command)
        if node.wake is not None:
            node.wake.succeed()
            node.wake = None

    def _ring(self, command: SetTimer) -> Generator[SimEvent, Any, None]:
        try:
            yield self.env.timeout(command.delay_us)
        except simpy.Interrupt:
            return
        self._timers.pop(command.timer, None)
        self._feed(TimerFired(int(self.env.now), command.timer))

    # What becomes of a node.

    def _fate(self, node: _Node) -> Generator[SimEvent, Any, None]:
        """Bring a node up and down, as `outages` has it."""
        up_us: int | None = 0
        for outage in outages(self.fleet, node.number, self.seed):
            if outage.down_us > 0 or up_us:
                yield Tick(self.env, (up_us or 0) - self.env.now, node.number)
                self._feed(NodeUp(int(self.env.now), node.number))
            yield from self._notice(node, outage)
            yield Tick(self.env, outage.down_us - self.env.now, node.number)
            self._go_down(node)
            up_us = outage.up_us
        if up_us is not None:
            yield Tick(self.env, up_us - self.env.now, node.number)
            self._feed(NodeUp(int(self.env.now), node.number))

    def _notice(self, node: _Node, outage: Outage) -> Generator[SimEvent, Any, None]:
        if outage.notice_us is not None and self.env.now <= outage.notice_us < outage.down_us:
            yield Tick(self.env, outage.notice_us - self.env.now, node.number)
            self._feed(NodeLeaving(int(self.env.now), node.number))

    def _go_down(self, node: _Node) -> None:
        now = int(self.env.now)
        slot = self.control.coordinator.slots.get(node.number)
        event = NodeDown(now, node.number)
        if slot is not None:
            self._count_loss(slot.trial)
            if node.busy and node.stretch is not None and node.attempt == slot.attempt:
                event = self._lost(node, now)
            else:
                event = NodeDown(now, node.number, slot.attempt)
        node.commands.clear()
        if node.busy and node.process is not None:
            node.process.interrupt("down")
        self._feed(event)

    def _lost(self, node: _Node, now: int) -> NodeDown:
        stretch = node.stretch
        assert stretch is not None  # noqa: S101 - told to the type checker
        saving_us = 0 if stretch.stopped_at is None else now - stretch.stopped_at
        spent, count = self._stand_still(node, now)
        return NodeDown(
            now, node.number, node.attempt, count, spent.start_us, spent.load_us, spent.redo_us,
            saving_us, spent.wait_us,
        )  # fmt: skip

    def _count_loss(self, trial: TrialId) -> None:
        self.lost_nodes += 1
        self._losses[trial] = self._losses.get(trial, 0) + 1
        if self._losses[trial] > MOST_LOSSES:
            raise SimschedError(
                f"the search cannot end: trial {trial} has lost its node {MOST_LOSSES:,} times "
                "between two milestones; make phases shorter, save more often, or let nodes "
                "last longer"
            )

    # What a node's worker does.

    def _work_on(self, node: _Node) -> Generator[SimEvent, Any, None]:
        while True:
            while not node.commands:
                node.wake = self.env.event()
                yield node.wake
            command = node.commands.pop(0)
            node.busy, node.attempt = True, command.attempt
            event: Event | None = None
            try:
                event = yield from self._carry_out(node, command)
            except simpy.Interrupt as interrupt:
                if interrupt.cause == "park":
                    event = yield from self._save_as_it_is(node)
            node.busy, node.stretch = False, None
            if event is not None:
                self._feed(event)

    def _carry_out(
        self, node: _Node, command: Start | Train | Save | Adopt
    ) -> Generator[SimEvent, Any, Event]:
        if isinstance(command, Save):
            yield from self._save(node)
            self.progress.keep(command.checkpoint, node.trial, node.place_us)
            return Saved(int(self.env.now), node.number, command.attempt)
        return (yield from self._train(node, command))

    def _save(self, node: _Node) -> Generator[SimEvent, Any, None]:
        if self.save_us or self.fleet.store is None:
            yield Tick(self.env, self.save_us, node.number)
        yield from self.store.transfer()

    def _train(
        self, node: _Node, command: Start | Train | Adopt
    ) -> Generator[SimEvent, Any, Event]:
        env = self.env
        stretch = node.stretch = Stretch(int(env.now))
        if isinstance(command, Start):
            yield from self._spend(stretch, "start", self.start_us)
            self._begin_trial(node, command)
        else:
            yield from self._spend(stretch, "wait", self.hand_over_us)
        source = None if isinstance(command, Train) else command.source
        if source is not None:
            yield from self._load(stretch)
        trial = node.trial
        if isinstance(command, Start):
            node.place_us = self.progress.take_up(command)
        elif isinstance(command, Adopt):
            node.place_us = self.progress.adopt(trial, command)
        place = self.progress.towards(trial, command.until)
        stretch.begin(int(env.now), node.place_us, place, self.progress.high_us(trial), node.rate)
        while True:
            try:
                yield Tick(env, stretch.duration_us, node.number)
                break
            except simpy.Interrupt as interrupt:
                if interrupt.cause != "snap":
                    raise
                stretch = yield from self._snap(node, place)
        node.place_us = place.end_us
        spent = stretch.spent(int(env.now))
        times = (spent.start_us, spent.load_us, spent.redo_us, spent.wait_us)
        now, number, attempt = int(env.now), node.number, command.attempt
        self.progress.arrived(trial, place)
        self._losses.pop(trial, None)
        if place.outcome == "censored":
            return Ended(now, number, attempt, place.reached, *times)
        return Reported(now, number, attempt, command.until, place.score, place.reached, *times)

    def _snapshot(self, node: _Node, command: Snapshot) -> None:
        """Have a worker save and train on; one that does not train has nothing to save."""
        training = node.busy and node.stretch is not None and node.stretch.place is not None
        if training and node.attempt == command.attempt and node.process is not None:
            node.process.interrupt("snap")
        else:
            self.env.process(self._nothing_to_snap(command))

    def _nothing_to_snap(self, command: Snapshot) -> Generator[SimEvent, Any, None]:
        yield Tick(self.env, 0, command.node)
        self._feed(Snapped(int(self.env.now), command.node, command.attempt, -1, 0.0))

    def _snap(self, node: _Node, place: Place) -> Generator[SimEvent, Any, Stretch]:
        """Save in mid-phase; return the stretch that follows."""
        assert node.stretch is not None  # noqa: S101 - it is training
        began = int(self.env.now)
        spent, count = self._stand_still(node, began)
        node.stretch.stopped_at = began
        yield from self._save(node)
        now, checkpoint = int(self.env.now), Checkpoint(node.trial, int(count))
        self.progress.keep(checkpoint, node.trial, node.place_us, count)
        stretch = node.stretch = Stretch(now)
        high_us = self.progress.high_us(node.trial)
        stretch.begin(now, node.place_us, place, high_us, node.rate)
        self._feed(
            Snapped(
                now, node.number, node.attempt, checkpoint.step, count,
                spent.start_us, spent.load_us, spent.redo_us, now - began, spent.wait_us,
            )
        )  # fmt: skip
        return stretch

    def _begin_trial(self, node: _Node, command: Start) -> None:
        node.trial, node.rate = command.trial, node.speed
        slow = self.fleet.stragglers
        if slow is not None:
            draw = keyed(self.seed, "straggler", command.trial, command.attempt).random()
            node.rate = node.speed / slow.slowdown if draw < slow.probability else node.speed

    def _spend(
        self, stretch: Stretch, what: Literal["start", "wait"], us: int
    ) -> Generator[SimEvent, Any, None]:
        if us:
            stretch.doing(what, int(self.env.now))
            yield self.env.timeout(us)
            stretch.did(int(self.env.now))

    def _load(self, stretch: Stretch) -> Generator[SimEvent, Any, None]:
        stretch.doing("load", int(self.env.now))
        if self.load_us:
            yield self.env.timeout(self.load_us)
        yield from self.store.transfer()
        stretch.did(int(self.env.now))

    def _stand_still(self, node: _Node, now: int) -> tuple[Spent, float]:
        """Note where a worker is that has to stop: what it spent, and its trial's count."""
        stretch = node.stretch
        assert stretch is not None  # noqa: S101 - told to the type checker
        if stretch.place is None:
            return stretch.spent(now), 0.0
        node.place_us = stretch.place_us(now)
        count = self.progress.stopped(node.trial, node.place_us, stretch.place)
        return stretch.spent(now), count

    def _save_as_it_is(self, node: _Node) -> Generator[SimEvent, Any, Event | None]:
        """Park: save in mid-phase, if training has begun. None: the node went meanwhile."""
        stretch = node.stretch
        if stretch is None:
            return None
        number, attempt, began = node.number, node.attempt, int(self.env.now)
        spent, count = self._stand_still(node, began)
        times = (spent.start_us, spent.load_us, spent.redo_us)
        if stretch.place is None:
            return Parked(began, number, attempt, -1, 0.0, *times, wait_us=spent.wait_us)
        stretch.stopped_at = began
        try:
            yield from self._save(node)
        except simpy.Interrupt:
            return None
        now, checkpoint = int(self.env.now), Checkpoint(node.trial, int(count))
        self.progress.keep(checkpoint, node.trial, node.place_us, count)
        return Parked(
            now, number, attempt, checkpoint.step, count, *times, now - began, spent.wait_us
        )


def cost_of(fleet: Fleet, timeline: Timeline) -> float | None:
    """Return the price of the nodes' time in service; None if no node has a price."""
    if not any(kind.price_per_hour for kind in fleet.nodes):
        return None
    down_us = [0] * fleet.size
    for interval in timeline.intervals:
        if interval.kind == "down":
            down_us[interval.node] += interval.end_us - interval.start_us
    prices = [fleet.kind_of(node)[0].price_per_hour for node in range(fleet.size)]
    paid = sum((timeline.end_us - d) * p for d, p in zip(down_us, prices, strict=True))
    return paid / US_PER_S / 3600
