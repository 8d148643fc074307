"""The swarm's cluster: nodes, workers and checkpoints that are physically there, and fail."""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from simsched.coordinator import Coordinator
from simsched.events import (
    Adopt,
    Ended,
    Event,
    Failed,
    Keep,
    NodeDown,
    Parked,
    Reported,
    Save,
    Saved,
    Snapped,
    TimerFired,
    Train,
)
from simsched.messages import Checkpoint
from simsched.testing.invariants import Violation
from simsched.testing.swarm_draw import Rates, Story
from simsched.testing.swarm_worker import Worker

PATIENCE_US = 5_000_000
"""After which a worker that says nothing is given up."""
NO_FAULTS = Rates()
Due: TypeAlias = Callable[[], Event | None]


class Cluster:
    """What is physically there. `at` is the run's clock, in µs."""

    def __init__(self, story: Story, dice: random.Random, tally: Counter[str]) -> None:
        self.story, self.dice, self.tally = story, dice, tally
        self.rates = story.rates
        self.at = 0
        self.up: set[int] = set()
        """Nodes that are there."""
        self.noticed: set[int] = set()
        """Those of them that will be gone soon."""
        self.withdrawn: set[int] = set()
        self.workers: dict[int, Worker] = {}
        """By node: who was started there and not yet told to end; it may be dead."""
        self.disk: dict[Checkpoint, float] = {}
        """The checkpoints that are there, each with the trial's true count."""
        self.damaged: set[Checkpoint] = set()
        self.kept: dict[int, Checkpoint] = {}
        """By attempt: what it saved and has not said."""
        self.said: dict[int, Checkpoint] = {}
        """By attempt: what it has said is saved, while nobody has heard it."""
        self.forgotten: set[Checkpoint] = set()
        """What was saved in vain, and is not there any more."""
        self.disk_full_until = -1
        self.timers: dict[str, int] = {}
        self.cancelled: list[TimerFired] = []
        self.late: list[Any] = []
        """Messages that are still under way, though nobody waits for them."""
        self.ends: dict[int, float] = {}
        """By trial: where its curve ends."""
        self.coordinator: Coordinator | None = None
        """Only to ask whether it knows of a checkpoint, as the live world does."""
        self._heap: list[tuple[int, int, Due]] = []
        self._number = 0

    @property
    def busy(self) -> bool:
        """Whether a worker does anything."""
        return any(worker.doing is not None for worker in self.workers.values())

    def roll(self, rate: float) -> bool:
        """Throw the dice; with rate 0 they are left alone."""
        return rate > 0 and self.dice.random() < rate

    def after(self, delay_us: int, due: Due) -> None:
        """Have something happen later."""
        self._number += 1
        heapq.heappush(self._heap, (self.at + delay_us, self._number, due))

    def next(self, until: int | None = None) -> Event | None:
        """Go on to what happens next, if it does until a time; return the event, if any."""
        while self._heap and (until is None or self._heap[0][0] <= until):
            at, _, due = heapq.heappop(self._heap)
            self.at = max(self.at, at)
            event = due()
            if event is not None:
                return event
        return None

    def all_die(self) -> None:
        """No worker outlives its coordinator; timers are the coordinator's own."""
        for node in list(self.workers):
            self._gone(self.workers.pop(node))
        self.kept.clear()
        self.said.clear()
        self.timers.clear()
        self.cancelled.clear()

    def node_dies(self, node: int) -> NodeDown:
        """A node is gone, and what ran there."""
        self.up.discard(node)
        self.noticed.discard(node)
        worker = self.workers.pop(node, None)
        if worker is None:
            return NodeDown(self.at, node)
        spent = worker.spent(self.at)
        self._gone(worker)
        return NodeDown(self.at, node, worker.attempt, *spent)

    def was_fed(self, event: Saved | Parked | Snapped, *, taken: bool) -> None:
        """The coordinator knows of a save, or has dropped the message as one of nobody's."""
        saved = self.said.pop(event.attempt, None)
        if not taken:
            self._forget_orphan(saved)

    def require(self, condition: bool, what: str) -> None:
        """Raise Violation unless a condition holds."""
        if not condition:
            raise Violation(what)

    def _worker(self, command: Train | Adopt | Save | Keep) -> Worker | None:
        """Return a command's worker, None if it is dead already."""
        worker = self.workers.get(command.node)
        if worker is None or worker.dead:
            return None
        self.require(worker.attempt == command.attempt, f"{command} is for another attempt")
        self.require(worker.doing is None, f"{command}, but it is at {worker.doing}")
        return worker

    def _due(self, worker: Worker, delay_us: int, due: Due) -> None:
        """Have a worker say something, unless another command comes before."""
        number = worker.number

        def still() -> Event | None:
            here = self.workers.get(worker.node) is worker and worker.number == number
            return due() if here else None

        self.after(delay_us, still)

    def _fails_after(
        self,
        worker: Worker,
        delay_us: int,
        reason: str,
        *,
        spoilt: bool = False,
        lost: bool = False,
    ) -> None:
        """Have a worker fail; where its message is `lost`, that may come long afterwards."""

        def fail() -> Failed:
            reached, start_us, load_us, redo_us = worker.spent(self.at)
            if lost:
                self.tally["fault: lost, stuck"] += 1
                self._gone(worker)
            self._forget_orphan(self.kept.pop(worker.attempt, None))
            worker.waits(worker.count)
            worker.dead = True
            self.tally[f"fault: {reason}"] += 1
            return Failed(
                self.at, worker.node, worker.attempt, reason, reached,
                start_us, load_us, redo_us, spoilt,
            )  # fmt: skip

        self._due(worker, delay_us, fail)

    def _cannot_save(self) -> bool:
        return self.at <= self.disk_full_until or self.roll(self.rates.unsaved)

    def _keep(self, worker: Worker, checkpoint: Checkpoint, count: float) -> None:
        self.kept[worker.attempt] = checkpoint
        self.disk[checkpoint] = count
        self.forgotten.discard(checkpoint)
        self.damaged.discard(checkpoint)

    def _says_saved(self, worker: Worker) -> None:
        if worker.attempt in self.kept:
            self.said[worker.attempt] = self.kept.pop(worker.attempt)

    def _forget_orphan(self, saved: Checkpoint | None) -> None:
        """What was saved in vain must not stay, as nobody would ever delete it."""
        if self.coordinator is not None and saved and saved not in self.coordinator.shelf:
            self.disk.pop(saved, None)
            self.forgotten.add(saved)

    def _gone(self, worker: Worker) -> None:
        """A worker is gone; what it was about to say may still be under way."""
        doing = worker.doing
        self._forget_orphan(self.kept.pop(worker.attempt, None))
        if self.rates.stale <= 0 or doing is None or len(self.late) > 50:
            return
        node, attempt, step = worker.node, worker.attempt, worker.until
        self.late.append(
            self.dice.choice(
                (
                    Reported(0, node, attempt, step, 1e9, step, 0, 0),
                    Saved(0, node, attempt),
                    Failed(0, node, attempt, "late", 1e6),
                    Parked(0, node, attempt, step, step),
                    Ended(0, node, attempt, step, 0, 0),
                )
            )
        )
