"""One seed of the swarm: the control plane that live runs, in a world where much goes wrong.

Events come in batches, as they do live: all are fed, then the journal is synced, then the
commands are carried out. The coordinator may die anywhere in that; what it had written since
the last sync may be lost, up to any byte. A fresh one then goes on from the journal.
"""

import hashlib
import io
import random
from collections import Counter
from pathlib import Path
from typing import IO, cast

import msgspec

from simsched.control import Control
from simsched.coordinator import Coordinator
from simsched.events import Command, Event, NodeDown, Parked, Recovered, Saved, Snapped
from simsched.journal import Journal, Record, read_tail, replay_ledger
from simsched.ledger import Ledger
from simsched.recovery import replay
from simsched.testing.invariants import Books, Violation
from simsched.testing.invariants_state import check, check_end, check_silent
from simsched.testing.swarm_draw import Story, draw
from simsched.testing.swarm_faults import Faults
from simsched.testing.swarm_world import NO_FAULTS, World

LONGEST = 20_000
"""Steps of the world after the faults have ceased; more means that a run does not end."""


class JournalFile(io.BytesIO):
    """A file in memory, on a disk that may be full."""

    limit: int | None = None

    def write(self, data: object) -> int:
        """Write what fits. Raises OSError when that is not all."""
        whole = bytes(data)  # type: ignore[call-overload]
        if self.limit is None or self.tell() + len(whole) <= self.limit:
            return super().write(whole)
        super().write(whole[: max(0, self.limit - self.tell())])
        raise OSError(28, "No space left on device")


class _Bytes:
    """What stands for the journal's path: it can be opened for reading."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def open(self, mode: str) -> IO[bytes]:
        """Open it anew."""
        if mode != "rb":
            raise ValueError(mode)
        return io.BytesIO(self.data)

    def __str__(self) -> str:
        return "journal"


class Outcome(msgspec.Struct, frozen=True):
    """What came of a seed."""

    seed: int
    violation: str | None
    """One line; None if every rule held."""
    events: int
    tally: dict[str, int]
    digest: str
    """Of the journal: the same seed has the same."""


class Run:
    """A seed's run. `trace`: called with a line for each event, command and fault."""

    def __init__(self, story: Story, trace: object = None) -> None:
        self.story = story
        self.trace = trace
        self.dice = random.Random(f"world {story.seed}")
        self.tally: Counter[str] = Counter()
        self.world = World(story, self.dice, self.tally)
        self.faults = Faults(self.world, self.dice, self.tally)
        self.file = JournalFile()
        self.records: list[Record] = []
        self.synced = 0
        self.synced_records = 0
        self.books = Books(story.policy)
        self.control = Control(
            Coordinator(story.make_scheduler(), story.policy),
            Ledger(story.plan.maximum),
            Journal(self.file, {"seed": story.seed}, story.plan.maximum),
        )
        self._sync()

    def run(self) -> None:
        """Run to the end, however bad the weather. Raises Violation, or what else went wrong."""
        world = self.world
        world.coordinator = self.control.coordinator
        self.feed(self.faults.first_nodes())
        steps = 0
        while not self.control.coordinator.finished:
            steps += 1
            if steps == self.story.calm_after + 1:
                self.say("the faults cease")
                self.feed(self.faults.cease())
                continue
            if steps > self.story.calm_after + LONGEST:
                raise Violation("the run does not end")
            self.step()
        self.end()

    def step(self) -> None:
        """Let time pass: a fault, or what happens next."""
        coordinator = self.control.coordinator
        if coordinator.parked:
            self.say("the run is interrupted")
            self.dies(len(self.file.getvalue()))
            return
        self.no_stall()
        if (stale := self.faults.stale(self.books)) is not None:
            self.record(stale, silent=True)
        # What workers say before a fault, with it and after it comes in one batch, or does not.
        batch = self.gather() if self.dice.random() < 0.5 else []
        before = len(batch)
        batch += self.faults.now()
        if len(batch) == before == 0:
            batch = self.gather()
        elif before == 0 and self.dice.random() < 0.5:
            batch += self.soon(2)
        if batch:
            self.feed(batch)

    def gather(self) -> list[Event]:
        """Return what happens next, and what else does within a moment."""
        world = self.world
        event = world.next()
        if event is None:
            before = self.faults.ceased
            events = self.faults.cease()  # which brings back nodes that are out of service
            if before and not events:
                raise Violation("it stalls: nobody works, and nothing is awaited")
            return events
        return [event, *self.soon(3)]

    def soon(self, most: int) -> list[Event]:
        """Return what happens within a moment."""
        until = self.world.at + self.dice.choice((0, 0, 0, 0, 1_000, 500_000))
        batch: list[Event] = []
        while len(batch) < most and (event := self.world.next(until)) is not None:
            batch.append(event)
        return batch

    def no_stall(self) -> None:
        """While there are nodes, somebody works, or a restart is awaited."""
        coordinator, world = self.control.coordinator, self.world
        nodes = coordinator.nodes - self.books.leaving
        awaited = world.busy or any(name.startswith("retry-") for name in world.timers)
        if nodes and not awaited and not coordinator.parked and not coordinator._cut_off:
            raise Violation(f"it stalls: nodes {nodes} are there, and nobody works")

    def feed(self, batch: list[Event]) -> None:
        """Decide, write down, sync, carry out; or die somewhere in between."""
        dies = self.world.roll(self.world.rates.crash)
        if self.world.roll(self.world.rates.journal_full):
            self.file.limit = self.file.tell() + self.dice.randint(0, 400)
        commands: list[Command] = []
        try:
            for event in batch:
                commands += self.record(event)
                if isinstance(event, NodeDown):  # what it was told before finds nobody there
                    commands = [c for c in commands if getattr(c, "node", None) != event.node]
        except OSError:
            self.tally["fault: the journal's disk is full"] += 1
            self.file.limit = None
            self.dies(self.dice.randint(self.synced, self.file.tell()))
            return
        self.file.limit = None
        if dies and self.dice.random() < 0.5:
            self.tally["fault: crash before the sync"] += 1
            self.dies(self.dice.randint(self.synced, self.file.tell()))
            return
        self._sync()
        if dies:
            self.tally["fault: crash after the sync"] += 1
            commands = commands[: self.dice.randint(0, len(commands))]
        for command in commands:
            self.say(f"    {command}")
            self.tally[type(command).__name__] += 1
            self.world.carry_out(command)
        if dies:
            self.dies(self.file.tell())

    def record(self, event: Event, *, silent: bool = False) -> list[Command]:
        """Feed one event, and check what must hold."""
        control = self.control
        self.say(f"{event}{' (stale)' * silent}")
        self.tally[type(event).__name__] += 1
        stale = self.books.is_stale(event)
        if stale:
            check_silent(control, event)
            commands: list[Command] = []
        else:
            commands = control.feed(event)
        coordinator = control.coordinator
        decision, abandoned = coordinator.decision, coordinator.abandoned
        self.records.append(Record(len(self.records), event, commands, decision, abandoned))
        self.books.observe(event, decision, abandoned, commands)
        check(control, self.books)
        if isinstance(event, Saved | Parked | Snapped) and not silent:
            self.world.was_fed(event, taken=not stale)
        self.faults.was_fed(event)
        return commands

    def _sync(self) -> None:
        self.synced, self.synced_records = self.file.tell(), len(self.records)

    def dies(self, cut: int) -> None:
        """The coordinator is dead, its journal cut there; a fresh one goes on."""
        self.say(f"the coordinator dies: {self.file.tell() - cut} bytes of its journal are lost")
        world, story = self.world, self.story
        world.all_die()
        path = cast(Path, _Bytes(self.file.getvalue()[:cut]))
        coordinator = Coordinator(story.make_scheduler(), story.policy)
        ledger = Ledger(story.plan.maximum)
        _, at, tail = replay(path, coordinator, ledger)
        self._exact_prefix(path)
        self.file = JournalFile()
        self.file.write(path.open("rb").read())
        self.control = Control(coordinator, ledger, Journal.reopen(self.file, tail))
        self._sync()
        self.books = Books(story.policy)
        for record in self.records:
            self.books.observe(record.event, record.decision, record.abandoned, record.commands)
        check(self.control, self.books)
        world.coordinator = coordinator
        if lost := coordinator.shelf.durable - set(world.disk):
            raise Violation(f"{lost} should be on the disk")
        world.disk = {
            each: count for each, count in world.disk.items() if each in coordinator.shelf
        }
        world.at = at + self.dice.choice((0, 0, 1_000_000))
        self.feed([Recovered(world.at), *self.faults.announced(coordinator)])

    def _exact_prefix(self, path: Path) -> None:
        """What is read is what was written, up to the cut; nothing that was synced is lost."""
        found = read_tail(path)[0][1:]
        if len(found) < self.synced_records:
            raise Violation(f"{self.synced_records} records were synced, {len(found)} are there")
        if found != self.records[: len(found)]:
            raise Violation("the journal has other records than were written")
        del self.records[len(found) :]

    def end(self) -> None:
        """Check what is left of the run."""
        world = self.world
        world.at = max(world.at, self.books.at)
        timeline = check_end(self.control, self.books, set(world.timers))
        begun, cut = len(self.books.lives), self.control.coordinator._cut_off
        if begun != self.story.trials and not cut:
            raise Violation(f"{begun} of {self.story.trials} trials began")
        if alive := [worker for worker in world.workers.values() if not worker.dead]:
            raise Violation(f"{len(alive)} workers are left")
        kept = set() if self.control.coordinator._deletes else world.damaged
        if set(world.disk) - kept != self.books.durable - kept:
            raise Violation(f"on the disk, or durable: {set(world.disk) ^ self.books.durable}")
        path = cast(Path, _Bytes(self.file.getvalue()))
        again = replay_ledger(path)
        if again.close(self.books.at) != timeline:
            raise Violation("the journal gives another timeline")
        self._exact_prefix(path)

    def say(self, line: str) -> None:
        """Tell whoever follows the run."""
        if self.trace is not None:
            self.trace(line)  # type: ignore[operator]


def run_seed(seed: int, trace: object = None) -> Outcome:
    """Run a seed; whatever goes wrong is its violation."""
    story = draw(seed)
    violation = None
    run = Run(story, trace)
    try:
        run.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the swarm looks for
        what = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
        violation = " ".join(f"{what}; {story.describe()}, event {len(run.records)}".split())
    digest = hashlib.sha256(run.file.getvalue()).hexdigest()[:16]
    return Outcome(seed, violation, len(run.records), dict(run.tally), digest)


__all__ = ["NO_FAULTS", "Outcome", "Run", "run_seed"]
