"""`simulate`: schedulers side by side, on the same recorded trials and the same cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import msgspec

from simsched._version import __version__
from simsched.cluster import Cluster
from simsched.draws import keyed
from simsched.errors import SimschedError
from simsched.journal import Journal
from simsched.processes import side_by_side
from simsched.recorded import check_lengths, default_phase_length, draw_order, name_of, space_of
from simsched.replay import Curve, Neighbours, Unit, curve_of
from simsched.results import Comparison, RunResult, Settings
from simsched.run_result import make_result
from simsched.schedulers import Plan, Scheduler, build, parse
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.timeline import US_PER_S
from simsched.traces import TraceSet, load

DEFAULT_SCHEDULERS = ("successive-halving", "hyperband", "hypertrick", "pbt")
UNITS: tuple[Unit, ...] = ("episodes", "steps", "seconds", "reports")
LONGEST_US = 2**62
"""Longer runs (146,000 years) leave the 64 bits that figures and tables count in."""


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


def simulate(
    traces: str | Path | TraceSet = "MsPacman",
    *,
    nodes: int | Sequence[int] = 6,
    workers: int | Sequence[int] | None = None,
    schedulers: Sequence[str] | None = None,
    phases: int = 4,
    phase_length: int | None = None,
    unit: Unit = "steps",
    start_s: float = 0.0,
    save_s: float = 0.0,
    load_s: float = 0.0,
    node_speeds: Sequence[float] = (1.0,),
    replications: int = 1,
    resample: bool = False,
    seed: int = 0,
    jobs: int = 1,
    journals: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Rehearse a hyperparameter search: replay recorded curves through real schedulers.

    Args:
        traces: name of shipped curves, a trace file, or a `TraceSet`.
        nodes: how many trials train at a time; several numbers are compared.
        workers: how many trials are searched over; all recorded ones, at most 16, by default.
        schedulers: "name" or "name:key=value,…", see `simsched.schedulers`; by default
            `DEFAULT_SCHEDULERS`, without PBT if the curves have no hyperparameters.
        phases: of how many phases a trial's full length is.
        phase_length: of a phase, in `unit`; by default the longest that fits every complete
            recorded trial, rounded down to two digits.
        unit: what progress is counted in.
        start_s: seconds to start a worker.
        save_s: seconds to save a checkpoint.
        load_s: seconds to load one.
        node_speeds: speed factor of each node, taken round and round.
        replications: the first replays the trials in the order of the file, further ones draw
            trials and order; all schedulers see the same.
        resample: draw with replacement, so that there may be more workers than recorded trials.
        seed: of all draws.
        jobs: processes that simulate side by side; the result does not depend on it.
        journals: a folder to write the journal of each run into.
        progress: called with the numbers of runs done and of all.

    Returns:
        Settings and runs, ordered by nodes, workers, scheduler, replication.

    Raises:
        SimschedError: an option that makes no sense, with what would.
        TraceError: a trace file that cannot be used.
    """
    recorded = traces if isinstance(traces, TraceSet) else load(str(traces))
    limit = len(recorded.traces)
    node_counts = (nodes,) if isinstance(nodes, int) else tuple(nodes)
    if workers is None:
        workers = min(16, limit)
    worker_counts = (workers,) if isinstance(workers, int) else tuple(workers)
    if schedulers is None:
        schedulers = default_schedulers(recorded)
    settings = Settings(
        version=__version__,
        traces=name_of(recorded),
        traces_sha256=recorded.sha256,
        game=recorded.meta.game,
        metric=recorded.meta.metric,
        mode=recorded.meta.mode,
        synthetic=recorded.meta.synthetic,
        recorded_trials=limit,
        nodes=node_counts,
        node_speeds=tuple(float(speed) for speed in node_speeds),
        workers=worker_counts,
        schedulers=tuple(schedulers),
        phases=phases,
        phase_length=1 if phase_length is None else phase_length,
        unit=unit,
        start_s=start_s,
        save_s=save_s,
        load_s=load_s,
        replications=replications,
        resample=resample,
        seed=seed,
    )
    _check(settings, jobs)
    if phase_length is None:
        phase_length = default_phase_length(recorded, unit, phases)
        settings = msgspec.structs.replace(settings, phase_length=phase_length)
    check_lengths(recorded, unit, phases, phase_length)
    simulator = _Simulator(settings, recorded, journals)
    simulator.check()
    axes = product(node_counts, worker_counts, schedulers, range(replications))
    todo = [Job(scheduler, n, w, replication) for n, w, scheduler, replication in axes]
    jobs = min(jobs, len(todo), os.cpu_count() or 1)
    results: Iterator[RunResult] = map(simulator.run, todo)
    if jobs > 1:
        results = side_by_side(_prepare, (settings, recorded, journals), todo, jobs)
    runs: list[RunResult] = []
    report_progress = progress or (lambda _done, _total: None)
    report_progress(0, len(todo))
    for result in results:
        runs.append(result)
        report_progress(len(runs), len(todo))
    return Comparison(settings, tuple(runs))


def default_schedulers(recorded: TraceSet) -> tuple[str, ...]:
    """Return what is compared by default: PBT only where there are hyperparameters to change."""
    has_hparams = any(trace.hparams for trace in recorded.traces)
    return tuple(name for name in DEFAULT_SCHEDULERS if has_hparams or name != "pbt")


def _check(settings: Settings, jobs: int) -> None:
    """Refuse options that make no sense whatever the curves are, and too many workers."""
    for name, value, least in (
        *(("nodes", nodes, 1) for nodes in settings.nodes),
        *(("workers", workers, 1) for workers in settings.workers),
        ("phases", settings.phases, 1), ("phase-length", settings.phase_length, 1),
        ("replications", settings.replications, 1), ("jobs", jobs, 1), ("seed", settings.seed, 0),
    ):  # fmt: skip
        if value < least:
            raise SimschedError(f"{name}={value} must be at least {least}")
    for text in settings.schedulers:
        parse(text)
    for name, values in (
        ("nodes", settings.nodes), ("workers", settings.workers), ("scheduler", settings.schedulers)
    ):  # fmt: skip
        if not values or len(set(values)) < len(values):
            raise SimschedError(f"{name}: name at least one, and none twice")
    if settings.unit not in UNITS:
        raise SimschedError(f"unit={settings.unit!r} must be one of {', '.join(UNITS)}")
    most, limit = max(settings.workers), settings.recorded_trials
    if most > limit and not settings.resample:
        raise SimschedError(
            f"workers={most} is more than the {limit} recorded trials of {settings.traces}; "
            f"ask for at most {limit}, or draw with replacement (--resample)"
        )


class _Simulator:
    """Runs jobs over one prepared set of curves."""

    def __init__(self, settings: Settings, recorded: TraceSet, journals: Path | None) -> None:
        self.settings = settings
        self.journals = journals
        self.sign = -1.0 if settings.mode == "min" else 1.0
        self.curves = [curve_of(t, settings.unit, self.sign) for t in recorded.traces]
        self.space = space_of(recorded)

        costs = settings.start_s, settings.save_s, settings.load_s
        self.clusters = {n: Cluster(n, settings.node_speeds, *costs) for n in settings.nodes}

    def check(self) -> None:
        """Refuse schedulers that cannot be, before anything is simulated."""
        for workers, text in product(self.settings.workers, self.settings.schedulers):
            _, made = self._scheduler(Job(text, 1, workers, 0), self.curves[:1] * workers)
            if made.checkpoints == "milestone" and not self.space.parameters:
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
            raise SimschedError(f"{job.scheduler}: a parameter is too large") from None

    def run(self, job: Job) -> RunResult:
        """Simulate one job."""
        curves = [self.curves[i] for i in draw_order(self.settings, job.workers, job.replication)]
        plan, scheduler = self._scheduler(job, curves)
        neighbours = Neighbours(self.curves, self.space, plan.phase_length)
        with ExitStack() as files:
            journal = None
            if self.journals is not None:
                self.journals.mkdir(parents=True, exist_ok=True)
                path = self.journals / f"{job.file_name}.jsonl"
                file = files.enter_context(path.open("wb"))
                journal = Journal(file, msgspec.to_builtins(job), plan.maximum)
            world = SimulatedCluster(
                scheduler, curves, neighbours, self.clusters[job.nodes], plan.maximum, journal
            )
            timeline = world.run()
        if timeline.end_us >= LONGEST_US:
            raise SimschedError(
                f"{job.scheduler} on {job.nodes} nodes would take {timeline.end_us / US_PER_S:g} s;"
                " check the units of costs, node speeds and the traces' seconds"
            )
        return make_result(
            job.scheduler, job.replication, plan, world.ledger, timeline, self.sign,
            [curve.trace for curve in curves], neighbours.summary(), scheduler.notes,
        )  # fmt: skip


def _prepare(setup: tuple[Settings, TraceSet, Path | None]) -> Callable[[Job], RunResult]:
    """Be ready for jobs, in a process of its own."""
    return _Simulator(*setup).run
