"""A rig for GA3C's parts at once: numbered environments, a scripted predictor and trainer."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from simsched.live.ga3c.agents import AgentGroup, Prediction  # noqa: E402
from simsched.live.ga3c.batches import Batcher, Sample  # noqa: E402
from simsched.live.ga3c.environment import EnvironmentGroup, Step  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.monitor import Monitor  # noqa: E402
from simsched.live.ga3c.overlapped import OverlappedEngine  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.trainer import Update  # noqa: E402

PATIENCE_S = 300.0
"""With what comes for certain, on a machine however busy."""
GAMMA = 0.9

Log = dict[tuple[int, int], tuple[int, float, bool]]
"""By agent and step: the action, the reward, and whether the episode truly ended."""


def until(condition: Callable[[], Any], limit_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)


class Numbered(EnvironmentGroup):
    """An observation is (agent, steps that it has taken); episodes end at random."""

    def __init__(self, first: int, size: int, seed: int, pause_s: float) -> None:
        self.size, self.actions, self._pause_s = size, 3, pause_s
        self._rng = np.random.default_rng(seed)
        self.place = np.array([[first + k, 0] for k in range(size)], dtype=np.float64)
        self.log: Log = {}
        self.steps = 0
        self.closed = 0

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        return self.place.copy()

    def step(self, actions: NDArray[np.int64]) -> Step:
        time.sleep(self._pause_s)
        ends = self._rng.random(self.size)
        terminated, truncated = ends < 0.05, ends > 0.95
        rewards = self._rng.normal(0, 1, self.size)
        for k, (agent, taken) in enumerate(self.place.astype(int).tolist()):
            self.log[agent, taken] = (int(actions[k]), float(rewards[k]), bool(terminated[k]))
        self.place[:, 1] += 1
        self.steps += 1
        # What is seen after an end is the same number: the row of steps goes on.
        return Step(self.place.copy(), rewards, terminated, truncated, self.place.copy())

    def close(self) -> None:
        self.closed += 1


class Stage:
    """What the scripted parts share: how many updates there were, and what was trained."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.updates = 0
        self.batches: list[list[Sample]] = []
        self.predicted: Counter[int] = Counter()
        self.trained: Counter[int] = Counter()
        self.greatest_lag = 0


def value(place: NDArray[Any]) -> float:
    return float(place[0] * 7 + place[1] % 13)


class ScriptedPredictor:
    """Every action alike; a value is a known function of the place."""

    def __init__(self, stage: Stage, k: int, pause_s: float) -> None:
        self._stage, self._k, self._pause_s = stage, k, pause_s

    def predict(self, observations: NDArray[Any]) -> Prediction:
        version = self._stage.updates
        time.sleep(self._pause_s)
        n = len(observations)
        self._stage.predicted[self._k] += 1
        values = np.array([value(place) for place in observations])
        return Prediction(np.full((n, 3), 1 / 3, dtype=np.float32), values, version)


class ScriptedTrainer:
    """Notes its batches; an update takes a while."""

    def __init__(self, stage: Stage, k: int, pause_s: float) -> None:
        self._stage, self._k, self._pause_s = stage, k, pause_s
        self.before: Callable[[], None] = lambda: None
        """What it does before each update."""

    def update(self, batch: list[Sample], steps: int) -> Update:
        self.before()
        time.sleep(self._pause_s)
        with self._stage.lock:
            now = self._stage.updates
            greatest = now - min(sample.version for sample in batch)
            self._stage.updates += 1
            self._stage.batches.append(batch)
            self._stage.trained[self._k] += 1
            self._stage.greatest_lag = max(self._stage.greatest_lag, greatest)
        return Update(len(batch), 0, 0, 0, 0, 0, greatest)


class Rig:
    """An engine of scripted parts."""

    def __init__(
        self,
        *,
        pauses_s: tuple[float, float, float] = (0.0, 0.0, 0.0),
        per_group: int = 3,
        **fields: Any,
    ) -> None:
        self.settings = Settings(game="CartPole-v1", gamma=GAMMA, clip_rewards=False, **fields)
        knobs = Knobs(self.settings)
        self.stage, self.monitor = Stage(), Monitor()
        acting_s, predicting_s, training_s = pauses_s
        self.environments = [
            Numbered(k * per_group, per_group, k, acting_s) for k in range(self.settings.groups)
        ]
        groups = [
            AgentGroup(each, knobs, np.random.SeedSequence((k,)))
            for k, each in enumerate(self.environments)
        ]
        predictors: list[Any] = [
            ScriptedPredictor(self.stage, k, predicting_s) for k in range(self.settings.predictors)
        ]
        self.trainers = [
            ScriptedTrainer(self.stage, k, training_s) for k in range(self.settings.trainers)
        ]
        trainers: list[Any] = list(self.trainers)
        batcher = Batcher(knobs)
        self.engine = OverlappedEngine(
            self.settings, groups, predictors, trainers, batcher, self.monitor, 0
        )

    def train_behind_a_full_queue(self) -> None:
        """Let no update begin before the training queue is full: as slow as trainers can be."""
        engine = self.engine

        def is_full() -> bool:
            full = engine._training.weight >= engine._training.bound
            return full or engine.crew.stopping.is_set()

        for trainer in self.trainers:
            trainer.before = lambda: until(is_full)

    def run_until_parked(self, count: int) -> None:
        """Go on until so many threads wait to be active again."""
        self.run_until(lambda: len(self.engine._changed._waiters) == count)  # type: ignore[attr-defined]

    def acted(self) -> list[int]:
        return [environments.steps for environments in self.environments]

    def run_until(self, condition: Callable[[], Any]) -> None:
        def go_on() -> Any:
            self.engine.advance()
            return condition()

        until(go_on)

    def close(self) -> None:
        self.engine.close()
        assert [environments.closed for environments in self.environments] == [1] * len(
            self.environments
        )
        self.engine.crew.check()


def lag_bound(agents: int, t_max: int, queue: int, least: int) -> int:
    """The greatest lag with one group and one trainer.

    Updates between acting and training took samples that came before. When a step's prediction
    is asked for, the samples acted out but not yet trained on are at most: t_max in the open
    segment of each agent; queue - 1 + t_max in the training queue, as it lets in a last segment
    while its sum is below the bound; least + t_max - 1 that the trainer has gathered. Until the
    step's segment is put in the queue, each agent takes up to t_max + 1 steps more.
    """
    before = agents * t_max + (queue - 1 + t_max) + (least + t_max - 1)
    return (before + agents * (t_max + 1)) // least
