"""`simulate`: schedulers side by side, on the same recorded trials and the same cluster."""

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import msgspec

from simsched._version import __version__
from simsched.cluster import Fleet
from simsched.cluster_file import read_cluster
from simsched.errors import SimschedError
from simsched.jobs import Job, Simulator, prepare
from simsched.messages import Unit
from simsched.processes import side_by_side
from simsched.recorded import check_lengths, default_phase_length, name_of
from simsched.results import Comparison, RunResult, Settings
from simsched.schedulers import parse, registered
from simsched.traces import TraceSet, check, load

DEFAULT_SCHEDULERS = ("successive-halving", "hyperband", "hypertrick", "pbt")
UNITS: tuple[Unit, ...] = ("episodes", "steps", "seconds", "reports")


def simulate(
    traces: str | Path | TraceSet = "MsPacman",
    *,
    nodes: int | Sequence[int] = 6,
    workers: int | Sequence[int] | None = None,
    schedulers: Sequence[str] | None = None,
    phases: int = 4,
    phase_length: int | None = None,
    unit: Unit = "steps",
    start_s: float | None = None,
    save_s: float | None = None,
    load_s: float | None = None,
    node_speeds: Sequence[float] = (1.0,),
    cluster: str | Path | Fleet | None = None,
    checkpoints: str = "scheduler",
    preemption: Literal["eager", "lazy"] = "eager",
    replications: int = 1,
    resample: bool = False,
    seed: int = 0,
    jobs: int = 1,
    journals: str | Path | None = None,
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
        start_s: seconds to start a worker; the cluster's by default, 0 without one.
        save_s: seconds to save a checkpoint, likewise; beside the transfer to a cluster's store.
        load_s: seconds to load one, likewise.
        node_speeds: speed factor of each node, taken round and round.
        cluster: a cluster file, the name of one that comes with simsched, or a `Fleet`: nodes
            and costs come from it, and what goes wrong; `nodes` and `node_speeds` are not
            looked at then.
        checkpoints: when trials are saved: "scheduler" (as it needs), "milestone", "every:10m",
            or "young" or "daly", the best interval by their formulas for the cluster's failures;
            "daly:24h" says how far these are apart.
        preemption: "lazy": a paused trial keeps its node, unsaved, until another needs it.
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
    if recorded.path is None:
        check(recorded)
    limit = len(recorded.traces)
    if schedulers is None:
        schedulers = default_schedulers(recorded)
    elif isinstance(schedulers, str):
        schedulers = (schedulers,)
    fleet = cluster if isinstance(cluster, Fleet | None) else read_cluster(str(cluster))
    costs = {"start_s": start_s, "save_s": save_s, "load_s": load_s}
    given = {name: cost for name, cost in costs.items() if cost is not None}
    if fleet is not None:
        all_costs = msgspec.structs.replace(fleet.costs, **given)
        fleet = msgspec.structs.replace(fleet, costs=all_costs)
        nodes, node_speeds = fleet.size, (1.0,)
    settings = Settings(
        version=__version__,
        traces=name_of(recorded),
        traces_sha256=recorded.sha256,
        game=recorded.meta.game,
        metric=recorded.meta.metric,
        mode=recorded.meta.mode,
        synthetic=recorded.meta.synthetic,
        recorded_trials=limit,
        nodes=_whole_numbers("nodes", nodes),
        node_speeds=tuple(float(speed) for speed in node_speeds),
        workers=_whole_numbers("workers", min(16, limit) if workers is None else workers),
        schedulers=tuple("".join(text.split()) for text in schedulers),
        phases=_whole_number("phases", phases),
        phase_length=_whole_number("phase-length", 1 if phase_length is None else phase_length),
        unit=unit,
        **{name: _cost_s(name, given, fleet) for name in costs},
        replications=_whole_number("replications", replications),
        resample=resample,
        seed=_whole_number("seed", seed),
        cluster=fleet,
        checkpoints=checkpoints,
        preemption=preemption,
        cluster_name=None if cluster is None else _name_of_cluster(cluster),
        given_costs=() if fleet is None else tuple(given),
    )
    _check(settings, jobs)
    if phase_length is None:
        longest = default_phase_length(recorded, unit, settings.phases)
        settings = msgspec.structs.replace(settings, phase_length=longest)
    check_lengths(recorded, unit, settings.phases, settings.phase_length)
    journals = None if journals is None else Path(journals)
    simulator = Simulator(settings, recorded, journals)
    simulator.check()
    axes = product(
        settings.nodes, settings.workers, settings.schedulers, range(settings.replications)
    )
    todo = [Job(scheduler, n, w, replication) for n, w, scheduler, replication in axes]
    jobs = min(jobs, len(todo), os.cpu_count() or 1)
    results: Iterator[RunResult] = map(simulator.run, todo)
    if jobs > 1:
        results = side_by_side(prepare, (settings, recorded, journals, registered()), todo, jobs)
    runs: list[RunResult] = []
    report_progress = progress or (lambda _done, _total: None)
    report_progress(0, len(todo))
    for result in results:
        runs.append(result)
        report_progress(len(runs), len(todo))
    return Comparison(settings, tuple(runs))


def _cost_s(name: str, given: Mapping[str, float], fleet: Fleet | None) -> float:
    return given.get(name, 0.0) if fleet is None else getattr(fleet.costs, name)


def _name_of_cluster(cluster: str | Path | Fleet) -> str:
    return "made in Python" if isinstance(cluster, Fleet) else Path(cluster).name


def _whole_number(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise SimschedError(f"{name}={value!r} must be a whole number") from None


def _whole_numbers(name: str, values: Any) -> tuple[int, ...]:
    """Return one number, or several, as a tuple."""
    several = values if isinstance(values, Iterable) else (values,)
    return tuple(_whole_number(name, value) for value in several)


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
    _refuse_repeats(settings)
    if settings.preemption not in ("eager", "lazy"):
        raise SimschedError(f"preemption={settings.preemption!r} must be eager or lazy")
    if settings.unit not in UNITS:
        raise SimschedError(f"unit={settings.unit!r} must be one of {', '.join(UNITS)}")
    most, limit = max(settings.workers), settings.recorded_trials
    if most > limit and not settings.resample:
        raise SimschedError(
            f"workers={most} is more than the {limit} recorded trials of {settings.traces}; "
            f"ask for at most {limit}, or draw with replacement (--resample)"
        )


def _refuse_repeats(settings: Settings) -> None:
    """Refuse the same number twice, or the same scheduler under two spellings."""
    schedulers = {}
    for text in settings.schedulers:
        scheduler, given = parse(text)
        full = {p.name: given.get(p.name, p.default) for p in scheduler.parameters}
        schedulers[text] = f"{scheduler.name}{full}"
    for name, values, meanings in (
        ("nodes", settings.nodes, settings.nodes),
        ("workers", settings.workers, settings.workers),
        ("scheduler", settings.schedulers, [schedulers[text] for text in settings.schedulers]),
    ):
        shown = ", ".join(map(str, values)) or "nothing"
        if not values or len(set(meanings)) < len(values):
            raise SimschedError(f"{name}: {shown}: name at least one, and none twice")
