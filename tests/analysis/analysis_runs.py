"""Runs to analyse: one written by hand, and a list scheduler for any size."""

import heapq
from collections.abc import Sequence

import numpy as np

from simsched.results import Comparison, Fate, Milestone, RunResult, Settings, TrialResult
from simsched.timeline import KINDS, NOT_OCCUPIED, US_PER_S, Interval, Kind, Timeline

PHASE_LENGTH = 2500


def settings(**changes: object) -> Settings:
    values: dict[str, object] = {
        "version": "0.1.0",
        "traces": "MsPacman",
        "traces_sha256": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
        "game": "Ms Pacman",
        "metric": "return",
        "mode": "max",
        "synthetic": False,
        "recorded_trials": 64,
        "nodes": (6,),
        "node_speeds": (1.0,),
        "workers": (16,),
        "schedulers": ("hypertrick",),
        "phases": 10,
        "phase_length": PHASE_LENGTH,
        "unit": "episodes",
        "start_s": 4.0,
        "save_s": 10.0,
        "load_s": 10.0,
        "replications": 1,
        "resample": False,
        "seed": 0,
        **changes,
    }
    return Settings(**values)  # type: ignore[arg-type]


def result(
    timeline: Timeline,
    trials: Sequence[TrialResult],
    *,
    scheduler: str = "hypertrick",
    replication: int = 0,
    phases: int = 10,
    mode: str = "max",
    **changes: object,
) -> RunResult:
    """Account for a timeline: everything that a run's result says follows from it."""
    node_us: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    for interval in timeline.intervals:
        node_us[interval.kind] += interval.end_us - interval.start_us
    total_us = max(1, timeline.nodes * timeline.end_us)
    sign = -1 if mode == "min" else 1
    scored = [
        (-sign * milestone.score, milestone.at_s, trial.trial)
        for trial in trials
        for milestone in trial.curve
        if milestone.score is not None
    ]
    cost, to_best_s, best_trial = min(scored) if scored else (None, None, None)
    values: dict[str, object] = {
        "scheduler": scheduler,
        "replication": replication,
        "nodes": timeline.nodes,
        "workers": len(trials),
        "wall_time_s": timeline.end_us / US_PER_S,
        "utilization": node_us["train"] / total_us,
        "occupancy": 1 - sum(node_us[kind] for kind in NOT_OCCUPIED) / total_us,
        "completion_rate": sum(t.milestones for t in trials) / (len(trials) * phases),
        "best_score": None if cost is None else -sign * cost,
        "best_trial": best_trial,
        "time_to_best_s": to_best_s,
        "node_seconds": {kind: spent / US_PER_S for kind, spent in node_us.items()},
        "preemptions": sum(each.kind == "save" for each in timeline.intervals),
        "saves": sum(each.kind == "save" for each in timeline.intervals),
        "loads": sum(each.kind == "load" for each in timeline.intervals),
        "milestones": sum(trial.milestones for trial in trials),
        "censored": sum(trial.fate == "censored" for trial in trials),
        "approximate": False,
        "approximation": {},
        "notes": (),
        "trials": tuple(trials),
        "timeline": timeline,
        **changes,
    }
    return RunResult(**values)  # type: ignore[arg-type]


def hand_made(**changes: object) -> RunResult:
    """Two nodes, three trials, 100 s: trial 0 is preempted on node 0 and resumed on node 1.

    Train 60 + 65 s of 2 × 100 s: utilization 0.625; idle 40 s: occupancy 0.8.
    """
    step = PHASE_LENGTH
    raw: list[tuple[int, int, int, Kind, int, int, int]] = [
        (0, 0, 0, "start", 0, 5, 0),
        (0, 0, 0, "train", 5, 25, step),
        (0, 0, 0, "save", 25, 30, step),
        (0, 2, 0, "start", 30, 35, 0),
        (0, 2, 0, "train", 35, 75, step),
        (0, -1, -1, "idle", 75, 100, -1),
        (1, 1, 0, "start", 0, 5, 0),
        (1, 1, 0, "train", 5, 35, step),
        (1, -1, -1, "idle", 35, 50, -1),
        (1, 0, 1, "load", 50, 60, step),
        (1, 0, 1, "train", 60, 95, 2 * step),
        (1, 0, 1, "wait", 95, 100, 2 * step),
    ]
    intervals = [
        Interval(node, trial, attempt, kind, start * US_PER_S, end * US_PER_S, at)
        for node, trial, attempt, kind, start, end, at in raw
    ]
    curves = {
        0: (Milestone(25.0, step, 100.0), Milestone(95.0, 2 * step, 300.0)),
        1: (Milestone(35.0, step, 50.0),),
        2: (Milestone(75.0, step, None),),
    }
    fates: dict[int, Fate] = {0: "finished", 1: "stopped", 2: "diverged"}
    trials = [
        TrialResult(
            trial=trial,
            trace=trial,
            hparams={"lr": 10.0 ** -(trial + 2)},
            milestones=len(curve),
            step=curve[-1].step,
            best_score=max((m.score for m in curve if m.score is not None), default=None),
            fate=fates[trial],
            curve=curve,
        )
        for trial, curve in curves.items()
    ]
    return result(Timeline(2, 100 * US_PER_S, intervals), trials, phases=2, **changes)


class _Search:
    """A list scheduler: trials stop at random, and may give their node away at milestones."""

    def __init__(self, nodes: int, workers: int, phases: int, seed: int, preempting: bool) -> None:
        self.rng = np.random.default_rng([seed, nodes, workers])
        # The trials are the same for every scheduler and cluster, as in a paired comparison.
        paired = np.random.default_rng(workers)
        self.target = paired.gamma(4.0, 500.0, workers)
        self.noise = paired.normal(1.0, 0.05, (workers, phases))
        self.pace_s = paired.uniform(60.0, 160.0, workers)
        self.phases, self.preempting = phases, preempting
        self.queue: list[tuple[int, int]] = [(0, trial) for trial in range(workers)]
        self.curves: list[list[Milestone]] = [[] for _ in range(workers)]
        self.fates: list[Fate] = ["finished"] * workers
        self.attempts = [0] * workers
        self.intervals: list[Interval] = []
        self.free = [(0, node) for node in range(nodes)]

    def spend(self, node: int, trial: int, kind: Kind, start: int, s: float, step: int) -> int:
        end = start + round(s * US_PER_S)
        self.intervals.append(Interval(node, trial, self.attempts[trial], kind, start, end, step))
        return end

    def turn(self) -> None:
        """Serve the next free node: one trial until it ends or is preempted."""
        now, node = heapq.heappop(self.free)
        done, trial = heapq.heappop(self.queue)
        kind: Kind = "load" if done else "start"
        now = self.spend(node, trial, kind, now, 10.0 if done else 4.0, done * PHASE_LENGTH)
        while done < self.phases:
            step = (done + 1) * PHASE_LENGTH
            now = self.spend(
                node, trial, "train", now, self.pace_s[trial] * self.rng.uniform(0.9, 1.1), step
            )
            now = self.spend(node, trial, "wait", now, 0.4, step)
            if self.rng.random() < 0.01:
                self.curves[trial].append(Milestone(now / US_PER_S, step, None))
                self.fates[trial] = "diverged"
                break
            share = (done + 1) / self.phases
            score = self.target[trial] * share**0.5 * self.noise[trial, done]
            self.curves[trial].append(Milestone(now / US_PER_S, step, float(score)))
            done += 1
            if done == self.phases:
                break
            if self.rng.random() < 0.45 * (1 - self.target[trial] / self.target.max()):
                self.fates[trial] = "stopped"
                break
            if self.preempting and self.queue and self.rng.random() < 0.6:
                now = self.spend(node, trial, "save", now, 10.0, step)
                self.attempts[trial] += 1
                heapq.heappush(self.queue, (done, trial))
                break
        heapq.heappush(self.free, (now, node))


def search(
    scheduler: str = "hypertrick",
    *,
    nodes: int = 6,
    workers: int = 16,
    phases: int = 10,
    replication: int = 0,
    seed: int = 0,
    preempting: bool = False,
    **changes: object,
) -> RunResult:
    """Return a random but valid run of any size."""
    state = _Search(nodes, workers, phases, seed * 1000 + replication, preempting)
    while state.queue:
        state.turn()
    end_us = max(at for at, _ in state.free)
    # A node that was let go while no trial waited is idle from then to the end.
    for at, node in state.free:
        if at < end_us:
            state.intervals.append(Interval(node, -1, -1, "idle", at, end_us, -1))
    trials = [
        TrialResult(
            trial=trial,
            trace=trial % 64,
            hparams={"lr": 0.001, "t_max": 5},
            milestones=len(curve),
            step=len(curve) * PHASE_LENGTH,
            best_score=max((m.score for m in curve if m.score is not None), default=None),
            fate=state.fates[trial],
            curve=tuple(curve),
        )
        for trial, curve in enumerate(state.curves)
    ]
    return result(
        Timeline(nodes, end_us, state.intervals),
        trials,
        scheduler=scheduler,
        replication=replication,
        phases=phases,
        **changes,
    )


KNOWN = ("hypertrick", "successive-halving", "asha", "pbt", "median-stopping", "random")


def comparison(
    schedulers: Sequence[str] = KNOWN[:4],
    *,
    nodes: Sequence[int] = (6,),
    workers: Sequence[int] = (16,),
    replications: int = 1,
    phases: int = 10,
    **changes: object,
) -> Comparison:
    """Return runs of each scheduler on each cluster; pbt is approximate, half are preempting."""
    pbt = {"exploits": 12.0, "own_curve_share": 0.25, "mean_distance": 0.31}
    runs = [
        search(
            name,
            nodes=n,
            workers=w,
            phases=phases,
            replication=replication,
            seed=index,
            preempting=index % 2 == 1,
            approximate=name == "pbt",
            approximation=pbt if name == "pbt" else {},
        )
        for index, name in enumerate(schedulers)
        for n in nodes
        for w in workers
        for replication in range(replications)
    ]
    return Comparison(
        settings(
            schedulers=tuple(schedulers),
            nodes=tuple(nodes),
            workers=tuple(workers),
            replications=replications,
            phases=phases,
            **changes,
        ),
        tuple(runs),
    )
