"""Workers of a simulated cluster that misbehaves: they start, load, train, save, and are stopped.

Each node has one SimPy process, which is interrupted when its worker is told to park or to end,
when it has to save in mid-phase, and when the node is lost.
"""

from collections.abc import Callable, Generator
from typing import Any, Literal

import simpy
from simpy.events import Event as SimEvent

from simsched.cluster import Fleet, microseconds
from simsched.draws import keyed
from simsched.events import (
    Adopt,
    Ended,
    Event,
    Parked,
    Reported,
    Save,
    Saved,
    Snapped,
    Snapshot,
    Start,
    Train,
)
from simsched.messages import Checkpoint, TrialId
from simsched.progress import Place, Progress, Spent, Stretch
from simsched.shared_store import SharedStore
from simsched.simulation import Tick


class Machine:
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
        self.rests = False
        """Its trial is at a milestone until it trains: there is a state to save."""


class Workers:
    """What workers do, on all nodes."""

    def __init__(
        self,
        env: simpy.Environment,
        fleet: Fleet,
        progress: Progress,
        feed: Callable[[Event], None],
        seed: int,
    ) -> None:
        """Prepare.

        Args:
            env: the simulation.
            fleet: costs, store and stragglers.
            progress: where all trials are.
            feed: takes what workers say.
            seed: of stragglers.
        """
        self._env, self._fleet, self._progress, self._seed = env, fleet, progress, seed
        self._feed = feed
        self._store = SharedStore(env, fleet.store)
        costs = fleet.costs
        self._start_us, self._hand_over_us = map(microseconds, (costs.start_s, costs.hand_over_s))
        self._save_us, self._load_us = map(microseconds, (costs.save_s, costs.load_s))
        self.starts: dict[TrialId, int] = {}
        """How often each trial was started since its last milestone."""
        self._begun: dict[TrialId, int] = {}
        """How often each trial has begun on a node."""

    def work_on(self, node: Machine) -> Generator[SimEvent, Any, None]:
        """Do what a node is told, one command after the other, for ever: a SimPy process."""
        while True:
            while not node.commands:
                node.wake = self._env.event()
                yield node.wake
            command = node.commands.pop(0)
            node.busy, node.attempt = True, command.attempt
            node.rests = isinstance(command, Train)
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
        self, node: Machine, command: Start | Train | Save | Adopt
    ) -> Generator[SimEvent, Any, Event]:
        if isinstance(command, Save):
            yield from self._save(node)
            self._progress.keep(command.checkpoint, node.trial, node.place_us)
            return Saved(int(self._env.now), node.number, command.attempt)
        return (yield from self._train(node, command))

    def _save(self, node: Machine) -> Generator[SimEvent, Any, None]:
        if self._save_us or self._fleet.store is None:
            yield Tick(self._env, self._save_us, node.number)
        yield from self._store.transfer()

    def _train(
        self, node: Machine, command: Start | Train | Adopt
    ) -> Generator[SimEvent, Any, Event]:
        env = self._env
        stretch = node.stretch = Stretch(int(env.now))
        if isinstance(command, Start):
            yield from self._spend(stretch, "start", self._start_us)
            self._begin_trial(node, command)
        else:
            yield from self._spend(stretch, "wait", self._hand_over_us)
        source = None if isinstance(command, Train) else command.source
        if source is not None:
            yield from self._load(stretch)
        trial = node.trial
        if isinstance(command, Start):
            node.place_us = self._progress.take_up(command)
        elif isinstance(command, Adopt):
            node.place_us = self._progress.adopt(trial, command)
        node.rests = False
        place = self._progress.towards(trial, command.until)
        stretch.begin(int(env.now), node.place_us, place, self._progress.high_us(trial), node.rate)
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
        self._progress.arrived(trial, place)
        self.starts.pop(trial, None)
        if place.outcome == "censored":
            return Ended(now, number, attempt, place.reached, *times)
        return Reported(now, number, attempt, command.until, place.score, place.reached, *times)

    def snapshot(self, node: Machine, command: Snapshot) -> None:
        """Have a worker save and train on; one that does not train has nothing to save."""
        training = node.busy and node.stretch is not None and node.stretch.place is not None
        if training and node.attempt == command.attempt and node.process is not None:
            node.process.interrupt("snap")
        else:
            self._env.process(self._nothing_to_snap(command))

    def _nothing_to_snap(self, command: Snapshot) -> Generator[SimEvent, Any, None]:
        yield Tick(self._env, 0, command.node)
        self._feed(Snapped(int(self._env.now), command.node, command.attempt, -1, 0.0))

    def _snap(self, node: Machine, place: Place) -> Generator[SimEvent, Any, Stretch]:
        """Save in mid-phase; return the stretch that follows."""
        assert node.stretch is not None  # noqa: S101 - it is training
        began = int(self._env.now)
        spent, count = self.stand_still(node, began)
        node.stretch.stopped_at = began
        yield from self._save(node)
        now, checkpoint = int(self._env.now), Checkpoint(node.trial, int(count))
        self._progress.keep(checkpoint, node.trial, node.place_us, count)
        stretch = node.stretch = Stretch(now)
        high_us = self._progress.high_us(node.trial)
        stretch.begin(now, node.place_us, place, high_us, node.rate)
        self._feed(
            Snapped(
                now, node.number, node.attempt, checkpoint.step, count,
                spent.start_us, spent.load_us, spent.redo_us, now - began, spent.wait_us,
            )
        )  # fmt: skip
        return stretch

    def _begin_trial(self, node: Machine, command: Start) -> None:
        node.trial, node.rate = command.trial, node.speed
        slow = self._fleet.stragglers
        if slow is not None:
            # By the trial's own count: schedulers that are compared meet the same stragglers.
            begun = self._begun[command.trial] = self._begun.get(command.trial, 0) + 1
            draw = keyed(self._seed, "straggler", command.trial, begun).random()
            node.rate = node.speed / slow.slowdown if draw < slow.probability else node.speed

    def _spend(
        self, stretch: Stretch, what: Literal["start", "wait"], us: int
    ) -> Generator[SimEvent, Any, None]:
        if us:
            stretch.doing(what, int(self._env.now))
            yield self._env.timeout(us)
            stretch.did(int(self._env.now))

    def _load(self, stretch: Stretch) -> Generator[SimEvent, Any, None]:
        stretch.doing("load", int(self._env.now))
        if self._load_us:
            yield self._env.timeout(self._load_us)
        yield from self._store.transfer()
        stretch.did(int(self._env.now))

    def stand_still(self, node: Machine, now: int) -> tuple[Spent, float]:
        """Note where a worker is that has to stop: what it spent, and its trial's count."""
        stretch = node.stretch
        assert stretch is not None  # noqa: S101 - told to the type checker
        if stretch.place is None:
            return stretch.spent(now), 0.0
        node.place_us = stretch.place_us(now)
        count = self._progress.stopped(node.trial, node.place_us, stretch.place)
        return stretch.spent(now), count

    def _save_as_it_is(self, node: Machine) -> Generator[SimEvent, Any, Event | None]:
        """Park: save in mid-phase, if training has begun. None: the node went meanwhile."""
        stretch = node.stretch
        if stretch is None:
            return None
        number, attempt, began = node.number, node.attempt, int(self._env.now)
        if stretch.stopped_at is not None:  # it was saving to train on
            began = stretch.stopped_at
        if node.rests:
            stretch.did(began)  # it waits no longer
        spent, count = self.stand_still(node, began)
        times = (spent.start_us, spent.load_us, spent.redo_us)
        if node.rests:
            count = self._progress.reached(node.trial)
        elif stretch.place is None:
            return Parked(began, number, attempt, -1, 0.0, *times, wait_us=spent.wait_us)
        stretch.stopped_at = began
        try:
            yield from self._save(node)
        except simpy.Interrupt:
            return None
        now, checkpoint = int(self._env.now), Checkpoint(node.trial, int(count))
        self._progress.keep(checkpoint, node.trial, node.place_us, count)
        return Parked(
            now, number, attempt, checkpoint.step, count, *times, now - began, spent.wait_us
        )
