"""The coordinator on a small cluster that fails: what must hold, and books that must balance.

It compares what is commanded with what is there, and the ledger with the cluster's own books. It
knows nothing of how coordinator and ledger work.
"""

import heapq
from collections import Counter
from typing import Any

from planted_cluster import LOAD, SAVE, START, UNIT, Cluster, Rates, Worker

from simsched.control import Control
from simsched.coordinator import Coordinator
from simsched.events import (
    Adopt,
    CancelTimer,
    Delete,
    End,
    Event,
    Failed,
    Over,
    Park,
    Reported,
    Save,
    Saved,
    SetTimer,
    Start,
    Train,
)
from simsched.ledger import Ledger
from simsched.messages import Checkpoint, Decision, Exploit, Report, Run
from simsched.retries import Policy
from simsched.schedulers import Plan, build
from simsched.testing.contract_values import Configurations

LATE = 40
"""Of events after another one, in µs."""


class World(Cluster):
    def __init__(
        self, scheduler: str, seed: int, rates: Rates, *, nodes: int = 3, retries: int = 2,
        save_at: Any = "scheduler", delete: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(seed, rates, nodes)
        self.plan = Plan(9, 4, 4, seed)
        self.policy = Policy(
            save_at=save_at, retries=retries, backoff_us=30, node_failures=10_000, delete=delete
        )
        made: Any = build(scheduler, self.plan, Configurations(self.plan.trials))
        self.watch(made)
        self.coordinator = Coordinator(made, self.policy)
        self.control = Control(self.coordinator, Ledger(self.plan.maximum), None)
        self.calm = rates.failing == rates.leaving == 0
        self.mixes = scheduler.startswith("pbt")
        self.attempts: set[int] = set()
        self.told: dict[int, int] = {}
        self.wanted: dict[int, Checkpoint | None] = {}
        """Where each trial is to go on from, as the scheduler said."""
        self.diverged_again = Counter[int]()
        """How often a trial diverged on its second way to a milestone that it had passed."""
        self.over: set[int] = set()
        self.past: list[Event] = []
        """What workers said; those that are gone may say it again."""
        self.exact = True
        """Whether no worker was ended while it parked: nobody hears what that one did, either."""

    def watch(self, scheduler: Any) -> None:
        """See to it that no milestone is told twice; note where each trial is to go on from."""
        ask, tell = scheduler.ask, scheduler.tell

        def asked() -> Run | None:
            run: Run | None = ask()
            if run is not None:
                self.wanted[run.trial] = run.source
            return run

        def told(report: Report) -> Decision:
            trial, step = report.trial, report.step
            assert step > self.told.get(trial, 0), f"trial {trial} told {step} twice"
            self.told[trial] = step
            decision: Decision = tell(report)
            if isinstance(decision.verdict, Exploit):
                self.wanted[trial] = decision.verdict.donor
            return decision

        scheduler.ask, scheduler.tell = asked, told

    def carry_out(self, command: Any) -> None:
        if isinstance(command, SetTimer):
            self.timers.add(command.timer)
            self.after(command.delay_us, lambda: self.fires(command.timer))
        elif isinstance(command, CancelTimer):
            assert command.timer in self.timers, f"{command} was never set"
            self.timers.discard(command.timer)
        elif isinstance(command, Delete):
            assert command.checkpoint in self.disk, f"{command}: it is not there"
            del self.disk[command.checkpoint]
        elif isinstance(command, Over):
            failures = self.failed[command.trial] + self.diverged_again[command.trial]
            enough = failures > self.policy.retries
            assert enough or self.mixes, f"{command} after {failures} failures"
            self.over.add(command.trial)
        elif isinstance(command, Start):
            self.start(command)
        elif isinstance(command, End):
            worker = self.workers.pop(command.node, None)
            known = worker.attempt if worker is not None else command.attempt
            assert isinstance(known, int), f"{command} of no attempt"
            assert command.attempt == known, f"{command} of attempt {known}"
            if worker is not None and worker.doing == "train":
                # Nobody hears what it did since its command; it was there before, so all is redo.
                self.books["redo"] += self.at - worker.began
            self.exact &= worker is None or worker.doing != "park"
        elif isinstance(command, Train | Save | Park | Adopt):
            worker = self.workers[command.node]
            assert worker.attempt == command.attempt, f"{command}: another attempt is there"
            self.order(command, command.node, worker)

    def start(self, command: Start) -> None:
        node, trial, source = command.node, command.trial, command.source
        assert node in self.up, f"{command}: the node is gone"
        assert node not in self.leaving, f"{command}: the node is leaving"
        assert node not in self.workers, f"{command}: the node is not free"
        assert trial not in {worker.trial for worker in self.workers.values()}, "it runs already"
        assert trial not in self.over, f"{command}: the trial is over"
        count = command.count
        if source is not None:
            assert source in self.disk, f"{command}: its source is not durable"
            count = self.disk[source] if source.trial == trial else count
        else:
            assert trial not in {each.trial for each in self.disk}, (
                f"{command}: it has a checkpoint"
            )
        # Sums of tenths: what is a rounding error further on is nothing to redo.
        high = self.high[trial] if self.high[trial] > count + 1e-6 else 0
        redone = command.redo_until if command.redo_until > count + 1e-6 else 0
        assert abs(redone - high) < 1e-6, f"{command}: it has been at {high}"
        assert source == self.wanted[trial] or not self.calm, (
            f"{command}: wanted {self.wanted[trial]}"
        )
        assert command.attempt not in self.attempts, f"{command}: not a new attempt"
        self.attempts.add(command.attempt)
        worker = self.workers[node] = Worker(trial, command.attempt, count)
        self.train(node, worker, command.until, START, 0 if source is None else LOAD)

    def order(self, command: Any, node: int, worker: Worker) -> None:
        if isinstance(command, Train):
            self.train(node, worker, command.until, 0, 0)
        elif isinstance(command, Adopt):
            assert command.source in self.disk, f"{command}: its source is not durable"
            wanted = self.wanted[worker.trial]
            assert command.source == wanted or not self.calm, f"{command}: wanted {wanted}"
            self.train(node, worker, command.until, 0, LOAD)
        elif isinstance(command, Save):
            worker.checkpoint = command.checkpoint
            self.does("save", node, worker, SAVE)
        else:
            worker.parked = self.stops_training(worker)
            self.does("park", node, worker, SAVE)

    def feed(self, event: Event) -> None:
        self.events += 1
        commands = self.control.feed(event)
        told = self.coordinator.decision is not None
        if isinstance(event, Reported) and event.score is None and not told:
            self.diverged_again[self.workers[event.node].trial] += 1
        for command in commands:
            self.carry_out(command)
        if isinstance(event, Reported | Saved | Failed):
            self.past.append(event)
        if self.past and self.roll(self.rates.stale):
            self.says_it_again(self.random.choice(self.past))
        if self.roll(self.rates.leaving):
            self.after(self.random.randint(1, LATE), self.someone_is_lost)

    def says_it_again(self, event: Any) -> None:
        worker = self.workers.get(event.node)
        if worker is not None and worker.attempt == event.attempt:
            return
        before = self.coordinator.scheduler.snapshot()
        assert self.control.feed(event) == [], f"{event} is stale, and was obeyed"
        assert self.coordinator.scheduler.snapshot() == before, f"{event} is stale, and was told"

    def run(self) -> None:
        for node in range(self.count):
            self.feed(self.comes_up(node))
        while self.due and self.events < 5000:
            self.at, _, happens = heapq.heappop(self.due)
            event = happens()
            if event is not None:
                self.feed(event)
            if self.coordinator.finished:
                break
        assert self.coordinator.finished, "it stalled: nothing is awaited, and it is not over"
        assert not self.workers, "it is over, and somebody works"

    def check_books(self) -> None:
        """The ledger says what the world knows."""
        ledger = self.control.ledger
        timeline = ledger.close(self.at)
        spent = Counter[str]()
        for interval in timeline.intervals:
            spent[interval.kind] += interval.end_us - interval.start_us
        kinds = ("train", "redo", "start", "load", "save")
        told, true = {k: spent[k] for k in kinds}, {k: self.books[k] for k in kinds}
        assert told == true or not self.exact, f"node time: {told}, in truth {true}"
        assert sum(spent.values()) == self.count * self.at, "node time does not add up"
        assert self.books["train"] == round(sum(self.high.values()) * UNIT), "training"
        fates = {trial: record.fate for trial, record in ledger.trials.items()}
        assert None not in fates.values(), f"somebody has no fate: {fates}"
        assert {trial for trial, fate in fates.items() if fate == "lost"} == self.over
        assert ledger.failures == sum(self.failed.values()), "failures"
