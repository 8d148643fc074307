"""The runs of a comparison: each is a job, a scheduler on a cluster, over the same curves."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import msgspec

from simsched.checkpointing import between_losses_s, parse_saving, save_cost_s
from simsched.cluster import Cluster, as_fleet
from simsched.draws import keyed
from simsched.errors import SimschedError
from simsched.journal import Journal
from simsched.recorded import draw_order, space_of
from simsched.replay import Curve, Neighbours, curve_of
from simsched.results import RunResult, Settings
from simsched.retries import Policy
from simsched.run_result import make_result
from simsched.schedulers import Plan, Scheduler, SchedulerClass, build, register
from simsched.schedulers.pbt import PopulationBasedTraining
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.timeline import US_PER_S
from simsched.traces import TraceSet
from simsched.unreliable import UnreliableCluster, cost_of

LONGEST_US = 2**62
"""Longer runs (146,000 years) leave the 64 bits that figures and tables count in."""

MOST_SAVES = 100_000
"""Of one trial in mid-phase; more would take for ever to simulate."""


class Job(msgspec.Struct, frozen=True):
    """One run to simulate: a scheduler, a cluster size, a replication."""

    scheduler: str
    nodes: int
    workers: int
    replication: int

    @property
    def file_name(self) -> str:
        """A name for its files, the same whatever else is run."""
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in self.scheduler)
        return f"{safe}.nodes-{self.nodes}.workers-{self.workers}.replication-{self.replication}"


class Simulator:
    """Runs jobs over one prepared set of curves."""

    def __init__(self, settings: Settings, recorded: TraceSet, journals: Path | None) -> None:
        self.settings = settings
        self.journals = journals
        self.sign = -1.0 if settings.mode == "min" else 1.0
        self.curves = [curve_of(t, settings.unit, self.sign) for t in recorded.traces]
        self.space = space_of(recorded)

        costs = settings.start_s, settings.save_s, settings.load_s
        self.clusters = {n: Cluster(n, settings.node_speeds, *costs) for n in settings.nodes}
        saving, fleet = parse_saving(settings.checkpoints), settings.cluster
        save_s = settings.save_s if fleet is None else save_cost_s(fleet)
        between_s = None if fleet is None else between_losses_s(fleet)
        self.policy = Policy(
            save_at=saving.save_at,
            lazy=settings.preemption == "lazy",
            save_every_us=saving.interval_us(save_s, between_s),
        )
        every_us = self.policy.save_every_us
        longest_us = max(curve.times_us[-1] for curve in self.curves)
        if every_us is not None and longest_us > MOST_SAVES * every_us:
            raise SimschedError(
                f"checkpoints: {settings.checkpoints}: a trial of {longest_us / US_PER_S:,.0f} s "
                f"would be saved more than {MOST_SAVES:,} times; save less often"
            )

    def check(self) -> None:
        """Refuse schedulers that cannot be, before anything is simulated."""
        for workers, text in product(self.settings.workers, self.settings.schedulers):
            _, made = self._scheduler(Job(text, 1, workers, 0), self.curves[:1] * workers)
            if isinstance(made, PopulationBasedTraining) and not self.space.parameters:
                raise SimschedError(
                    f"{text} changes hyperparameters, but {self.settings.traces} has none "
                    "(columns hp.<name>); leave it out"
                )

    def _scheduler(self, job: Job, curves: Sequence[Curve]) -> tuple[Plan, Scheduler]:
        settings, seed = self.settings, self.settings.seed
        if job.replication:
            seed = int(keyed(seed, "replication", job.replication).integers(2**32))
        plan = Plan(job.workers, settings.phases, settings.phase_length, seed)
        searcher = Given([curve.hparams for curve in curves], self.space, seed)
        try:
            return plan, build(job.scheduler, plan, searcher)
        except OverflowError:
            raise SimschedError(
                f"{job.scheduler}: a parameter is too large to compute with; make it smaller"
            ) from None

    def run(self, job: Job) -> RunResult:
        """Simulate one job."""
        curves = [self.curves[i] for i in draw_order(self.settings, job.workers, job.replication)]
        plan, scheduler = self._scheduler(job, curves)
        fleet = self.settings.cluster
        if fleet is None and self.policy.save_every_us is not None:
            fleet = as_fleet(self.clusters[job.nodes])  # only there is anything timed
        neighbours = Neighbours(self.curves, self.space, plan.phase_length)
        with ExitStack() as files:
            journal = None
            if self.journals is not None:
                self.journals.mkdir(parents=True, exist_ok=True)
                path = self.journals / f"{job.file_name}.jsonl"
                file = files.enter_context(path.open("wb"))
                journal = Journal(file, msgspec.to_builtins(job), plan.maximum)
            world: SimulatedCluster
            if fleet is None:
                cluster = self.clusters[job.nodes]
                world = SimulatedCluster(
                    scheduler, curves, neighbours, cluster, plan.maximum, journal, self.policy
                )
            else:
                world = UnreliableCluster(
                    scheduler, curves, neighbours, fleet, plan.maximum, journal, self.policy,
                    seed=plan.seed,
                )  # fmt: skip
            timeline = world.run()
        if timeline.end_us >= LONGEST_US:
            raise SimschedError(
                f"{job.scheduler} on {job.nodes} nodes would take {timeline.end_us / US_PER_S:g} s;"
                " check the units of costs, node speeds and the traces' seconds"
            )
        result = make_result(
            job.scheduler, job.replication, plan, world.ledger, timeline, self.sign,
            [curve.trace for curve in curves], neighbours.summary(), scheduler.notes,
        )  # fmt: skip
        if fleet is None or not isinstance(world, UnreliableCluster):
            return result
        cost = cost_of(fleet, timeline)
        return msgspec.structs.replace(result, lost_nodes=world.lost_nodes, cost=cost)


def prepare(
    setup: tuple[Settings, TraceSet, Path | None, list[SchedulerClass]],
) -> Callable[[Job], RunResult]:
    """Be ready for jobs, in a process of its own, which knows only the built-in schedulers."""
    settings, recorded, journals, schedulers = setup
    for scheduler in schedulers:
        register(scheduler)
    return Simulator(settings, recorded, journals).run
