"""What a simulated or a live run comes to: the values that tables and figures are made of."""

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from simsched.cluster import Fleet
from simsched.messages import Hparams
from simsched.timeline import Kind, Timeline

AT_ONCE = 1000
"""Trials in a piece of JSON."""
Fate: TypeAlias = Literal["finished", "stopped", "diverged", "censored", "lost"]


class Milestone(msgspec.Struct, frozen=True, gc=False):
    """One reported milestone of a trial. `score` is None where the trial diverged."""

    at_s: float
    step: int
    score: float | None


class TrialResult(msgspec.Struct, frozen=True):
    """What became of one trial. Scores are in the metric's own sense (`mode`)."""

    trial: int
    trace: int | None
    """The recorded trial that was replayed (its number in the trace file)."""
    hparams: Hparams
    milestones: int
    step: int
    best_score: float | None
    fate: Fate
    curve: tuple[Milestone, ...] = ()


class RunResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One scheduler on one cluster, one replication."""

    scheduler: str
    """As it was given, e.g. "hypertrick" or "hypertrick:eviction_rate=0.5"."""
    replication: int
    nodes: int
    workers: int
    wall_time_s: float
    utilization: float
    occupancy: float
    completion_rate: float
    best_score: float | None
    best_trial: int | None
    time_to_best_s: float | None
    node_seconds: dict[Kind, float]
    preemptions: int
    saves: int
    loads: int
    milestones: int
    censored: int
    approximate: bool
    """Rests on curves nobody recorded (PBT after an exploit)."""
    approximation: dict[str, float]
    """For approximate runs: `exploits`, `own_curve_share`, `mean_distance`; else empty."""
    notes: tuple[str, ...]
    trials: tuple[TrialResult, ...]
    timeline: Timeline
    lost_nodes: int = 0
    """Times that a node went while a trial was on it."""
    cost: float | None = None
    """Price of the nodes' time in service; None where nodes have no price."""

    @property
    def node_hours(self) -> float:
        """The nodes' time in service, in hours: what the cluster costs."""
        return (self.nodes * self.wall_time_s - self.node_seconds["down"]) / 3600


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a simulation was given: enough to repeat it."""

    version: str
    traces: str
    """Name of the shipped curves, or the file's name."""
    traces_sha256: str
    game: str
    metric: str
    mode: Literal["max", "min"]
    synthetic: bool
    recorded_trials: int
    nodes: tuple[int, ...]
    node_speeds: tuple[float, ...]
    """Speed factor of each node, recycled when there are more nodes; (1.0,) is uniform."""
    workers: tuple[int, ...]
    schedulers: tuple[str, ...]
    phases: int
    phase_length: int
    unit: Literal["episodes", "steps", "seconds", "reports"]
    start_s: float
    save_s: float
    load_s: float
    replications: int
    resample: bool
    seed: int
    cluster: Fleet | None = None
    """What a cluster file said; None where it was not asked for."""
    cluster_name: str | None = None
    given_costs: tuple[str, ...] = ()
    """Those of `start_s`, `save_s`, `load_s` that were given in place of the cluster's."""
    checkpoints: str = "scheduler"
    preemption: Literal["eager", "lazy"] = "eager"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a node used for a while: the means over it."""

    at_s: float
    """The end of that while, on the run's clock."""
    node: int
    over_s: float = 1.0
    """How long it was."""
    cpu_percent: float | None
    """Of the node's cores, whoever kept them busy: 100 is all of them."""
    gpu_percent: float | None = None
    """Time that the node's whole GPU was busy, whoever shares it."""
    gpu_memory_bytes: int | None = None
    """In use on the GPU; by the node's worker alone where nodes share it and NVML can tell."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """That a run was no simulation: real workers trained. When, on what, and how busy it was."""

    program: str | None = None
    """The user's own program that was trained; None for GA3C."""
    command: str
    """What runs such a search again, for a shell."""
    date: str
    """ISO date on which it began."""
    hardware: str
    versions: dict[str, str]
    """Of the packages that took part in training."""
    nodes: tuple[str, ...]
    """The name of each node, such as "GPU 0"."""
    failures: int = 0
    """Workers that failed."""
    usage: tuple[Usage, ...] = ()


class Comparison(msgspec.Struct, frozen=True):
    """Settings and every run, in the order they were asked for.

    A simulation has any number of runs. A live search has one, says in `measured` what it ran
    on, and its settings' costs are the medians of what was measured.
    """

    settings: Settings
    runs: tuple[RunResult, ...]
    measured: Measured | None = None


def results_json(comparison: Comparison) -> bytes:
    """Return `{"settings": …, "runs": […]}` as indented JSON: the same bytes for the same input.

    Timelines and curves are not in it; they are in the journals. A live search has `measured`
    as well, without the samples of use, which have a file of their own.
    """
    return b"".join(results_chunks(comparison))


def results_chunks(comparison: Comparison) -> Iterator[bytes]:
    """Yield what `results_json` returns, piece by piece: a million trials are 300 MB."""
    runs = [_fields(run) for run in comparison.runs]
    values = {"settings": msgspec.to_builtins(comparison.settings), "runs": runs}
    if comparison.measured is not None:
        values["measured"] = msgspec.to_builtins(comparison.measured)
        del values["measured"]["usage"]
    # Inside a string the quotes would be escaped, so these are the runs' own, in their order.
    first, *rest = _pretty(values).split(b'"trials": []')
    yield first
    for run, after in zip(comparison.runs, rest, strict=True):
        yield b'"trials": ['
        for start in range(0, len(run.trials), AT_ONCE):
            listed = [_row(trial) for trial in run.trials[start : start + AT_ONCE]]
            text = _pretty(listed).removeprefix(b"[").removesuffix(b"\n]\n")
            yield b"," * (start > 0) + text.replace(b"\n", b"\n      ")
        yield b"\n      ]" if run.trials else b"]"
        yield after


def run_fields(run: RunResult) -> dict[str, Any]:
    """Return one run as `results_json` has it, as JSON values."""
    return {**_fields(run), "trials": [_row(trial) for trial in run.trials]}


def _fields(run: RunResult) -> dict[str, Any]:
    """Return a run without its trials."""
    bare = msgspec.structs.replace(run, trials=(), timeline=Timeline(0, 0, []))
    fields: dict[str, Any] = msgspec.to_builtins(bare)
    del fields["timeline"]
    fields["trials"] = []
    fields["node_hours"] = run.node_hours
    return fields


def _row(trial: TrialResult) -> dict[str, Any]:
    """Return a trial without its curve."""
    fields: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(trial, curve=()))
    del fields["curve"]
    return fields


def settings_json(settings: Settings) -> bytes:
    """Return the settings as indented JSON."""
    return _pretty(msgspec.to_builtins(settings))


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
