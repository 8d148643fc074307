"""The swarm's world: carries out commands, badly.

It refuses commands that could not be carried out: a node given away that is not free, a
checkpoint to be loaded that is not there.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from simsched.events import (
    Adopt,
    CancelTimer,
    Command,
    Delete,
    End,
    Ended,
    Event,
    Keep,
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
    Withdraw,
)
from simsched.messages import Checkpoint
from simsched.testing.swarm_cluster import NO_FAULTS, PATIENCE_US, Cluster
from simsched.testing.swarm_draw import Story
from simsched.testing.swarm_worker import Worker

__all__ = ["NO_FAULTS", "World"]


class World(Cluster):
    """A cluster that does what it is told."""

    def __init__(self, story: Story, dice: random.Random, tally: Counter[str]) -> None:
        super().__init__(story, dice, tally)
        self._carry: dict[type, Callable[[Any], None]] = {
            Start: self._start, Train: self._train, Save: self._save, Adopt: self._adopt,
            Park: self._park, End: self._end, Delete: self._delete, SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer, Withdraw: self._withdraw, Keep: self._keep_on,
            Snapshot: self._snapshot,
        }  # fmt: skip

    def carry_out(self, command: Command) -> None:
        """Carry out one command. Raises Violation if that cannot be."""
        carry = self._carry.get(type(command))
        if carry is not None:
            carry(command)

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
        else:
            self._ends_somehow(worker, command, censored=censored)

    def _ends_somehow(
        self, worker: Worker, command: Start | Train | Adopt, *, censored: bool
    ) -> None:
        if self.roll(self.rates.death):
            self._fails_after(worker, self.dice.randint(0, worker.leg_us), "it died")
        elif self.roll(self.rates.stuck + self.rates.lost):
            self._fails_after(worker, worker.leg_us + PATIENCE_US, "it said nothing", lost=True)
        else:
            self._due(worker, worker.leg_us, lambda: self._reports(worker, command, censored))

    def _reports(
        self, worker: Worker, command: Start | Train | Adopt, censored: bool
    ) -> Reported | Ended:
        _, start_us, load_us, redo_us = worker.spent(self.at)
        reached = worker.goal
        worker.waits(reached)
        if censored:
            worker.dead = True
            return Ended(self.at, worker.node, worker.attempt, reached, start_us, load_us)
        score = None if self.roll(self.rates.diverge) else self._score(worker.trial, command.until)
        return Reported(
            self.at, worker.node, worker.attempt, command.until, score, reached,
            start_us, load_us, redo_us,
        )  # fmt: skip

    def _score(self, trial: int, step: int) -> float:
        dice, kind = self.dice, self.story.scores
        if kind == "fixed":
            return random.Random(f"{self.story.seed} {trial} {step}").random()
        if kind == "ties":
            return float(dice.randint(0, 2))
        if kind == "rising":
            return step / 10 + dice.random()
        if kind == "noise":
            return dice.uniform(-1, 1)
        return dice.choice((-1e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1e308))

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
            self._says_saved(worker)
            return Saved(self.at, worker.node, worker.attempt)

        self._due(worker, save_us, save)
        if lost:
            self._fails_after(worker, save_us + PATIENCE_US, "it said nothing", lost=True)

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
            self._says_saved(worker)
            return Parked(
                self.at, worker.node, worker.attempt, step, reached,
                start_us, load_us, redo_us, saved_us,
            )  # fmt: skip

        worker.parks(command, reached)
        if training and self.roll(self.rates.death):
            self._fails_after(worker, self.dice.randint(0, save_us), "it died")
        else:
            self._due(worker, save_us if training else 0, park)

    def _keep_on(self, command: Keep) -> None:
        """A paused trial keeps its worker, which may die while it waits."""
        worker = self._worker(command)
        if worker is not None and self.roll(self.rates.death):
            self._fails_after(worker, self.dice.choice((0, 1_000, 1_000_000)), "it died")

    def _snapshot(self, command: Snapshot) -> None:
        """Save a trial in mid-phase, and let it train on, if it trains."""
        worker = self.workers.get(command.node)
        if worker is None or worker.dead:
            return
        self.require(worker.attempt == command.attempt, f"{command} is for another attempt")
        leg = worker.doing
        spent = worker.spent(self.at)
        if not isinstance(leg, Start | Train | Adopt) or not worker.is_training(self.at):
            self.after(0, lambda: self._snapped(worker, -1, worker.count))
            return
        if self._cannot_save():
            self.after(0, lambda: self._snapped(worker, -1, spent[0]))
            return
        reached, save_us = spent[0], self.story.costs_us[2]
        worker.snaps(reached)

        def snap() -> Event | None:
            self._keep(worker, Checkpoint(worker.trial, int(reached)), reached)
            self._says_saved(worker)
            worker.goes_on(self.at)
            self._ends_somehow(worker, leg, censored=False)
            return self._snapped(worker, int(reached), *spent, save_us)

        self._due(worker, save_us, snap)

    def _snapped(self, worker: Worker, step: int, reached: float, *us: int) -> Snapped | None:
        if self.workers.get(worker.node) is not worker or worker.dead:
            return None
        return Snapped(self.at, worker.node, worker.attempt, step, reached, *us)

    def _end(self, command: End) -> None:
        worker = self.workers.get(command.node)
        if worker is not None:
            self.require(worker.attempt == command.attempt, f"{command} is for another attempt")
            self._gone(self.workers.pop(command.node))

    def _delete(self, command: Delete) -> None:
        checkpoint = command.checkpoint
        if self.coordinator is not None and checkpoint in self.coordinator.shelf:
            return  # it was saved anew since
        if checkpoint in self.forgotten:
            return  # it was being saved anew when its worker was ended
        self.require(checkpoint in self.disk, f"{checkpoint} is deleted, but is not there")
        loads = [
            worker
            for worker in self.workers.values()
            if worker.is_loading(checkpoint, self.at) and checkpoint not in self.damaged
        ]
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
