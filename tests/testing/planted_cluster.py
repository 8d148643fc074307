"""A small cluster on which workers and nodes are lost: what is there, and what becomes of it.

It keeps the true time of everything that is done, and knows nothing of coordinator and ledger.
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from simsched.events import (
    Event,
    Failed,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Parked,
    Reported,
    Saved,
    TimerFired,
)
from simsched.messages import Checkpoint

START, LOAD, SAVE, UNIT, NOTICE, REPAIR = 3, 5, 17, 10, 25, 60  # µs
FAULTY = 120
"""Events after which nothing fails any more."""


@dataclass
class Rates:
    """Probabilities: that a command's worker dies, that an event is followed by a node's loss."""

    failing: float = 0.0
    leaving: float = 0.0
    stale: float = 0.0
    diverging: float = 0.0


@dataclass
class Worker:
    trial: int
    attempt: int
    count: float
    """When it began what it does."""
    began: int = 0
    until: int = 0
    start_us: int = 0
    load_us: int = 0
    doing: str = ""
    """train, save, park, or nothing: then it waits for its answer."""
    checkpoint: Checkpoint | None = None
    parked: tuple[int, int, int] = (0, 0, 0)
    """Time of start, load, and training again before it was told to park."""
    token: object = field(default_factory=object)
    """A new one for each thing that it does."""


class Cluster:
    def __init__(self, seed: int, rates: Rates, nodes: int) -> None:
        self.random, self.rates = random.Random(seed), rates
        self.count = nodes
        self.at = self.number = self.events = 0
        self.due: list[tuple[int, int, Callable[[], Event | None]]] = []
        self.up: set[int] = set()
        self.leaving: set[int] = set()
        self.workers: dict[int, Worker] = {}
        self.disk: dict[Checkpoint, float] = {}
        self.timers: set[str] = set()
        self.high: dict[int, float] = defaultdict(float)
        self.failed = Counter[int]()
        self.books = Counter[str]()

    def after(self, delay: int, happens: Callable[[], Event | None]) -> None:
        self.number += 1
        heapq.heappush(self.due, (self.at + delay, self.number, happens))

    def roll(self, rate: float) -> bool:
        return self.events < FAULTY and self.random.random() < rate

    def train(self, node: int, worker: Worker, until: int, start_us: int, load_us: int) -> None:
        worker.until, worker.start_us, worker.load_us = until, start_us, load_us
        duration = start_us + load_us + round(max(0.0, until - worker.count) * UNIT)
        self.does("train", node, worker, duration)

    def does(self, what: str, node: int, worker: Worker, duration: int) -> None:
        token = worker.token = object()
        worker.doing, worker.began = what, self.at
        if what != "park" and self.roll(self.rates.failing):
            dies = self.random.randint(0, duration)
            self.after(dies, lambda: self.fails(node, worker, token))
        self.after(duration, lambda: self.ends(node, worker, token))

    def there(self, node: int, worker: Worker, token: object) -> bool:
        return self.workers.get(node) is worker and worker.token is token

    def ends(self, node: int, worker: Worker, token: object) -> Event | None:
        if not self.there(node, worker, token):
            return None
        doing, attempt = worker.doing, worker.attempt
        if doing == "train":
            spent = self.stops_training(worker)
            score = None if self.roll(self.rates.diverging) else float(self.random.randint(0, 9))
            return Reported(self.at, node, attempt, worker.until, score, worker.count, *spent)
        self.stops_saving(worker)
        if doing == "save":
            assert worker.checkpoint is not None
            self.disk[worker.checkpoint] = worker.count
            return Saved(self.at, node, attempt)
        checkpoint = Checkpoint(worker.trial, int(worker.count) if worker.count else -1)
        if worker.count:
            self.disk[checkpoint] = worker.count
        del self.workers[node]
        return Parked(
            self.at, node, attempt, checkpoint.step, worker.count, *worker.parked, save_us=SAVE
        )

    def fails(self, node: int, worker: Worker, token: object) -> Event | None:
        if not self.there(node, worker, token):
            return None
        del self.workers[node]
        self.failed[worker.trial] += 1
        parking = worker.doing == "park"
        spent = worker.parked if parking else self.stops_training(worker)
        saved_us = self.stops_saving(worker)
        return Failed(
            self.at, node, worker.attempt, "it died", worker.count, *spent,
            save_us=saved_us if parking else 0,
        )  # fmt: skip

    def stops_training(self, worker: Worker) -> tuple[int, int, int]:
        """Book what it did since its command; return time of start, load, training again."""
        if worker.doing != "train":
            return (0, 0, 0)
        worker.doing = ""
        left = self.at - worker.began
        start_us = min(left, worker.start_us)
        load_us = min(left - start_us, worker.load_us)
        count = worker.count + (left - start_us - load_us) / UNIT
        high = self.high[worker.trial]
        redo_us = max(0, round((min(high, count) - worker.count) * UNIT))
        self.books += Counter(
            start=start_us, load=load_us, redo=redo_us, train=left - start_us - load_us - redo_us
        )
        self.high[worker.trial], worker.count = max(high, count), count
        return start_us, load_us, redo_us

    def stops_saving(self, worker: Worker) -> int:
        """Book how long it has been saving, if it has; return that."""
        saved_us = self.at - worker.began if worker.doing in ("save", "park") else 0
        worker.doing = ""
        self.books["save"] += saved_us
        return saved_us

    def fires(self, timer: str) -> Event | None:
        if timer not in self.timers:
            return None
        self.timers.discard(timer)
        return TimerFired(self.at, timer)

    def goes_down(self, node: int) -> Event | None:
        if node not in self.up:
            return None
        self.up.discard(node)
        self.leaving.discard(node)
        self.after(REPAIR, lambda: self.comes_up(node))
        worker = self.workers.pop(node, None)
        if worker is None:
            return NodeDown(self.at, node)
        spent = worker.parked if worker.doing == "park" else self.stops_training(worker)
        save_us = self.stops_saving(worker) if worker.doing == "park" else 0
        self.stops_saving(worker)
        return NodeDown(self.at, node, worker.attempt, worker.count, *spent, save_us)

    def comes_up(self, node: int) -> Event:
        self.up.add(node)
        return NodeUp(self.at, node)

    def someone_is_lost(self) -> Event | None:
        node = self.random.choice(sorted(self.up)) if self.up else -1
        if node < 0 or self.random.random() < 0.5:
            return self.goes_down(node)
        self.leaving.add(node)
        self.after(NOTICE, lambda: self.goes_down(node))
        return NodeLeaving(self.at, node)
