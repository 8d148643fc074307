"""A simulated cluster that misbehaves: nodes fail, are taken back, share a store, differ.

It drives the same coordinator as every other world. What a node's worker had trained when it was
lost is trained again from the newest durable checkpoint; the books call that `redo`.
"""

from collections.abc import Generator, Sequence
from typing import Any

import simpy
from simpy.events import Event as SimEvent

from simsched.cluster import Cluster, Fleet
from simsched.coordinator import NO_POLICY
from simsched.errors import SimschedError
from simsched.events import (
    Adopt,
    CancelTimer,
    End,
    Event,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Park,
    Save,
    SetTimer,
    Snapshot,
    Start,
    TimerFired,
    Train,
)
from simsched.journal import Journal
from simsched.messages import TrialId
from simsched.outages import Outage, outages
from simsched.progress import Progress
from simsched.replay import Continuation, Curve
from simsched.retries import Policy
from simsched.schedulers import Scheduler
from simsched.simulation import SimulatedCluster, Tick, young_garbage_only
from simsched.timeline import US_PER_S, Timeline
from simsched.workers import Machine, Workers

MOST_STARTS = 10_000
"""A trial that is started so often between two milestones will never reach the second."""


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
        self.workers = Workers(self.env, fleet, Progress(curves, neighbours), self._feed, seed)
        self.machines = [Machine(n, fleet.kind_of(n)[0].speed) for n in range(fleet.size)]
        self.lost_nodes = 0
        """Times that a node went while a trial was on it."""
        self._timers: dict[str, simpy.Process] = {}
        self._over = self.env.event()

    def run(self) -> Timeline:
        """Simulate to the end and return the timeline.

        Raises:
            SimschedError: a curve is too short, or the cluster can never finish.
        """
        for node in self.machines:
            node.process = self.env.process(self.workers.work_on(node))
            self.env.process(self._fate(node))
        with young_garbage_only():
            try:
                self.env.run(until=self._over)
            except RuntimeError as error:
                if self._over.triggered:
                    raise
                raise SimschedError(
                    f"the search cannot end: after {self._last_s():,.0f} s no node will "
                    "ever be in service again; let nodes return (to_s, scale, return_s)"
                ) from error
        return self.ledger.close(int(self.env.now))

    def _feed(self, event: Event) -> None:
        for command in self.control.feed(event):
            if isinstance(command, Start):
                self._count_start(command.trial)
            if isinstance(command, SetTimer):
                self._timers[command.timer] = self.env.process(self._ring(command))
            elif isinstance(command, CancelTimer):
                process = self._timers.pop(command.timer, None)
                if process is not None and process.is_alive:
                    process.interrupt()
            elif isinstance(command, Snapshot):
                self.workers.snapshot(self.machines[command.node], command)
            elif isinstance(command, Start | Train | Save | Adopt | End | Park):
                self._tell(self.machines[command.node], command)
        if self.control.coordinator.finished and not self._over.triggered:
            self._over.succeed()

    def _tell(self, node: Machine, command: Start | Train | Save | Adopt | End | Park) -> None:
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

    def _fate(self, node: Machine) -> Generator[SimEvent, Any, None]:
        """Bring a node up and down, as `outages` has it."""
        up_us: int | None = 0
        for outage in outages(self.fleet, node.number, self.seed):
            if outage.down_us > 0 or up_us:
                yield Tick(self.env, (up_us or 0) - self.env.now, node.number)
                self._feed(NodeUp(int(self.env.now), node.number))
            yield from self._notice(node, outage)
            yield from self._last_moment(node, outage)
            self._go_down(node)
            up_us = outage.up_us
        if up_us is not None:
            yield Tick(self.env, up_us - self.env.now, node.number)
            self._feed(NodeUp(int(self.env.now), node.number))

    def _notice(self, node: Machine, outage: Outage) -> Generator[SimEvent, Any, None]:
        if outage.notice_us is not None and self.env.now <= outage.notice_us < outage.down_us:
            yield Tick(self.env, outage.notice_us - self.env.now, node.number)
            self._feed(NodeLeaving(int(self.env.now), node.number))

    def _last_moment(self, node: Machine, outage: Outage) -> Generator[SimEvent, Any, None]:
        """Wait until a node goes, after what else ends in that moment, and before what begins.

        SimPy has timeouts before the ticks of nodes: first all idle ones that go together say
        so, that none of them is given a trial which the others lose. The tick that is scheduled
        then comes after those of the node's own work.
        """
        yield self.env.timeout(outage.down_us - int(self.env.now))
        coordinator, number = self.control.coordinator, node.number
        if (
            outage.notice_us is None
            and number in coordinator.nodes
            and number not in coordinator.slots
        ):
            self._feed(NodeLeaving(int(self.env.now), number))
        yield Tick(self.env, 0, number)

    def _go_down(self, node: Machine) -> None:
        now = int(self.env.now)
        slot = self.control.coordinator.slots.get(node.number)
        event = NodeDown(now, node.number)
        if slot is not None:
            self.lost_nodes += 1
            if node.busy and node.stretch is not None and node.attempt == slot.attempt:
                event = self._lost(node, now)
            else:
                event = NodeDown(now, node.number, slot.attempt)
        node.commands.clear()
        if node.busy and node.process is not None:
            node.process.interrupt("down")
        self._feed(event)

    def _lost(self, node: Machine, now: int) -> NodeDown:
        stretch = node.stretch
        assert stretch is not None  # noqa: S101 - told to the type checker
        saving_us = 0 if stretch.stopped_at is None else now - stretch.stopped_at
        spent, count = self.workers.stand_still(node, now)
        return NodeDown(
            now, node.number, node.attempt, count, spent.start_us, spent.load_us, spent.redo_us,
            saving_us, spent.wait_us,
        )  # fmt: skip

    def _count_start(self, trial: TrialId) -> None:
        starts = self.workers.starts
        starts[trial] = starts.get(trial, 0) + 1
        if starts[trial] > MOST_STARTS:
            raise SimschedError(
                f"the search cannot end: trial {trial} was started {MOST_STARTS:,} times "
                "between two milestones; make phases shorter, save more often, or let nodes "
                "last longer"
            )

    def _last_s(self) -> float:
        """When the last node went."""
        return self.control.ledger.last_us / US_PER_S


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
