"""How much longer a live search will take: a simulation of what remains.

The whole search is simulated with the real scheduler, at the costs that were measured, over
curves of all trials: what each has trained so far and how it may go on. Time left is what the
simulation still has before it when it has trained as much as the search has by now. Had all
gone as simulated, that is its wall time less the time elapsed; failures, or a night between two
sessions, do not shorten what is left.
"""

import heapq
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from simsched.cluster import Cluster, microseconds
from simsched.coordinator import ProtocolError
from simsched.errors import SimschedError
from simsched.ledger import TrialRecord
from simsched.live.extended import Floats, SoFar, extended_curves
from simsched.live.settings import LiveSettings
from simsched.messages import Hparams, TrialId
from simsched.own_curves import OwnCurves
from simsched.replay import Curve
from simsched.retries import Policy
from simsched.schedulers import build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.timeline import US_PER_S

__all__ = ["Costs", "Forecast", "Forecaster", "SoFar"]

SHARE = 0.01
"""Forecasts use at most this share of a core."""
ABOUT, ABOUT_US = 0.005, 50_000
"""How exactly it is known how long trials have trained: a share, and microseconds."""
AT_LEAST_S = 1.0
"""Time between two forecasts, however cheap they are."""

_Stretch: TypeAlias = tuple[int, int]
"""From and to, in µs: a node trains."""
_log = logging.getLogger(__name__)


class Costs(msgspec.Struct, frozen=True):
    """What was measured so far, in seconds: medians, so that a slow one does not count."""

    start_s: float = 0.0
    save_s: float = 0.0
    load_s: float = 0.0


class Forecast(msgspec.Struct, frozen=True):
    """What is to be expected of a search that runs."""

    time_left_s: float
    progress: float
    """Share of the predicted wall time that is over, from 0 to 1."""
    predicted_wall_time_s: float
    """What has elapsed and what is left."""


class Forecaster:
    """Forecasts one search, again and again.

    Args:
        settings: of the search.
        hparams: configurations of all its trials, started or not, in their order.
    """

    def __init__(self, settings: LiveSettings, hparams: Sequence[Hparams]) -> None:
        self._settings = settings
        self._hparams = hparams
        self._space = settings.search_space
        self._warned = False
        self.next_in_s = 0.0
        """How long to wait until the next forecast, so that all of them are cheap."""

    def forecast(
        self,
        trials: Mapping[TrialId, SoFar],
        costs: Costs,
        elapsed_s: float,
        nodes: int | None = None,
    ) -> Forecast | None:
        """Return what is to be expected; None while there is nothing to go by. Never raises.

        Args:
            trials: those that were started.
            costs: as measured.
            elapsed_s: since the search began.
            nodes: in service; all of the settings' by default.
        """
        began_s = time.thread_time()
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                return self._forecast(trials, costs, elapsed_s, nodes or self._settings.nodes)
        except (SimschedError, ProtocolError, ArithmeticError, LookupError, ValueError):
            # A search must not end for want of a forecast. What went wrong is said once.
            if not self._warned:
                _log.warning("time left cannot be forecast", exc_info=True)
            self._warned = True
            return None
        finally:
            self.next_in_s = max(AT_LEAST_S, (time.thread_time() - began_s) / SHARE)

    def _forecast(
        self, trials: Mapping[TrialId, SoFar], costs: Costs, elapsed_s: float, nodes: int
    ) -> Forecast | None:
        extended = extended_curves(self._settings, self._hparams, trials)
        if extended is None:
            return None
        curves, trained_s = extended
        world = self._world(curves, costs, nodes)
        timeline = world.run()
        trained = [
            (each.start_us, each.end_us) for each in timeline.intervals if each.kind == "train"
        ]
        end_us = timeline.end_us
        if self._settings.complete:
            completing = _completing(world.ledger.trials, curves, costs, nodes, end_us)
            trained += completing
            end_us = max([end_us, *(end for _, end in completing)])
        now_us = _when(trained, microseconds(trained_s), microseconds(elapsed_s), end_us)
        left_s = (end_us - now_us) / US_PER_S
        predicted_s = elapsed_s + left_s
        if self._settings.max_time_s is not None:
            predicted_s = min(predicted_s, max(self._settings.max_time_s, elapsed_s))
        progress = elapsed_s / predicted_s if predicted_s > 0 else 1.0
        return Forecast(predicted_s - elapsed_s, progress, predicted_s)

    def _world(self, curves: Sequence[Curve], costs: Costs, nodes: int) -> SimulatedCluster:
        settings, plan = self._settings, self._settings.plan
        searcher = Given(self._hparams, self._space, plan.seed)
        scheduler = build(settings.scheduler, plan, searcher)
        return SimulatedCluster(
            scheduler,
            curves,
            OwnCurves(curves),
            Cluster(nodes, start_s=costs.start_s, save_s=costs.save_s, load_s=costs.load_s),
            plan.maximum,
            policy=Policy(save_at=settings.saving.save_at, lazy=settings.preemption == "lazy"),
        )


def _completing(
    records: Mapping[TrialId, TrialRecord],
    curves: Sequence[Curve],
    costs: Costs,
    nodes: int,
    end_us: int,
) -> list[_Stretch]:
    """Return when nodes train, after the search, what the scheduler stopped."""
    begin_us = microseconds(costs.start_s) + microseconds(costs.load_s)
    free = [end_us] * nodes
    stretches = []
    for trial in sorted(records):
        if records[trial].fate == "stopped":
            curve = curves[trial]
            row = next(i for i, count in enumerate(curve.counts) if count >= records[trial].step)
            start_us = heapq.heappop(free) + begin_us
            stop_us = start_us + curve.times_us[-1] - curve.times_us[row]
            heapq.heappush(free, stop_us)
            stretches.append((start_us, stop_us))
    return stretches


def _when(trained: Sequence[_Stretch], done_us: int, elapsed_us: int, end_us: int) -> float:
    """Return when the simulation had trained for `done_us`, all nodes together.

    That is true for as long as nothing trains, for instance while workers start, and it is
    known only about: of the times in question the one nearest to `elapsed_us` is taken.
    """
    if not trained:
        return 0.0
    starts, ends = np.array(trained, dtype=np.float64).T
    edges = np.concatenate([starts, ends])
    order = np.argsort(edges, kind="stable")
    edges = np.concatenate([[0.0], edges[order], [float(end_us)]])
    training = np.cumsum(np.where(order < len(starts), 1, -1))
    sums = np.concatenate([[0.0, 0.0], np.cumsum(training * np.diff(edges)[1:])])
    about = max(ABOUT_US, ABOUT * done_us)
    first, last = _crossing(edges, sums, done_us - about), _crossing(edges, sums, done_us + about)
    return min(max(float(elapsed_us), first), last)


def _crossing(edges: Floats, sums: Floats, level: float) -> float:
    """Return when a sum, linear between `edges`, first is above a level that it may stand at."""
    place = int(sums.searchsorted(level, side="right"))
    if place in (0, len(sums)):
        return float(edges[0 if place == 0 else -1])
    share = (level - sums[place - 1]) / (sums[place] - sums[place - 1])
    return float(edges[place - 1] + share * (edges[place] - edges[place - 1]))
