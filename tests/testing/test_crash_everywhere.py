"""The coordinator dies at every record, its journal is cut at every byte and flipped in every one.

What is resumed decides what it would have decided; what is damaged is named. Nothing is silent.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simsched.coordinator import Coordinator
from simsched.errors import SimschedError
from simsched.events import Event, Reported
from simsched.journal import Header, Journal, Record, read_tail
from simsched.ledger import Ledger
from simsched.messages import Decision
from simsched.recovery import replay
from simsched.retries import Policy
from simsched.schedulers import REGISTRY, Plan
from simsched.testing.swarm_draw import Rates, Story
from simsched.testing.swarm_run import Run

IN_ANY_ORDER = ("successive-halving", "hyperband", "random")
"""Schedulers whose decisions do not depend on the order in which reports arrive."""
BUILT_IN = sorted(name for name, kind in REGISTRY.items() if kind.__module__.startswith("simsched"))
Told = list[tuple[int, Reported, Decision]]


def story(scheduler: str, *, nodes: int = 1, trials: int = 4, **policy: Any) -> Story:
    """A run in which nothing fails, and a trial's score at a milestone is always the same."""
    return Story(
        seed=7,
        scheduler=scheduler,
        parameters={},
        plan=Plan(trials, 3, 10),
        given=0,
        policy=Policy(**policy),
        rates=Rates(),
        scores="fixed",
        paces_us=(1_000,) * nodes,
        costs_us=(500, 300, 200),
        late=(),
        calm_after=0,
    )


class Crashing(Run):
    """Dies once, when its journal has `records`: `where` is what is left of the last of them."""

    def __init__(self, story: Story, records: int, where: str) -> None:
        super().__init__(story)
        self.due, self.where = records, where
        self.crashed = False

    def feed(self, batch: list[Event]) -> None:
        before = self.file.tell()
        if self.crashed or len(self.records) + len(batch) < self.due:
            super().feed(batch)
            return
        self.crashed = True
        for event in batch:
            if len(self.records) < self.due:
                before = self.file.tell()
                self.record(event)
        after = self.file.tell()
        if self.where == "synced":
            self._sync()
        cut = {"lost": before, "torn": (before + after) // 2, "written": after, "synced": after}
        self.dies(cut[self.where])


def told(run: Run) -> Told:
    """Return who was told what at which milestone, and what was decided."""
    found: Told = []
    trial_on: dict[int, int] = {}
    for record in run.records:
        if record.decision is not None:
            assert isinstance(record.event, Reported)
            found.append((trial_on[record.event.attempt], record.event, record.decision))
        for command in record.commands:
            if type(command).__name__ == "Start":
                trial_on[command.attempt] = command.trial  # type: ignore[union-attr]
    return found


def decisions(run: Run) -> list[tuple[int, int, float | None, Decision]]:
    return [(trial, event.step, event.score, decision) for trial, event, decision in told(run)]


def finished(run: Run) -> Run:
    run.run()  # checks every invariant, and that the run ends
    return run


@pytest.mark.parametrize("where", ["lost", "torn", "written", "synced"])
@pytest.mark.parametrize("save_at", ["scheduler", "milestone"])
@pytest.mark.parametrize("scheduler", BUILT_IN)
def test_one_node_decides_the_same_wherever_it_crashes(
    scheduler: str, save_at: str, where: str
) -> None:
    plain = story(scheduler, save_at=save_at, delete=True)
    whole = finished(Run(plain))
    expected = decisions(whole)
    assert len({(trial, step) for trial, step, _, _ in expected}) == len(expected)
    for records in range(1, len(whole.records) + 1):
        run = Crashing(plain, records, where)
        finished(run)
        assert run.crashed
        assert decisions(run) == expected


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("scheduler", BUILT_IN)
def test_many_nodes_tell_no_milestone_twice(scheduler: str, lazy: bool) -> None:
    plain = story(scheduler, nodes=3, trials=6, lazy=lazy)
    whole = finished(Run(plain))
    expected = {(trial, step): decision.verdict for trial, step, _, decision in decisions(whole)}
    for records in range(1, len(whole.records)):
        run = finished(Crashing(plain, records, "torn" if records % 2 else "synced"))
        found = decisions(run)
        assert len({(trial, step) for trial, step, _, _ in found}) == len(found)
        if scheduler in IN_ANY_ORDER:
            # Who reports last at a barrier is stopped rather than paused and retired.
            assert {(trial, step) for trial, step, _, _ in found} == set(expected)


@pytest.mark.parametrize("scheduler", BUILT_IN)
def test_a_crash_in_the_recovery_of_a_crash(scheduler: str) -> None:
    plain = story(scheduler, nodes=2, trials=4, save_at="milestone")
    whole = finished(Run(plain))
    keys = {(trial, step) for trial, step, _, _ in decisions(whole)}
    for records in range(2, len(whole.records), 3):
        run = Twice(plain, records, "synced")
        found = decisions(finished(run))
        assert run.crashes == 3
        assert len({(trial, step) for trial, step, _, _ in found}) == len(found)
        if scheduler in IN_ANY_ORDER:
            assert {(trial, step) for trial, step, _, _ in found} == keys


class Twice(Crashing):
    """Dies twice more, right after `Recovered`: unwritten, then written."""

    crashes = 0

    def feed(self, batch: list[Event]) -> None:
        if self.crashes in (1, 2):
            self.crashed, self.due = False, len(self.records) + 1
            self.where = ("lost", "written")[self.crashes - 1]
        super().feed(batch)

    def dies(self, cut: int) -> None:
        self.crashes += 1
        super().dies(cut)


# --- the journal itself ---------------------------------------------------------------------


def small_journal(scheduler: str) -> tuple[bytes, list[Header | Record], Story]:
    """A whole journal that has all there is: saves, a failure, a lost trial, a recovery."""
    plain = msgspec.structs.replace(
        story(scheduler, nodes=2, trials=3, retries=1, delete=True),
        rates=Rates(death=0.15, unsaved=0.2, interrupt=0.05),
        calm_after=30,
    )
    run = finished(Run(plain))
    return run.file.getvalue(), [*run.records], plain


class InMemory:
    """What stands for a path."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def open(self, mode: str) -> io.BytesIO:
        assert mode == "rb"
        return io.BytesIO(self.data)

    def __str__(self) -> str:
        return "j"


def found_in(data: bytes) -> list[Header | Record] | None:
    """Read a journal; None if it is named as damaged. Any other error is a bug."""
    try:
        return read_tail(InMemory(data))[0]  # type: ignore[arg-type]
    except SimschedError as error:
        return None if re.fullmatch("j: [^\n]+", str(error)) else []


@pytest.mark.parametrize("scheduler", ["asha", "pbt"])
def test_a_journal_cut_at_every_byte_is_an_exact_prefix_and_goes_on(scheduler: str) -> None:
    whole, records, plain = small_journal(scheduler)
    everything = read_tail(InMemory(whole))[0]  # type: ignore[arg-type]
    assert everything[1:] == records
    resumed = -1
    for length in range(len(whole)):
        found = found_in(whole[:length])
        # A line that lacks only its end is whole.
        lines = whole[:length].count(b"\n") + (whole[length : length + 1] == b"\n")
        if lines == 0:
            assert found is None
            continue
        assert found == everything[:lines]
        if lines != resumed or whole[length - 1 : length] == b"}":
            resumed = lines
            assert _gone_on(whole[:length], records, plain) == whole


def _gone_on(data: bytes, records: list[Any], plain: Story) -> bytes:
    """Recover from a cut journal, and write the rest as it was."""
    coordinator = Coordinator(plain.make_scheduler(), plain.policy)
    _, _, tail = replay(InMemory(data), coordinator, Ledger(0))  # type: ignore[arg-type]
    file = io.BytesIO(data)
    journal = Journal.reopen(file, tail)
    for record in records[tail.number :]:
        commands = coordinator.handle(record.event)
        assert commands == record.commands
        journal.append(record.event, coordinator.decision, coordinator.abandoned, commands)
    return file.getvalue()


def flips(data: bytes, bits: range | None) -> Iterator[tuple[int, bytes]]:
    for place in range(len(data)):
        for bit in (place % 8,) if bits is None else bits:
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            yield place, bytes(flipped)


@pytest.mark.parametrize("scheduler", ["successive-halving"])
def test_a_journal_with_any_byte_flipped_is_named(scheduler: str) -> None:
    whole, _, _ = small_journal(scheduler)
    for place, flipped in flips(whole, None):
        assert found_in(flipped) is None, f"byte {place} was flipped, and nobody saw it"


@pytest.mark.long
@pytest.mark.parametrize("scheduler", BUILT_IN)
def test_a_journal_with_any_bit_flipped_is_named(scheduler: str) -> None:
    whole, _, _ = small_journal(scheduler)
    for place, flipped in flips(whole, range(8)):
        assert found_in(flipped) is None, f"byte {place} was flipped, and nobody saw it"


@pytest.mark.parametrize("scheduler", BUILT_IN)
def test_a_journal_of_other_settings_is_refused(scheduler: str, tmp_path: Path) -> None:
    """What a fresh coordinator answers otherwise than the journal is an error, not a new run."""
    whole, _, plain = small_journal(scheduler)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole)
    other = msgspec.structs.replace(plain, plan=Plan(3, 3, 20))
    with pytest.raises(SimschedError, match=r"journal\.jsonl: line 2: the scheduler answers"):
        replay(path, Coordinator(other.make_scheduler(), other.policy), Ledger(0))
