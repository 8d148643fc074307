"""GA3C by turns whose training queue is always full: a policy lag that can be set.

In GA3C's threads the lag depends on the machine and its load. Here segments wait for as long
as in a training queue that is full, as it is where trainers are slower than agents, and each
run can be repeated to the byte.
"""

import time
from collections import deque

import numpy as np
import torch

from simsched.live.ga3c.agents import AgentGroup, Segment
from simsched.live.ga3c.batches import Batcher
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.monitor import Monitor
from simsched.live.ga3c.network import build
from simsched.live.ga3c.predictor import NetworkPredictor
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.trainer import Trainer
from simsched.live.ga3c.transfer import Transfer
from simsched.live.ga3c.turns import TurnsEngine


class QueueingBatcher(Batcher):
    """Keeps so many samples waiting before it gathers the oldest ones."""

    def __init__(self, knobs: Knobs, queue: int) -> None:
        super().__init__(knobs)
        self._bound = queue
        self._waiting: deque[Segment] = deque()
        self._weight = 0

    def add(self, segments: list[Segment]) -> None:
        """Queue complete segments; gather those that exceed the bound."""
        self._waiting.extend(segments)
        self._weight += sum(map(len, segments))
        due = []
        while self._weight > self._bound:
            due.append(self._waiting.popleft())
            self._weight -= len(due[-1])
        super().add(due)


class QueueingEngine(TurnsEngine):
    """GA3C by turns, but segments wait in a full queue before they are trained on."""

    def __init__(self, settings: Settings, queue: int) -> None:
        """Assemble the parts as a worker does, from the same seeds.

        Args:
            settings: of the worker.
            queue: samples that wait; with 0 this trains as GA3C by turns does, to the bit.
        """
        environments = EnvironmentGroup(settings, settings.agents)
        seed = np.random.SeedSequence((settings.seed, settings.trial, 0)).generate_state(1)[0]
        network = build(
            settings,
            environments.observation_shape,
            environments.observation_dtype,
            environments.actions,
            seed=int(seed),
        )
        knobs, transfer = Knobs(settings), Transfer(torch.device("cpu"))
        self.learner, self.monitor = Learner(network, knobs), Monitor()
        seeds = np.random.SeedSequence((settings.seed, settings.trial, 1, 0))
        super().__init__(
            knobs,
            AgentGroup(environments, knobs, seeds),
            NetworkPredictor(self.learner, transfer, settings.prediction_batch),
            Trainer(self.learner, transfer),
            self.monitor,
            time.process_time,
        )
        self._batcher = QueueingBatcher(knobs, queue)
