"""Failures, interruptions and recoveries: a world of dice, and what must hold after every event."""

import random
from collections import defaultdict
from typing import Any

import pytest

from simsched.coordinator import Coordinator
from simsched.events import (
    Adopt,
    Delete,
    End,
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
from simsched.ledger import Ledger
from simsched.messages import Checkpoint
from simsched.retries import Policy
from simsched.schedulers import REGISTRY, Plan, build
from simsched.searchers import RandomSearcher
from simsched.space import PUBLISHED_GA3C

PLAN = Plan(trials=12, phases=4, phase_length=10)


class Dice:
    """Carries out commands, with failures of every kind; checks what is commanded."""

    def __init__(self, scheduler: str, seed: int, policy: Policy, rate: float) -> None:
        self.random = random.Random(seed)
        self.rate = rate
        self.made = lambda: build(scheduler, PLAN, RandomSearcher(PUBLISHED_GA3C, 0))
        self.policy = policy
        self.coordinator = Coordinator(self.made(), policy)
        self.ledger = Ledger(PLAN.maximum)
        self.at = 0
        self.doing: dict[int, Any] = {}
        """By node: the command that its worker carries out."""
        self.on: dict[int, tuple[int, int, float]] = {}
        """By node: trial, attempt, true count."""
        self.disk: set[Checkpoint] = set()
        self.timers: set[str] = set()
        self.told: dict[int, list[int]] = defaultdict(list)
        self.over: set[int] = set()
        self.history: list[Event] = []
        self.answers: list[list[Any]] = []

    def feed(self, event: Event) -> None:
        coordinator = self.coordinator
        commands = coordinator.handle(event)
        self.history.append(event)
        self.answers.append(commands)
        decision = coordinator.decision
        if decision is not None and isinstance(event, Reported):
            self.told[self.on[event.node][0]].append(event.step)
        self.ledger.observe(event, decision, coordinator.abandoned, commands)
        for command in commands:
            self.carry_out(command)
        trials = [trial for trial, _, _ in self.on.values()]
        assert len(trials) == len(set(trials)), "a trial is on two nodes"
        for milestones in self.told.values():
            assert milestones == sorted(set(milestones)), "a milestone was told twice"

    def carry_out(self, command: Any) -> None:
        if isinstance(command, Start):
            assert command.node not in self.on, "a node was given away that was not free"
            assert command.source is None or command.source in self.disk
            assert command.trial not in self.over
            own = command.source is not None and command.source.trial == command.trial
            count = command.source.step if own and command.source else command.count
            self.on[command.node] = (command.trial, command.attempt, count)
            self.doing[command.node] = command
        elif isinstance(command, Adopt):
            assert command.source in self.disk
            self.doing[command.node] = command
        elif isinstance(command, Train | Save | Park):
            assert self.on[command.node][1] == command.attempt
            self.doing[command.node] = command
        elif isinstance(command, End):
            self.on.pop(command.node, None)
            self.doing.pop(command.node, None)
        elif isinstance(command, Delete):
            assert command.checkpoint in self.disk
            self.disk.discard(command.checkpoint)
        elif isinstance(command, SetTimer):
            self.timers.add(command.timer)
        elif isinstance(command, Over):
            self.over.add(command.trial)
        else:
            assert isinstance(command, Hold | Withdraw) or command.timer in self.timers

    def somebody_moves(self) -> None:
        node = self.random.choice(sorted(self.on))
        event = self.worker_moves(node)
        if event is not None:
            self.doing.pop(node, None)
            self.feed(event)

    def worker_moves(self, node: int) -> Event | None:
        trial, attempt, count = self.on[node]
        doing, self.at = self.doing.get(node), self.at + 1
        if self.random.random() < self.rate:
            spoilt = False
            if isinstance(doing, Start | Adopt) and doing.source and self.random.random() < 0.3:
                spoilt = True
            return Failed(self.at, node, attempt, "dice", count, spoilt=spoilt)
        if isinstance(doing, Save):
            self.disk.add(doing.checkpoint)
            return Saved(self.at, node, attempt)
        if isinstance(doing, Park):
            step = int(count) if self.random.random() < 0.8 and count else -1
            if step >= 0:
                self.disk.add(Checkpoint(trial, step))
            return Parked(self.at, node, attempt, step, count)
        if doing is None:
            return None  # it waits for its answer
        until = doing.until
        count = max(count, until + self.random.choice([0.0, 0.5]))
        self.on[node] = (trial, attempt, count)
        score = None if self.random.random() < self.rate / 4 else self.random.random()
        return Reported(self.at, node, attempt, until, score, count, 0, 0)

    def crash(self) -> None:
        """The coordinator dies; a fresh one is fed the journal and gives the same answers."""
        fresh = Coordinator(self.made(), self.policy)
        assert [fresh.handle(event) for event in self.history] == self.answers
        self.coordinator = fresh
        self.on.clear()
        self.doing.clear()
        self.timers.clear()
        self.at += 1
        self.feed(Recovered(self.at))

    def run(self, nodes: int) -> None:
        for node in range(nodes):
            self.feed(NodeUp(0, node))
        for _ in range(20_000):
            if self.coordinator.finished:
                break
            roll = self.random.random()
            if roll < self.rate / 10:
                self.crash()
            elif roll < self.rate / 5:
                self.interrupt()
            elif self.on and (not self.timers or self.random.random() < 0.8):
                assert self.doing or self.timers, "everybody waits, and for nothing"
                self.somebody_moves()
            elif self.timers:
                timer = self.random.choice(sorted(self.timers))
                self.timers.discard(timer)
                self.at += 1
                self.feed(TimerFired(self.at, timer))
            else:
                assert not self.coordinator.nodes, "it stalled: nobody works, nothing is awaited"
                return
        assert self.coordinator.finished
        assert not self.on

    def interrupt(self) -> None:
        self.at += 1
        self.feed(Interrupted(self.at))
        while not self.coordinator.parked and not self.coordinator.finished:
            self.somebody_moves()
        self.timers.clear()
        if not self.coordinator.finished:
            self.crash()


@pytest.mark.parametrize("scheduler", sorted(REGISTRY))
@pytest.mark.parametrize("rate", [0.0, 0.03, 0.2])
@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 3000), marks=pytest.mark.long)], ids=["", "more"]
)
def test_whatever_fails_the_run_ends_and_nothing_is_told_twice(
    scheduler: str, rate: float, seeds: range
) -> None:
    for seed in seeds:
        policy = Policy(
            save_at=("scheduler", "milestone")[seed % 2],  # type: ignore[arg-type]
            retries=seed % 4,
            delete=seed % 3 > 0,
            node_failures=1000 if seed % 5 else 4,
        )
        dice = Dice(scheduler, seed, policy, rate)
        nodes = 1 + seed % 4
        dice.run(nodes)
        if not dice.coordinator.finished:
            continue  # every node was taken out of service
        timeline = dice.ledger.close(dice.at)
        total = sum(i.end_us - i.start_us for i in timeline.intervals)
        assert total == dice.at * nodes
        fates = {trial: record.fate for trial, record in dice.ledger.trials.items()}
        assert None not in fates.values()
        assert {trial for trial, fate in fates.items() if fate == "lost"} == dice.over
        if policy.delete:
            best = {checkpoint for _, _, checkpoint in dice.coordinator.shelf.best()}
            assert best <= dice.disk
            if dice.coordinator.scheduler.checkpoints != "milestone":
                assert len(dice.disk) <= 3, "checkpoints leaked"
        if rate == 0:
            assert len(fates) == PLAN.trials
