"""Means with intervals over replications: one row for each scheduler on each cluster."""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from scipy.special import stdtrit

from simsched.analysis.cluster_words import drawn_anew
from simsched.errors import SimschedError
from simsched.results import Comparison, RunResult, Settings

CONFIDENCE = 0.95
"""Level of every interval."""

Group: TypeAlias = tuple[str, int, int]
"""What a row stands for: scheduler, nodes, workers."""


class AnalysisError(SimschedError):
    """The input cannot be analysed; `str()` is one line that says why."""


class Interval(msgspec.Struct, frozen=True):
    """A mean with its 95 % t interval. `low` and `high` are None where `n` is 1."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def spread(self) -> float | None:
        """Half the width of the interval: what stands behind ±."""
        return None if self.high is None else self.high - self.mean


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler on one cluster with one number of trials, over its replications.

    Scores are in the metric's own sense. `best_score` and `time_to_best_s` are None
    where no trial of any replication ever had a score.
    """

    scheduler: str
    nodes: int
    workers: int
    replications: int
    wall_time_s: Interval
    utilization: Interval
    occupancy: Interval
    completion_rate: Interval
    best_score: Interval | None
    time_to_best_s: Interval | None
    preemptions: Interval
    node_hours: Interval
    redo: Interval
    """Share of the nodes' time in service in which lost training was done again."""
    cost: Interval | None
    approximate: bool
    """Rests on curves nobody recorded (PBT after an exploit)."""
    approximation: dict[str, float]
    """For approximate rows: `exploits` (mean of a run), `own_curve_share`, `mean_distance`."""
    resampled: bool
    """Trials were drawn anew from the recorded ones for each replication."""
    censored: int
    """Trials over all replications that were cut where their record ends."""
    lost: int = 0
    """Trials over all replications that were given up after failures."""
    order_only: bool
    """Each replication replays every recorded trial, in another order."""
    drawn: bool = False
    """Each replication has other outages, or stragglers."""
    synthetic: bool
    """The curves were generated, not recorded."""
    notes: tuple[str, ...]
    """What the runs have to say, each note once."""


def mean_interval(values: Iterable[float]) -> Interval:
    """Return the mean and its 95 % interval by Student's t with n - 1 degrees of freedom.

    One value has no interval. Raises AnalysisError where there is no value.
    """
    sample = [float(value) for value in values]
    n = len(sample)
    if n == 0:
        raise AnalysisError("a mean of no values: give at least one")
    mean = math.fsum(sample) / n
    if n == 1:
        return Interval(mean, None, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in sample) / (n - 1)
    quantile = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    half = quantile * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half, n)


def summarize(comparison: Comparison) -> list[Row]:
    """Return one row per (scheduler, nodes, workers), in the order of the runs.

    Raises AnalysisError where there are no runs or the same run stands there twice.
    """
    return [_row(comparison.settings, runs) for runs in grouped(comparison).values()]


def grouped(comparison: Comparison) -> dict[Group, list[RunResult]]:
    """Return the replications of each (scheduler, nodes, workers), in the order of the runs.

    Raises AnalysisError where there are no runs or the same run stands there twice.
    """
    if not comparison.runs:
        raise AnalysisError("the comparison holds no runs: there is nothing to report")
    groups: dict[Group, list[RunResult]] = {}
    seen: set[tuple[Group, int]] = set()
    for run in comparison.runs:
        group = (run.scheduler, run.nodes, run.workers)
        if (group, run.replication) in seen:
            raise AnalysisError(
                f"{run.scheduler} on {run.nodes} nodes with {run.workers} trials: "
                f"replication {run.replication} is given twice; give each scheduler once"
            )
        seen.add((group, run.replication))
        groups.setdefault(group, []).append(run)
    return groups


def _row(settings: Settings, runs: Sequence[RunResult]) -> Row:
    first = runs[0]
    every_trial = not settings.resample and first.workers == settings.recorded_trials
    return Row(
        scheduler=first.scheduler,
        nodes=first.nodes,
        workers=first.workers,
        replications=len(runs),
        wall_time_s=mean_interval(run.wall_time_s for run in runs),
        utilization=mean_interval(run.utilization for run in runs),
        occupancy=mean_interval(run.occupancy for run in runs),
        completion_rate=mean_interval(run.completion_rate for run in runs),
        best_score=_mean_of_known([run.best_score for run in runs]),
        time_to_best_s=_mean_of_known([run.time_to_best_s for run in runs]),
        preemptions=mean_interval(run.preemptions for run in runs),
        node_hours=mean_interval(run.node_hours for run in runs),
        redo=mean_interval(_redo(run) for run in runs),
        cost=_mean_of_known([run.cost for run in runs]),
        approximate=any(run.approximate for run in runs),
        approximation=_approximation(runs),
        resampled=settings.resample,
        censored=sum(run.censored for run in runs),
        lost=sum(trial.fate == "lost" for run in runs for trial in run.trials),
        order_only=every_trial and len(runs) > 1,
        drawn=bool(drawn_anew(settings)),
        synthetic=settings.synthetic,
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )


def _redo(run: RunResult) -> float:
    in_service_s = run.node_hours * 3600
    return run.node_seconds["redo"] / in_service_s if in_service_s else 0.0


def _mean_of_known(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    return mean_interval(known) if known else None


def _approximation(runs: Sequence[RunResult]) -> dict[str, float]:
    """Pool the replications: exploits per run, the other figures weighted by exploits."""
    pooled = [run.approximation for run in runs if run.approximate and run.approximation]
    if not pooled:
        return {}
    total = math.fsum(each.get("exploits", 0.0) for each in pooled)
    means = {"exploits": total / len(pooled)}
    for name in ("own_curve_share", "mean_distance"):
        weighted = [each.get("exploits", 0.0) * each[name] for each in pooled if name in each]
        if weighted and total > 0:
            means[name] = math.fsum(weighted) / total
    return means
