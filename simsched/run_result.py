"""Makes a run's result from its ledger and timeline."""

from collections.abc import Sequence

from simsched.ledger import Ledger, TrialRecord
from simsched.results import Milestone, RunResult, TrialResult
from simsched.schedulers import Plan
from simsched.timeline import NOT_OCCUPIED, US_PER_S, Timeline


def make_result(
    scheduler: str,
    replication: int,
    plan: Plan,
    ledger: Ledger,
    timeline: Timeline,
    sign: float,
    traces: Sequence[int | None] | None,
    approximation: dict[str, float],
    notes: tuple[str, ...],
) -> RunResult:
    """Return the result of one run.

    Args:
        scheduler: as it was given.
        replication: its number.
        plan: trials, phases and their length.
        ledger: the run's books.
        timeline: the closed ledger's.
        sign: what turns inner scores back into the metric: -1 for mode min.
        traces: the recorded trial that each trial replayed; None where none was.
        approximation: what an approximate replay says of itself; empty where it is exact.
        notes: the scheduler's.
    """
    span_us = timeline.nodes * timeline.end_us - ledger.node_us["down"]
    busy_us = sum(us for kind, us in ledger.node_us.items() if kind not in NOT_OCCUPIED)
    work = sum(record.work for record in ledger.trials.values())
    best = ledger.best
    trials = tuple(
        _trial(trial, ledger.trials[trial], None if traces is None else traces[trial], sign)
        for trial in sorted(ledger.trials)
    )
    return RunResult(
        scheduler=scheduler,
        replication=replication,
        nodes=timeline.nodes,
        workers=plan.trials,
        wall_time_s=timeline.end_us / US_PER_S,
        utilization=ledger.node_us["train"] / span_us if span_us else 0.0,
        occupancy=busy_us / span_us if span_us else 0.0,
        completion_rate=work / (plan.trials * plan.maximum),
        best_score=best[0] * sign if best else None,
        best_trial=best[1] if best else None,
        time_to_best_s=best[2] / US_PER_S if best else None,
        node_seconds={kind: us / US_PER_S for kind, us in ledger.node_us.items()},
        preemptions=ledger.preemptions,
        saves=ledger.saves,
        loads=ledger.loads,
        milestones=ledger.milestones,
        censored=sum(trial.fate == "censored" for trial in trials),
        approximate=bool(approximation),
        approximation=approximation,
        notes=notes,
        trials=trials,
        timeline=timeline,
    )


def _trial(trial: int, record: TrialRecord, trace: int | None, sign: float) -> TrialResult:
    if record.fate is None:
        raise RuntimeError(f"trial {trial} has no fate though the run is over")
    curve = tuple(record.curve)
    if sign != 1:
        curve = tuple(
            Milestone(m.at_s, m.step, None if m.score is None else m.score * sign) for m in curve
        )
    return TrialResult(
        trial=trial,
        trace=trace,
        hparams=record.hparams,
        milestones=record.milestones,
        step=record.step,
        best_score=None if record.best_score is None else record.best_score * sign,
        fate=record.fate,
        curve=curve,
    )
