"""Known mistakes, each an edit of one function, and the suite that must catch it.

An edit names the function's own text, so that a bug cannot go stale unseen: where the text is not
there any more, its test fails and says so.
"""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import planted_checks as checks
import pytest

from simsched import journal, recovery, simulation
from simsched.coordinator import Coordinator
from simsched.failures import Failures
from simsched.ledger import Ledger
from simsched.replay import Cursor
from simsched.schedulers import _in_place, asha, hyperband, pbt, successive_halving
from simsched.schedulers.asha_stop import AshaStop
from simsched.schedulers.hypertrick import HyperTrick
from simsched.schedulers.median_stopping import MedianStopping
from simsched.slots import Slots
from simsched.waiting import IdleNodes


@dataclass(frozen=True)
class Bug:
    """`old` becomes `new` in the function `owner.name`; `check` then raises, and says `says`."""

    title: str
    owner: Any
    name: str
    old: str
    new: str
    check: Callable[[], None]
    says: str

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.owner, self.name, edited(self.function, self.old, self.new))

    @property
    def function(self) -> Any:
        return self.owner.__dict__[self.name]


def edited(function: Any, old: str, new: str) -> Any:
    """Return the function with a piece of its text replaced."""
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{function.__qualname__} does not say {old!r} once:\n{text}"
    made: dict[str, Any] = {}
    plain = inspect.unwrap(function)
    code = compile(text.replace(old, new), f"<planted in {plain.__qualname__}>", "exec")
    exec(code, plain.__globals__, made)  # noqa: S102 - that is what planting is
    return made[plain.__name__]


def contract(scheduler: str) -> Callable[[], None]:
    return partial(checks.contract, scheduler)


def naive(scheduler: str) -> Callable[[], None]:
    return partial(checks.naive, scheduler)


def simulated(scheduler: str) -> Callable[[], None]:
    return partial(checks.naive_simulation, scheduler)


def world(scheduler: str, rates: str) -> Callable[[], None]:
    return partial(checks.world, scheduler, rates)


BRACKET, BRACKETS = successive_halving.Bracket, successive_halving.Brackets
ASHA, PBT, IN_PLACE = asha.Asha, pbt.PopulationBasedTraining, _in_place.InPlace
HALVING = "successive-halving"

SCHEDULERS = [
    Bug("forgotten barrier on abandonment", BRACKET, "abandon",
        "return self._open_barrier()", "return ()",
        contract(HALVING), "nothing is to be run, yet not done"),
    Bug("a rung's checkpoint off by one", BRACKET, "ask",
        "self.ends[self.rung - 1]", "self.ends[self.rung]",
        contract(HALVING), "which was never saved"),
    Bug("a rung's size off by one", successive_halving, "rung_sizes",
        "whole(sizes[-1] / eta)", "whole(sizes[-1] / eta) + 1",
        naive(HALVING), "but got"),
    Bug("eta rounds to the nearest", successive_halving, "rung_sizes",
        "whole(sizes[-1] / eta)", "round(sizes[-1] / eta)",
        naive(HALVING), "but got"),
    Bug("a tie goes to whoever came first", BRACKET, "_open_barrier",
        "(rank_key(self.paused[trial]), trial)", "rank_key(self.paused[trial])",
        naive(HALVING), "but got"),
    Bug("losers of a rung are forgotten", BRACKET, "_open_barrier",
        "return tuple(sorted(ranked[go_on:]))", "return ()",
        contract(HALVING), "yet .* are paused"),
    Bug("a snapshot of tuples", BRACKET, "snapshot",
        "[list(pair) for pair in self.paused.items()]", "list(self.paused.items())",
        contract(HALVING), "JSON values only"),
    Bug("the last bracket is served first", BRACKETS, "ask",
        "in self.brackets:", "in reversed(self.brackets):",
        contract("hyperband"), "the next number is 0"),
    Bug("a milestone past the end", hyperband, "rung_ends",
        "(*ends, plan.maximum)", "(*ends, plan.maximum + 1)",
        contract("hyperband"), "at most"),
    Bug("what is left over of the budget is lost", hyperband, "allotted",
        "counts[0] += trials - sum(counts)", "counts[-1] += trials - sum(counts)",
        naive("hyperband"), "but got"),
    Bug("promoting a stopped trial", ASHA, "tell",
        "if last or report.score is None:", "if last:",
        contract("asha"), "its weights are to be kept"),
    Bug("one too many is promoted", ASHA, "_in_top",
        "place < whole", "place <= whole",
        naive("asha"), "but got"),
    Bug("who reports retires twice", ASHA, "tell",
        "tuple(t for t in retired if t != report.trial)", "retired",
        contract("asha"), "itself is among the retired"),
    Bug("an abandoned trial is promoted", ASHA, "abandon",
        "paused.remove(entry)", "pass",
        contract("asha"), "is over|is not paused"),
    Bug("paused for ever", ASHA, "_retire_if_over",
        "return tuple(retired)", "return ()",
        contract("asha"), "yet .* are paused|yet not done"),
    Bug("a restored scheduler has lost its rungs", ASHA, "restore",
        'self.reports = ranked(state["reports"])', "pass",
        contract("asha"), "a snapshot read back differs"),
    Bug("the top is one too wide", AshaStop, "goes_on",
        "place_in_rung <", "place_in_rung <=",
        naive("asha-stop"), "but got"),
    Bug("a donor's newest step, which it may not have saved", PBT, "tell",
        "Exploit(donor.weights,", "Exploit(Checkpoint(donor.weights.trial, donor.step),",
        contract("pbt"), "which was never saved"),
    Bug("a copy that is paused saves what it is to forget", PBT, "tell",
        "Pause(save=donor is None)", "Pause()",
        contract("pbt"), "its weights are to be kept"),
    Bug("weights of those that are finished are let go", PBT, "held",
        "if m.weights is not None", "if m.weights and m.step < self.plan.maximum",
        contract("pbt"), "deleted as nothing held it"),
    Bug("an abandoned member comes back", PBT, "abandon",
        "self.waiting.discard((member.step, trial))", "pass",
        contract("pbt"), "is to run, and is over"),
    Bug("a draw from a shared generator", PBT, "_donor",
        "int(rng.integers(candidates))", 'int(__import__("random").random() * candidates)',
        contract("pbt"), "told the same again it answers otherwise"),
    Bug("everybody is below the median of all, itself included", MedianStopping, "goes_on",
        "median = quantile(others, 0.5) if others else None",
        "median = quantile([*others, best], 0.5)",
        naive("median-stopping"), "but got"),
    Bug("who ties with the bar is stopped", HyperTrick, "goes_on",
        "score >= bar", "score > bar",
        naive("hypertrick"), "but got"),
    Bug("data collection ends one report early", HyperTrick, "goes_on",
        "len(scores) <= self.collect[place]", "len(scores) < self.collect[place]",
        naive("hypertrick"), "but got"),
    Bug("asked in vain it counts a trial", IN_PLACE, "ask",
        "return None", "self.started += 1; return None",
        contract("random"), "the searcher has no trial|changed the state"),
    Bug("done while somebody runs", IN_PLACE, "done",
        "self.started == self.trials and not self.running", "self.started == self.trials",
        contract("random"), "done, yet"),
    Bug("what happens last is not awaited", IN_PLACE, "abandon",
        "self.running.remove(trial)", "pass",
        contract("random"), "yet not done"),
]  # fmt: skip

CONTROL_PLANE = [
    Bug("stale report accepted", Coordinator, "handle",
        "slot.attempt != event.attempt or ", "",
        world("asha", "stale"), "is stale|reports"),
    Bug("a node is given away twice", IdleNodes, "pop",
        "self.remove(node)", "heapq.heappush(self._heap, node)",
        world("random", "calm"), "the node is not free"),
    Bug("a pause does not save", Coordinator, "_obey",
        "elif isinstance(verdict, Pause) and not verdict.save:", "elif isinstance(verdict, Pause):",
        world(HALVING, "calm"), "fate='lost'.* after 0 failures"),
    Bug("save not awaited", Coordinator, "_obey",
        "elif isinstance(verdict, Pause):\n        self._save(node, slot, commands, release=True)",
        "elif isinstance(verdict, Pause):\n        self._save(node, slot, commands, release=True)"
        "; self._free(node, slot, commands)",
        world(HALVING, "calm"), "fate='lost'.* after 0 failures|stalled"),
    Bug("donor not durable", Coordinator, "_save",
        "slot.release = release", "slot.release = release; self.shelf.add(slot.saving)",
        world("pbt", "calm"), "its source is not durable|it is not there"),
    Bug("retry counts preemption", Failures, "_move_on",
        "self._leave(node, slot)", "self._leave(node, slot); slot.member.failures += 1",
        world("random", "all"), "fate='lost'.* after"),
    Bug("one retry too few", Failures, "_lose",
        "member.failures > self.policy.retries", "member.failures >= self.policy.retries",
        world("random", "failing"), "fate='lost'.* after 2 failures"),
    Bug("lost save ignored", Failures, "_lose",
        "slot.again = slot.saving is not None", "slot.saving = None",
        world(HALVING, "failing"), "told .* twice"),
    Bug("a node that is leaving gets work", Slots, "_offer",
        "if node not in self._leaving:", "if True:",
        world("random", "leaving"), "the node is leaving"),
    Bug("a node that is lost keeps its trial", Failures, "_node_down",
        "self._move_on(node, slot, commands, end=False)", "pass",
        world("random", "leaving"), "stalled|came up|node|not free"),
    Bug("what was trained by those that died is forgotten", Failures, "_failed",
        "member.high = max(member.high, event.reached)", "pass",
        world("random", "failing"), "it has been at"),
    Bug("a restart forgets the newest checkpoint", Coordinator, "_saved",
        "slot.member.origin, slot.member.at = checkpoint, slot.member.reached", "pass",
        world("random", "failing"), "it has a checkpoint"),
    Bug("a restart is no new attempt", Slots, "_relaunch",
        "self._attempts += 1", "pass",
        world("random", "failing"), "not a new attempt"),
    Bug("a donor's checkpoint is deleted", Failures, "_clear_out",
        "needed.update(self._held())", "pass",
        world("pbt", "calm"), "wanted"),
    Bug("redo time booked as training", Ledger, "_close_leg",
        '"redo"', '"train"',
        world("random", "failing"), "node time"),
    Bug("the last moments of a worker that dies are not booked as they were", Ledger, "_failed",
        "self._ends_saving(event)", "self._stop_doing(event.node, event.at)",
        world("random", "failing"), "node time"),
    Bug("a worker that is ended on its second way is booked as training", Ledger, "_command",
        'kind = "redo"', "pass",
        world(HALVING, "failing"), "node time"),
    Bug("a node that is down is idle", Ledger, "_down",
        'self._open[event.node] = ("down", event.at, -1, -1, -1)',
        "pass",
        world("random", "leaving"), "node time"),
]  # fmt: skip

WORLDS = [
    Bug("future score read", Cursor, "advance",
        "curve.scores[self.row + 1 : row + 1]", "curve.scores[self.row + 1 : row + 2]",
        checks.future, "was read when"),
    Bug("a milestone one row late", Cursor, "advance",
        "counts[row] < until:", "counts[row] <= until:",
        simulated("random"), "decision|wall_us|ends at"),
    Bug("fast nodes are slow", simulation.SimulatedCluster, "_outcome",
        "leg.duration_us / node.speed", "leg.duration_us * node.speed",
        simulated("random"), "decision|wall_us"),
    Bug("events of one instant in any order", simulation.Tick, "__init__",
        "_BY_NODE + node", "_BY_NODE - node + 1000",
        simulated("asha"), "decision"),
    Bug("a resume costs nothing", simulation.SimulatedCluster, "_outcome",
        "load_us = self.load_us if command.source is not None else 0", "load_us = 0",
        simulated("asha"), "decision|wall_us|node_us"),
    Bug("a torn line stays in the journal", journal.Journal, "reopen",
        "file.truncate(tail.end)\n    file.seek(tail.end)", "file.seek(0, 2)",
        checks.journal_cut, "At index"),
    Bug("a journal of other settings is taken up", recovery, "replay",
        "if answers != ", "if () != () and answers != ",
        checks.foreign_journal, "DID NOT RAISE|reports"),
]  # fmt: skip
