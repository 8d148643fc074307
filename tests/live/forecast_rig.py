"""A small search, rows of its trials, and what is forecast of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from simsched.live.extended import SoFar
from simsched.live.forecast import Costs, Forecast, Forecaster
from simsched.live.settings import LiveSettings
from simsched.space import PUBLISHED_GA3C

WORKERS, PHASES, LENGTH = 12, 4, 50
COSTS = Costs(start_s=3.0, save_s=0.5, load_s=0.25)
HPARAMS = [PUBLISHED_GA3C.sample(np.random.default_rng(trial)) for trial in range(WORKERS)]


def settings(**changes: Any) -> LiveSettings:
    given: dict[str, Any] = {
        "version": "1", "code": "", "game": "Pong", "nodes": 3, "workers": WORKERS,
        "phases": PHASES, "phase_length": LENGTH, "unit": "steps", "scheduler": "random",
        "space": PUBLISHED_GA3C.to_json(), "checkpoints": "scheduler", **changes,
    }  # fmt: skip
    return LiveSettings(**given)


def rows_of(trial: int, rows: int = 40, *, pace_s: float | None = None) -> np.ndarray:
    """Shape (rows, 4): an episode every 5 steps; `pace_s` a step, or one that varies."""
    rng = np.random.default_rng([7, trial])
    each_s = rng.uniform(0.5, 2.0, rows) if pace_s is None else np.full(rows, 5 * pace_s)
    steps = np.arange(1, rows + 1) * 5
    score = rng.normal(size=rows).cumsum()
    return np.column_stack([each_s.cumsum(), steps, np.arange(1, rows + 1), score])


def predicted(
    plan: LiveSettings,
    trials: Mapping[int, SoFar],
    elapsed_s: float,
    costs: Costs = COSTS,
    nodes: int | None = None,
) -> Forecast:
    found = Forecaster(plan, HPARAMS[: plan.workers]).forecast(trials, costs, elapsed_s, nodes)
    assert found is not None
    assert found.predicted_wall_time_s == pytest.approx(elapsed_s + found.time_left_s)
    assert 0 <= found.progress <= 1
    assert found.time_left_s >= 0
    return found


def one_trial(**changes: Any) -> tuple[LiveSettings, dict[int, SoFar]]:
    """One trial of 200 steps at 0.2 s a step, a quarter of it done."""
    table = rows_of(0, pace_s=0.2)[:10]
    return settings(nodes=1, workers=1, **changes), {0: SoFar(rows=table)}
