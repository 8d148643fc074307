"""The swarm's cluster: nodes, workers and checkpoints that carry out commands, badly.

It knows what is physically there, and refuses commands that could not be carried out: a node
given away that is not free, a checkpoint to be loaded that is not there.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from simsched.coordinator import Coordinator
from simsched.events import (
    Adopt,
    CancelTimer,
    Command,
    Delete,
    End,
    Ended,
    Event,
    Failed,
    NodeDown,
    Park,
    Parked,
    Reported,
    Save,
    Saved,
    SetTimer,
    Start,
    TimerFired,
    Train,
    Withdraw,
)
from simsched.messages import Checkpoint
from simsched.testing.invariants import Violation
from simsched.testing.swarm_draw import Rates, Story
from simsched.testing.swarm_worker import Worker

PATIENCE_US = 5_000_000
"""After which a worker that says nothing is given up."""
NO_FAULTS = Rates()
Due: TypeAlias = Callable[[], Event | None]


class World:
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
        """By attempt: what it saved and has not been heard of."""
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
        self._carry: dict[type, Callable[[Any], None]] = {
            Start: self._start, Train: self._train, Save: self._save, Adopt: self._adopt,
            Park: self._park, End: self._end, Delete: self._delete, SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer, Withdraw: self._withdraw,
        }  # fmt: skip

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

    @property
    def busy(self) -> bool:
        """Whether a worker does anything."""
        return any(worker.doing is not None for worker in self.workers.values())

    def all_die(self) -> None:
        """No worker outlives its coordinator; timers are the coordinator's own."""
        for node in list(self.workers):
            self._gone(self.workers.pop(node))
        self.kept.clear()
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

    def carry_out(self, command: Command) -> None:
        """Carry out one command. Raises Violation if that cannot be."""
        carry = self._carry.get(type(command))
        if carry is not None:
            carry(command)

    def require(self, condition: bool, what: str) -> None:
        """Raise Violation unless a condition holds."""
        if not condition:
            raise Violation(what)

    def _start(self, command: Start) -> None:
        node, trial = command.node, command.trial
        if node not in self.up:
            return  # it will be told that the node is gone
        self.require(node not in self.workers, f"node {node} is given away, but is not free")
        on = [w.node for w in self.workers.values() if w.trial == trial and not w.dead]
        self.require(not on, f"trial {trial} starts on node {node}, but is on node {on}")
        pace_us = self.story.paces_us[node] * (20 if self.roll(self.rates.slow) else 1)
        worker = Worker(command, pace_us, self.at)
        self.workers[node] = worker
        start_us, load_us, _ = self.story.costs_us
        source = command.source
        if source is None:
            load_us = 0
        elif source.trial == trial:
            worker.count = self.disk.get(source, 0.0)
        self._train_to(worker, command, start_us, load_us, source)

    def _adopt(self, command: Adopt) -> None:
        worker = self._worker(command)
        if worker is not None:
            self._train_to(worker, command, 0, self.story.costs_us[1], command.source)

    def _train(self, command: Train) -> None:
        worker = self._worker(command)
        if worker is not None:
            self._train_to(worker, command, 0, 0, None)

    def _worker(self, command: Train | Adopt | Save) -> Worker | None:
        """Return a command's worker, None if it is dead already."""
        worker = self.workers.get(command.node)
        if worker is None or worker.dead:
            return None
        self.require(worker.attempt == command.attempt, f"{command} is for another attempt")
        self.require(worker.doing is None, f"{command}, but it is at {worker.doing}")
        return worker

    def _train_to(
        self,
        worker: Worker,
        command: Start | Train | Adopt,
        start_us: int,
        load_us: int,
        source: Checkpoint | None,
    ) -> None:
        if source is not None:
            self.require(source in self.disk, f"{command} loads what is not there")
        end = self.ends.get(worker.trial, float("inf"))
        if end > command.until and self.roll(self.rates.censor):
            end = self.ends[worker.trial] = worker.count + 0.5 * (command.until - worker.count)
        censored = end < command.until
        reach = min(end, command.until + self.dice.choice((0.0, 0.0, 0.5)))
        worker.begin(command, self.at, start_us, load_us, max(worker.count, reach))
        worker.loading = source
        if source is not None and (source in self.damaged or self.roll(self.rates.damage)):
            self.damaged.add(source)
            self._fails_after(worker, start_us + load_us, "its checkpoint is damaged", spoilt=True)
        elif self.roll(self.rates.death):
            self._fails_after(worker, self.dice.randint(0, worker.leg_us), "it died")
        elif self.roll(self.rates.stuck + self.rates.lost):
            self._fails_after(worker, worker.leg_us + PATIENCE_US, "it said nothing", lost=True)
        else:
            self._due(worker, worker.leg_us, lambda: self._reports(worker, command, censored))

    def _due(self, worker: Worker, delay_us: int, due: Due) -> None:
        """Have a worker say something, unless another command comes before."""
        number = worker.number

        def still() -> Event | None:
            here = self.workers.get(worker.node) is worker and worker.number == number
            return due() if here else None

        self.after(delay_us, still)

    def _reports(
        self, worker: Worker, command: Start | Train | Adopt, censored: bool
    ) -> Reported | Ended:
        spent = worker.spent(self.at)
        reached, start_us, load_us, redo_us = spent
        worker.waits(reached)
        if censored:
            worker.dead = True
            return Ended(self.at, worker.node, worker.attempt, reached, start_us, load_us)
        score = None if self.roll(self.rates.diverge) else self._score(command.until)
        return Reported(
            self.at, worker.node, worker.attempt, command.until, score, reached,
            start_us, load_us, redo_us,
        )  # fmt: skip

    def _score(self, step: int) -> float:
        dice, kind = self.dice, self.story.scores
        if kind == "ties":
            return float(dice.randint(0, 2))
        if kind == "rising":
            return step / 10 + dice.random()
        if kind == "noise":
            return dice.uniform(-1, 1)
        return dice.choice((-1e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1e308))

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
            self.forget_orphan(worker.attempt)
            worker.waits(worker.count)
            worker.dead = True
            self.tally[f"fault: {reason}"] += 1
            return Failed(
                self.at, worker.node, worker.attempt, reason, reached,
                start_us, load_us, redo_us, spoilt,
            )  # fmt: skip

        self._due(worker, delay_us, fail)

    def forget_orphan(self, attempt: int) -> None:
        """What was saved in vain must not stay, as nobody would ever delete it."""
        saved = self.kept.pop(attempt, None)
        if self.coordinator is not None and saved and saved not in self.coordinator.shelf:
            self.disk.pop(saved, None)

    def was_fed(self, event: Saved | Parked, *, taken: bool) -> None:
        """The coordinator knows of a save, or has dropped the message as one of nobody's."""
        if taken:
            self.kept.pop(event.attempt, None)
        else:
            self.forget_orphan(event.attempt)

    def _save(self, command: Save) -> None:
        worker = self._worker(command)
        if worker is None:
            return
        save_us = self.story.costs_us[2]
        worker.begin(command, self.at, 0, 0, worker.count)
        checkpoint = command.checkpoint
        if self._cannot_save():
            self._fails_after(worker, save_us, "its checkpoint could not be kept")
            return
        if self.roll(self.rates.death):
            self._fails_after(worker, self.dice.randint(0, save_us), "it died")
            return
        lost = self.roll(self.rates.stuck + self.rates.lost)

        def save() -> Saved | None:
            self._keep(worker, checkpoint, worker.count)
            if lost:
                return None
            worker.waits(worker.count)
            return Saved(self.at, worker.node, worker.attempt)

        self._due(worker, save_us, save)
        if lost:
            self._fails_after(worker, save_us + PATIENCE_US, "it said nothing", lost=True)

    def _cannot_save(self) -> bool:
        return self.at <= self.disk_full_until or self.roll(self.rates.unsaved)

    def _keep(self, worker: Worker, checkpoint: Checkpoint, count: float) -> None:
        self.kept[worker.attempt] = checkpoint
        self.disk[checkpoint] = count
        self.damaged.discard(checkpoint)

    def _park(self, command: Park) -> None:
        worker = self.workers.get(command.node)
        if worker is None or worker.dead:
            return
        self.require(worker.attempt == command.attempt, f"{command} is for another attempt")
        self.require(not isinstance(worker.doing, Save | Park), f"{command}, but it is saving")
        began_us, save_us = self.at, self.story.costs_us[2]
        reached = worker.spent_by_its_clock(self.at)[0]
        training = worker.doing is None or worker.is_training(self.at)
        too_late = not training or self._cannot_save()

        def park() -> Parked:
            _, start_us, load_us, redo_us = worker.spent_by_its_clock(self.at)
            step = -1 if too_late else int(reached)
            if not too_late:
                self._keep(worker, Checkpoint(worker.trial, step), reached)
            saved_us = min(self.at - began_us, max(0, self.at - worker.told - start_us - load_us))
            worker.waits(reached)
            worker.dead = True
            return Parked(
                self.at, worker.node, worker.attempt, step, reached,
                start_us, load_us, redo_us, saved_us,
            )  # fmt: skip

        worker.parks(command, reached)
        if training and self.roll(self.rates.death):
            self._fails_after(worker, self.dice.randint(0, save_us), "it died")
        else:
            self._due(worker, save_us if training else 0, park)

    def _end(self, command: End) -> None:
        worker = self.workers.get(command.node)
        if worker is not None:
            self.require(worker.attempt == command.attempt, f"{command} is for another attempt")
            self._gone(self.workers.pop(command.node))

    def _gone(self, worker: Worker) -> None:
        """A worker is gone; what it was about to say may still be under way."""
        doing = worker.doing
        self.forget_orphan(worker.attempt)
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

    def _delete(self, command: Delete) -> None:
        checkpoint = command.checkpoint
        self.require(checkpoint in self.disk, f"{checkpoint} is deleted, but is not there")
        loads = [w for w in self.workers.values() if w.is_loading(checkpoint, self.at)]
        self.require(not loads, f"{checkpoint} is deleted while it is loaded")
        del self.disk[checkpoint]

    def _set_timer(self, command: SetTimer) -> None:
        name = command.timer
        self.require(name not in self.timers, f"timer {name} is set twice")
        self._number += 1
        number = self.timers[name] = self._number

        def fire() -> TimerFired | None:
            if self.timers.get(name) != number:
                return None
            del self.timers[name]
            return TimerFired(self.at, name)

        self.after(command.delay_us, fire)

    def _cancel_timer(self, command: CancelTimer) -> None:
        if self.timers.pop(command.timer, None) is not None:
            self.cancelled.append(TimerFired(0, command.timer))

    def _withdraw(self, command: Withdraw) -> None:
        self.withdrawn.add(command.node)
