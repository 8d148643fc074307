"""Environments quickly made or spied on, and a predictor that prefers no action."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ale_py")

from simsched.live.ga3c.agents import Prediction
from simsched.live.ga3c.environment import EnvironmentGroup, Step
from simsched.live.ga3c.settings import Settings


def make(game: str, size: int = 1, *, threads: int = 1, **fields: Any) -> EnvironmentGroup:
    return EnvironmentGroup(Settings(game=game, **fields), size, threads=threads)


class UniformPredictor:
    """Every action alike."""

    def __init__(self, actions: int) -> None:
        self.actions = actions

    def predict(self, observations: NDArray[Any]) -> Prediction:
        n = len(observations)
        policy = np.full((n, self.actions), 1 / self.actions, dtype=np.float32)
        return Prediction(policy, np.zeros(n, dtype=np.float32), 0)


class Spied(EnvironmentGroup):
    """Keeps the seeds and actions that the agents give."""

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        self.seeds: list[int] = list(seeds)
        self.taken: list[NDArray[np.int64]] = []
        return super().reset(seeds)

    def step(self, actions: NDArray[np.int64]) -> Step:
        self.taken.append(actions.copy())
        return super().step(actions)
