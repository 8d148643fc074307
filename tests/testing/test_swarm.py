"""The swarm itself: no seed breaks a rule, every fault happens, a planted bug is found."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from simsched.coordinator import Coordinator
from simsched.events import Event, Failed, NodeDown, Reported
from simsched.failures import Failures
from simsched.ledger import Ledger
from simsched.schedulers import REGISTRY, registered
from simsched.shelf import Shelf
from simsched.testing.swarm import Summary, line_of, outcomes
from simsched.testing.swarm_draw import Rates, draw
from simsched.testing.swarm_run import Outcome, run_seed
from simsched.waiting import IdleNodes

SEEDS, BLOCK = 300, 50
BLOCKS = range(0, SEEDS, BLOCK)

BUILT_IN = set(REGISTRY) - {each.name for each in registered()}


@pytest.fixture(scope="module")
def done() -> dict[int, Summary]:
    """The blocks of seeds that were run so far."""
    return {}


@pytest.mark.parametrize("first", BLOCKS)
def test_no_seed_breaks_a_rule(first: int, done: dict[int, Summary]) -> None:
    done[first] = Summary(first)
    for outcome in outcomes(first, BLOCK):
        done[first].add(outcome)
    assert done[first].violations == []


def test_every_fault_and_every_message_is_met(done: dict[int, Summary]) -> None:
    tally: Counter[str] = Counter()
    for first in BLOCKS:
        if first not in done:  # this test was picked out
            done[first] = Summary(first)
            for outcome in outcomes(first, BLOCK):
                done[first].add(outcome)
        tally.update(done[first].tally)
    # Not here, as they are rare: Hold and CancelTimer.
    names = {
        "NodeUp", "NodeLeaving", "NodeDown", "Reported", "Saved", "Ended", "Failed", "Parked",
        "Snapped", "TimerFired", "Interrupted", "Recovered", "Start", "Train", "Save", "Adopt",
        "End", "Park", "Keep", "Snapshot", "Over", "Delete", "SetTimer", "Withdraw",
        "fault: it died", "fault: it said nothing", "fault: its checkpoint is damaged",
        "fault: its checkpoint could not be kept", "fault: node lost", "fault: node leaves",
        "fault: interrupted", "fault: full disk", "fault: stale message",
        "fault: crash before the sync", "fault: crash after the sync",
        "fault: the journal's disk is full",
    }  # fmt: skip
    assert not {name: tally[name] for name in names if tally[name] < 20}
    assert sum(block.events for block in done.values()) > 20_000


def test_seeds_draw_every_scheduler_with_and_without_each_fault() -> None:
    stories = [draw(seed) for seed in range(400)]
    assert {story.scheduler for story in stories} == BUILT_IN
    for scheduler in (REGISTRY[name] for name in sorted(BUILT_IN)):
        drawn = [s.parameters for s in stories if s.scheduler == scheduler.name]
        for parameter in scheduler.parameters:
            assert any(parameter.name in each for each in drawn)
    for rate in Rates.__struct_fields__:
        off = sum(getattr(story.rates, rate) == 0 for story in stories)
        assert 100 < off < 300
    assert {story.nodes for story in stories} == {1, 2, 3, 4, 5, 8, 16}
    assert len({story.policy for story in map(draw, range(50))}) > 45


def test_a_seed_repeats_to_the_byte() -> None:
    assert [run_seed(seed) for seed in range(20)] == [run_seed(seed) for seed in range(20)]


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, 20_000, 1000))
def test_no_further_seed_breaks_a_rule(first: int) -> None:
    assert [line_of(each) for each in outcomes(first, 1000) if each.violation] == []


# --- the swarm finds what is wrong ----------------------------------------------------------


def first_violation(seeds: range) -> Outcome | None:
    return next((each for each in map(run_seed, seeds) if each.violation is not None), None)


def stale_is_taken(original: Any) -> Any:
    """A message is taken for the present attempt's, whatever its own."""

    def handle(self: Coordinator, event: Event) -> Any:
        slot = None if not isinstance(event, Reported | Failed) else self.slots.get(event.node)
        if slot is not None and not slot.empty:
            event = msgspec.structs.replace(event, attempt=slot.attempt)
        return original(self, event)

    return handle


def given_away_twice(original: Any) -> Any:
    def pop(self: IdleNodes) -> int:
        node: int = original(self)
        if len(self) == 2:
            self.push(node)
        return node

    return pop


def keeps_the_damaged(original: Any) -> Any:
    return lambda self, checkpoint: None


def forgets_failures(original: Any) -> Any:
    def lose(self: Failures, node: int, slot: Any, commands: Any) -> None:
        slot.member.failures = 0
        original(self, node, slot, commands)

    return lose


def forgets_the_trial(original: Any) -> Any:
    """A node that is lost takes its trial along."""

    def down(self: Failures, event: NodeDown, commands: Any) -> None:
        original(self, event, commands)
        while len(self._ready) > 1:
            self._ready.discard(list(self._ready)[-1])

    return down


def books_a_leg_twice(original: Any) -> Any:
    def failed(self: Ledger, event: Failed) -> None:
        before = self._open[event.node]
        original(self, event)
        if self.failures % 3 == 0:
            self._open[event.node] = before

    return failed


@pytest.mark.parametrize(
    ("owner", "name", "bug", "words"),
    [
        (Coordinator, "handle", stale_is_taken, "older attempt|reports"),
        (IdleNodes, "pop", given_away_twice, "idle|busy"),
        (Shelf, "spoilt", keeps_the_damaged, "durable"),
        (Failures, "_lose", forgets_failures, "no retries left"),
        (Failures, "_node_down", forgets_the_trial, "stall|nobody works|does not end"),
        (Ledger, "_failed", books_a_leg_twice, "booked"),
    ],
)
def test_a_planted_bug_is_found(
    owner: type,
    name: str,
    bug: Callable[[Any], Any],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, bug(getattr(owner, name)))
    found = first_violation(range(400))
    assert found is not None, "no seed found it"
    assert found.violation is not None
    assert "\n" not in found.violation
    assert any(word in found.violation for word in words.split("|")), found.violation


# --- the command ----------------------------------------------------------------------------


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-P", "-m", "simsched.testing.swarm", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)


def test_the_command_says_the_same_on_any_number_of_processes() -> None:
    results = []
    for processes in ("1", "2"):
        ran = command("--seeds", "60", "--first-seed", "7", "--processes", processes, "--json")
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr == ""
        result = json.loads(ran.stdout)
        del result["seconds"]
        results.append(result)
    assert results[0] == results[1]
    assert (results[0]["first_seed"], results[0]["seeds"]) == (7, 60)
    assert results[0]["events"] > 1000
    assert results[0]["violations"] == []
    assert results[0]["messages"]["Start"] > results[0]["faults"]["it died"] > 0


def test_one_seed_is_told_event_by_event() -> None:
    ran = command("--seed", "7")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    outcome = run_seed(7)
    assert lines[0].startswith("NodeUp(")
    assert lines[-1].startswith(f"seed 7: {outcome.events} events: every rule held")
    assert sum(line.startswith("Reported(") for line in lines) == outcome.tally["Reported"]


def test_a_violation_is_one_line_that_repeats_it_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from simsched.testing.swarm import main

    monkeypatch.setattr(Shelf, "spoilt", lambda self, checkpoint: None)
    found = first_violation(range(1000))
    assert found is not None
    arguments = ["swarm", "--seeds", "1", "--first-seed", str(found.seed)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert shown.err.startswith(f"seed {found.seed}: ")
    assert shown.err.endswith(f"repeat: python -m simsched.testing.swarm --seed {found.seed}\n")
    assert "1 violation in" in shown.out
    monkeypatch.setattr(sys, "argv", ["swarm", "--seed", str(found.seed)])
    with pytest.raises(SystemExit) as repeated:
        main()
    assert repeated.value.code == 1
    assert found.violation is not None
    assert found.violation in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--seeds", "0"], "--seeds"), (["--seed", "x"], "--seed"), (["--procs", "2"], "--procs")],
)
def test_wrong_options_are_one_line_and_exit_code_2(arguments: list[str], words: str) -> None:
    ran = command(*arguments)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1
    assert words in ran.stderr
