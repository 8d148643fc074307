"""The simulator again: one heap of (time, node), lists that are searched from the start."""

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from naive.base import Naive, Params, Perturb, Suggest
from naive.schedulers import NAIVE
from simsched.messages import Checkpoint, Continue, Exploit, Pause, Run, Stop
from simsched.traces import Trace

KINDS = ("train", "start", "save", "load", "wait", "idle")


class TooShortError(ValueError):
    """A milestone lies beyond the end of a complete trace."""


@dataclass
class Told:
    """A report, and the answer; `score` in the program's own sense (larger is better)."""

    at_us: int
    node: int
    trial: int
    step: int
    score: float | None
    verdict: str
    retired: tuple[int, ...]


@dataclass
class NaiveResult:
    decisions: list[Told]
    wall_us: int
    node_us: dict[str, int]
    saves: int
    loads: int
    fates: dict[int, str]
    abandoned: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)
    """(at_us, node, trial, retired) of each trial that its trace could not carry on."""
    binds: int = 0
    """Runs that were bound to the node that was still saving their trial."""


@dataclass
class Member:
    """A trial, as far as its replay has come. `row` is that of its last milestone."""

    trace: Trace
    row: int = -1
    last_score: float | None = None


@dataclass
class Node:
    number: int
    doing: str = "down"  # down, idle, saving, waiting or working
    trial: int = -1
    step: int = -1  # of the save in hand
    since: int = 0
    then: Callable[[int], None] | None = None  # what its next event does
    bound: Run | None = None  # a run that begins here when the save in hand is done
    wanted: Checkpoint | None = None  # what a waiting node waits for


def count(trace: Trace, row: int, unit: str) -> float:
    """The trial's count at a row."""
    if unit == "reports":
        return sum(not math.isnan(s) for s in trace.score[: row + 1])
    column = {"episodes": trace.episodes, "steps": trace.steps, "seconds": trace.seconds}[unit]
    return float(column[row])


def scored(trace: Trace, start: int, end: int) -> list[float]:
    """The scores of rows start … end, the last included."""
    return [float(s) for s in trace.score[start : end + 1] if not math.isnan(s)]


def milestone(trace: Trace, after: int, until: int, unit: str) -> int | None:
    """The row of the milestone, or None if the trace ends before it."""
    for row in range(max(0, after), len(trace.score)):
        if count(trace, row, unit) >= until and scored(trace, 0, row):
            return row
    return None


class Engine:
    def __init__(
        self, scheduler: Naive, traces: list[Trace], *, unit: str, nodes: int,
        speeds: tuple[float, ...], start_us: int, save_us: int, load_us: int, mode: str,
    ) -> None:  # fmt: skip
        self.scheduler = scheduler
        self.traces = traces
        self.unit = unit
        self.speeds = speeds
        self.cost = {"start": start_us, "save": save_us, "load": load_us}
        self.sign = -1 if mode == "min" else 1
        self.saves_at_milestones = NAIVE["pbt"] is type(scheduler)
        self.nodes = [Node(n) for n in range(nodes)]
        self.members: dict[int, Member] = {}
        self.heap: list[tuple[int, int]] = []
        self.saved: list[Checkpoint] = []
        self.node_us: Counter[str] = Counter()
        self.result = NaiveResult([], 0, {}, 0, 0, {})

    def run(self) -> NaiveResult:
        now = 0
        for node in self.nodes:
            self.at(node, 0, self.comes_up(node))
        while self.heap:
            now, number = heapq.heappop(self.heap)
            then = self.nodes[number].then
            assert then is not None
            self.nodes[number].then = None
            then(now)
            self.give_work(now)
        assert self.scheduler.done()
        busy = sum(self.node_us.values())
        self.node_us["idle"] = len(self.nodes) * now - busy
        self.result.wall_us = now
        self.result.node_us = {kind: self.node_us[kind] for kind in KINDS}
        return self.result

    def at(self, node: Node, time: int, then: Callable[[int], None]) -> None:
        assert node.then is None
        node.then = then
        heapq.heappush(self.heap, (time, node.number))

    def spend(self, kind: str) -> int:
        self.node_us[kind] += self.cost[kind]
        return self.cost[kind]

    def comes_up(self, node: Node) -> Callable[[int], None]:
        def then(_: int) -> None:
            node.doing = "idle"

        return then

    def give_work(self, now: int) -> None:
        while idle := [node for node in self.nodes if node.doing == "idle"]:
            run = self.scheduler.ask()
            if run is None:
                return
            self.take(idle[0], run, now)

    def take(self, node: Node, run: Run, now: int) -> None:
        if run.trial not in self.members:
            self.members[run.trial] = Member(self.traces[run.trial])
        if run.source is not None:
            saving = self.saving(run.source)
            if saving is not None and run.source.trial == run.trial:
                saving.bound = run
                self.result.binds += 1
                return
            if saving is not None:
                self.wait(node, run.source, now, lambda at: self.begin(node, run, at))
                return
        self.begin(node, run, now)

    def saving(self, source: Checkpoint) -> Node | None:
        """The node that is still saving this checkpoint, or None if it is durable."""
        for node in self.nodes:
            if node.doing == "saving" and Checkpoint(node.trial, node.step) == source:
                return node
        assert source in self.saved
        return None

    def wait(self, node: Node, source: Checkpoint, now: int, then: Callable[[int], None]) -> None:
        node.doing, node.since, node.wanted, node.then = "waiting", now, source, then

    def begin(self, node: Node, run: Run, now: int) -> None:
        time = now + self.spend("start")
        if run.source is not None:
            time += self.load()
        self.train(node, run.trial, run.until, time)

    def load(self) -> int:
        self.result.loads += 1
        return self.spend("load")

    def train(self, node: Node, trial: int, until: int, start: int) -> None:
        """Train from `start` on up to the milestone, or to where the trace ends."""
        node.doing, node.trial = "working", trial
        member = self.members[trial]
        trace, last = member.trace, len(member.trace.score) - 1
        row = milestone(trace, member.row, until, self.unit)
        if row is None and trace.end == "complete":
            raise TooShortError(f"trial {trial}")
        diverges = trace.end == "diverged" and row in (None, last)
        is_over = row is None and trace.end == "censored"
        target = last if row is None else row
        before = round(float(trace.seconds[member.row]) * 1e6) if member.row >= 0 else 0
        gap = round(float(trace.seconds[target]) * 1e6) - before
        leg = round(gap / self.speeds[node.number % len(self.speeds)])
        self.node_us["train"] += leg

        def then(at: int) -> None:
            first, member.row = member.row + 1, target
            if is_over:
                self.ends(node, trial, at)
                return
            new = scored(trace, first, target)
            if new:
                member.last_score = self.sign * (math.fsum(new) / len(new))
            self.tell(node, trial, until, None if diverges else member.last_score, at)

        self.at(node, start + leg, then)

    def ends(self, node: Node, trial: int, now: int) -> None:
        """A censored trace is over."""
        retired = self.scheduler.abandon(trial)
        self.result.abandoned.append((now, node.number, trial, retired))
        self.result.fates[trial] = "censored"
        self.result.fates.update(dict.fromkeys(retired, "stopped"))
        node.doing = "idle"

    def tell(self, node: Node, trial: int, step: int, score: float | None, now: int) -> None:
        decision = self.scheduler.tell(trial, step, score)
        verdict = decision.verdict
        name = type(verdict).__name__.lower()
        self.result.decisions.append(
            Told(now, node.number, trial, step, score, name, decision.retired)
        )
        self.result.fates.update(dict.fromkeys(decision.retired, "stopped"))
        if isinstance(verdict, Stop):
            finished = "finished" if step == self.scheduler.maximum else "stopped"
            self.result.fates[trial] = "diverged" if score is None else finished
            node.doing = "idle"
        elif isinstance(verdict, Pause):
            if verdict.save:
                self.save(node, trial, step, now, lambda at: self.rest(node, at))
            else:
                node.doing = "idle"
        elif isinstance(verdict, Continue):
            if self.saves_at_milestones:
                until = verdict.until
                self.save(node, trial, step, now, lambda at: self.train(node, trial, until, at))
            else:
                self.train(node, trial, verdict.until, now)
        else:
            self.exploit(node, trial, verdict, now)

    def exploit(self, node: Node, trial: int, verdict: Exploit, now: int) -> None:
        def then(at: int) -> None:
            self.train(node, trial, verdict.until, at + self.load())

        if self.saving(verdict.donor) is None:
            then(now)
        else:
            self.wait(node, verdict.donor, now, then)

    def save(
        self, node: Node, trial: int, step: int, now: int, after: Callable[[int], None]
    ) -> None:
        node.doing, node.trial, node.step = "saving", trial, step
        self.result.saves += 1

        def then(at: int) -> None:
            checkpoint = Checkpoint(trial, step)
            self.saved.append(checkpoint)
            after(at)
            for other in self.nodes:
                if other.doing == "waiting" and other.wanted == checkpoint:
                    self.node_us["wait"] += at - other.since
                    begin, other.then, other.wanted = other.then, None, None
                    assert begin is not None
                    begin(at)

        self.at(node, now + self.spend("save"), then)

    def rest(self, node: Node, now: int) -> None:
        """A pause's save is done: the node is free, or goes on with what was bound to it."""
        run, node.bound = node.bound, None
        node.doing = "idle"
        if run is not None:
            self.begin(node, run, now)


def naive_run(
    scheduler_name: str, params: Params, traces: list[Trace], trials: int, phases: int,
    phase_length: int, unit: str, nodes: int, speeds: tuple[float, ...], start_us: int,
    save_us: int, load_us: int, seed: int, suggest: Suggest, perturb: Perturb, mode: str = "max",
) -> NaiveResult:  # fmt: skip
    """Simulate one run; trial i replays traces[i]. Raises TooShortError."""
    scheduler = NAIVE[scheduler_name](params, trials, phases, phase_length, seed, suggest, perturb)
    return Engine(
        scheduler, traces, unit=unit, nodes=nodes, speeds=speeds, start_us=start_us,
        save_us=save_us, load_us=load_us, mode=mode,
    ).run()  # fmt: skip
