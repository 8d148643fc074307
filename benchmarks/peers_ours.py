"""Our side of peers.py: a search on the curves that both replay, and what its journal says."""

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from simulate import MILESTONES

from simsched.cluster import Cluster
from simsched.events import Reported
from simsched.journal import Journal, Record, read_journal
from simsched.messages import TrialId
from simsched.replay import Curve, Neighbours, curve_of
from simsched.run_result import make_result
from simsched.schedulers import Plan, build, register
from simsched.schedulers._base import rank_key
from simsched.schedulers.asha_stop import AshaStop
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.space import PUBLISHED_GA3C
from simsched.traces import synthesize

ETA = 3


class TopShare(AshaStop):
    """`asha-stop` with Syne Tune's bar.

    Ours lets the best floor(n / eta) of n go on; Syne Tune's whoever has at most n / eta better
    ones, that is one more. Equal scores are equally good there.
    """

    name = "asha-top-share"

    def goes_on(self, place: int, trial: TrialId, score: float | None) -> bool:
        """Whether at most the share 1 / eta of the rung's reports so far is better."""
        reports = self.reports[place]
        reports.add((rank_key(score), trial))
        better: int = reports.bisect_left((rank_key(score), -1))
        return better / len(reports) <= 1 / self.eta


register(TopShare)


@cache
def curves_of(trials: int) -> tuple[list[Curve], np.ndarray, np.ndarray]:
    """Return curves, their elapsed seconds and their scores, each of shape (trials, epochs)."""
    made = synthesize(trials, seed=0, rows=MILESTONES, kind="reports", diverge=False).traces
    curves = [curve_of(trace, "reports", 1.0) for trace in made]
    return curves, np.stack([t.seconds for t in made]), np.stack([t.score for t in made])


def ours(name: str, trials: int, nodes: int, journal: Path) -> dict[str, Any]:
    """Run a search here; return its reports, epochs and CPU seconds."""
    curves, _, _ = curves_of(trials)
    plan = Plan(trials, MILESTONES, 1, 0)
    searcher = Given([curve.hparams for curve in curves], PUBLISHED_GA3C, 0)
    text = name if name == "random" else f"{name}:eta={ETA}"
    scheduler = build(text, plan, searcher)
    with journal.open("wb") as file:
        start = time.process_time()
        world = SimulatedCluster(
            scheduler, curves, Neighbours(curves, PUBLISHED_GA3C, 1),
            Cluster(nodes), plan.maximum, Journal(file, {}, plan.maximum),
        )  # fmt: skip
        result = make_result(
            text, 0, plan, world.ledger, world.run(), 1.0, [c.trace for c in curves], {}, ()
        )
        spent = time.process_time() - start
    return {
        "reports": result.milestones,
        "epochs": sum(trial.step for trial in result.trials),
        "cpu_s": spent,
        "makespan_s": result.wall_time_s,
    }


def told_in(journal: Path) -> tuple[list[tuple[int, int, float]], list[bool]]:
    """Return a run's reports (trial, epoch, score) in their order, and whether each stopped."""
    told, stops = [], []
    trial_on: dict[int, int] = {}
    for record in read_journal(journal):
        if not isinstance(record, Record):
            continue
        event = record.event
        if isinstance(event, Reported) and record.decision is not None:
            assert event.score is not None
            told.append((trial_on[event.node], event.step, event.score))
            stops.append(type(record.decision.verdict).__name__ == "Stop")
        for command in record.commands:
            if type(command).__name__ == "Start":
                trial_on[command.node] = command.trial  # type: ignore[union-attr]
    return told, stops


def on_the_border(told: list[tuple[int, int, float]]) -> set[int]:
    """Return the places of reports that Syne Tune's bar lets pass and ours does not.

    At most n / eta of the n reports of the rung so far are better, but not fewer than
    max(1, floor(n / eta)).
    """
    rungs: dict[int, list[float]] = {}
    borders = set()
    for place, (_, epoch, score) in enumerate(told):
        rung = rungs.setdefault(epoch, [])
        rung.append(score)
        better = sum(other > score for other in rung)
        if max(1, len(rung) // ETA) <= better <= len(rung) / ETA:
            borders.add(place)
    return borders
