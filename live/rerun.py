"""A live search, simulated again from its own curves at the costs that were measured in it.

Twice: *predicted*, with the mean of each cost, as a rehearsal would be that knows them; and
*retraced*, with each start, save, load and hand-over as long as it was where the search had it, so
that what is still off lies in the model and not in the spread of the costs. Both follow the
simulation's own order of events: a decision that depends on who comes first may come out otherwise.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, cast

import msgspec
import simpy

from simsched.cluster import Cluster
from simsched.events import (
    Adopt,
    Command,
    Ended,
    Event,
    NodeUp,
    Reported,
    Save,
    Saved,
    Start,
    TimerFired,
    Train,
)
from simsched.failures import DEADLINE
from simsched.journal import Journal, Record
from simsched.live.past_costs import CostKind, Measured
from simsched.live.past_run import PastRun
from simsched.live.search import configurations
from simsched.messages import Decision, TrialId
from simsched.own_curves import OwnCurves
from simsched.replay import Curve, Neighbours
from simsched.results import RunResult
from simsched.retries import Policy
from simsched.run_result import make_result
from simsched.schedulers import Scheduler, build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster, _Node
from simsched.timeline import Timeline

CostOf: TypeAlias = Callable[[CostKind, TrialId, int], int]
"""What a start, save, load or hand-over of a trial takes at a milestone, in µs."""


class Simulated(NamedTuple):
    """A search that was simulated."""

    result: RunResult
    records: list[Record]

    @property
    def ended_early(self) -> int:
        """Trials that ended because the real search had trained them no further."""
        return sum(isinstance(record.event, Ended) for record in self.records)


class _Records(Journal):
    """Keeps what a journal would hold."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(
        self,
        event: Event,
        decision: Decision | None,
        abandoned: tuple[TrialId, ...],
        commands: list[Command],
    ) -> None:
        """Keep one record."""
        self.records.append(Record(len(self.records), event, commands, decision, abandoned))


class _Deadline(NamedTuple):
    """When a search is cut off, and which trials were under way when the recorded one was."""

    at_us: int
    under_way: frozenset[TrialId]


class _Rerun(SimulatedCluster):
    """A simulated cluster with costs that may differ from place to place, and a deadline."""

    def __init__(
        self,
        scheduler: Scheduler,
        curves: Sequence[Curve],
        neighbours: Neighbours,
        nodes: int,
        maximum: int,
        policy: Policy,
        *,
        cost: CostOf,
        up_us: int,
        deadline: _Deadline | None,
    ) -> None:
        self.kept = _Records()
        super().__init__(scheduler, curves, neighbours, Cluster(nodes), maximum, self.kept, policy)
        self.env = simpy.Environment(initial_time=up_us)
        self._cost = cost
        self._deadline = deadline

    def run(self) -> Timeline:
        """Simulate to the end, or up to the deadline and what happens at that moment."""
        if self._deadline is None:
            return super().run()
        for node in self.nodes:
            self.env.process(self._work(node))
        self.env.run(until=max(self._deadline.at_us, int(self.env.now)) + 1)
        if not self.control.coordinator.finished:
            self.control.feed(TimerFired(int(self.env.now) - 1, DEADLINE))
        return self.ledger.close(self.ledger.last_us)

    def _feed(self, event: Event) -> None:
        if isinstance(event, NodeUp):
            event = NodeUp(int(self.env.now), event.node)
        super()._feed(event)

    def _outcome(self, node: _Node, command: Save | Start | Train | Adopt) -> Event:
        """Begin a command as in the world without costs, and add what it costs here."""
        event = super()._outcome(node, command)
        trial = node.cursor.trial if node.cursor is not None else -1
        if isinstance(event, Saved) and isinstance(command, Save):
            cost_us = self._cost("save", trial, command.checkpoint.step)
            return msgspec.structs.replace(event, at=event.at + cost_us)
        assert isinstance(event, Reported | Ended)  # noqa: S101 - there is nothing else
        assert not isinstance(command, Save)  # noqa: S101
        until, start_us, load_us = command.until, 0, 0
        if isinstance(command, Start | Adopt):
            start_us = self._cost("start" if isinstance(command, Start) else "adopt", trial, until)
            load_us = 0 if command.source is None else self._cost("load", trial, until)
        hand_over_us = self._cost("hand-over", trial, until)
        begun_us = int(self.env.now) + start_us + load_us
        at = max(begun_us, event.at + start_us + load_us + hand_over_us)
        if isinstance(event, Ended) and self._deadline and trial in self._deadline.under_way:
            at = max(at, self._deadline.at_us + 1)  # it was cut off in the midst of its training
        return msgspec.structs.replace(event, at=at, start_us=start_us, load_us=load_us)


def mean_costs(measured: Measured) -> CostOf:
    """Charge the mean of each kind wherever it comes up; 0 for what never happened."""
    means = {kind: cost.mean_us for kind, cost in measured.costs.items()}
    return lambda kind, _trial, _step: means.get(kind, 0)


def retraced_costs(measured: Measured) -> CostOf:
    """Charge what was measured at each place, and the mean where the search had no such thing."""
    means = mean_costs(measured)

    def cost(kind: CostKind, trial: TrialId, step: int) -> int:
        found = measured.places[kind].get((trial, step))
        return means(kind, trial, step) if found is None else found

    return cost


def rerun(
    run: PastRun, cost: CostOf, scheduler: str | None = None, nodes: int | None = None
) -> Simulated:
    """Simulate a past search again.

    Args:
        run: the search.
        cost: what things take.
        scheduler: another one than the search had. If it is PBT, its exploits go on along the
            nearest recorded curve, and the result is approximate.
        nodes: more or fewer than the search had.

    Raises:
        SimschedError: there is no such scheduler, or it does not fit the plan.
    """
    settings = run.settings
    plan, space = settings.plan, settings.search_space
    text = settings.scheduler if scheduler is None else scheduler
    searcher = Given(configurations(settings), space, settings.seed)
    made = build(text, plan, searcher)
    curves = [pieces[0] for pieces in run.curves]
    if text == settings.scheduler:
        later = {trial: pieces[1:] for trial, pieces in enumerate(run.curves)}
        # The world asks nothing else of neighbours than these give.
        neighbours = cast(Neighbours, OwnCurves(curves, later))
    else:
        neighbours = Neighbours(curves, space, plan.phase_length)
    world = _Rerun(
        made, curves, neighbours, nodes or settings.nodes, plan.maximum,
        Policy(save_at=settings.saving.save_at, lazy=settings.preemption == "lazy"),
        cost=cost, up_us=run.up_us, deadline=_deadline(run),
    )  # fmt: skip
    timeline = world.run()
    for record in world.ledger.trials.values():
        record.fate = record.fate or "censored"
    result = make_result(
        text, 0, plan, world.ledger, timeline, run.sign,
        [curve.trace for curve in curves], neighbours.summary(), made.notes,
    )  # fmt: skip
    return Simulated(result, world.kept.records)


def _deadline(run: PastRun) -> _Deadline | None:
    """Return when the search was, or would have been, cut off."""
    under_way = frozenset(each.trial for each in run.result.trials if each.fate == "censored")
    if run.ended != "done":
        return _Deadline(run.result.timeline.end_us, under_way)
    limit_s = run.settings.max_time_s
    return None if limit_s is None else _Deadline(round(limit_s * 1e6), under_way)
