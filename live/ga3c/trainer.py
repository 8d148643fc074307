"""The predictor and the trainer: the two users of the one network."""

from collections import deque
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from simsched.live.errors import DivergedError
from simsched.live.ga3c.agents import Segment
from simsched.live.ga3c.loss import actor_critic_loss, n_step_returns
from simsched.live.ga3c.settings import Settings


class NetworkPredictor:
    """Answers the agents from the network as it is at that moment."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    def predict(self, observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the probabilities (n, actions) and the values (n,).

        Raises:
            DivergedError: one of them is not finite.
        """
        with torch.inference_mode():
            logits, values = self._network(torch.from_numpy(observations))
            policy = torch.softmax(logits, dim=1).numpy()
        estimates = values.numpy()
        if not (np.isfinite(estimates).all() and np.isfinite(policy).all()):
            raise DivergedError("a prediction is not finite")
        return policy, estimates


class Trainer:
    """Gathers segments to batches and updates the network with RMSProp.

    A long segment outlives updates made while it grew, so part of it was acted out by older
    weights: the policy lag of GA3C, here at most t_max steps of each agent.
    """

    def __init__(self, network: nn.Module, settings: Settings) -> None:
        self._network = network
        self._settings = settings
        self._parameters = list(network.parameters())
        self.optimizer = torch.optim.RMSprop(
            self._parameters,
            lr=settings.learning_rate,
            alpha=settings.rms_decay,
            eps=settings.rms_epsilon,
            foreach=True,
        )
        self._queue: deque[Segment] = deque()
        self._queued_samples = 0
        self.updates = 0

    def train(self, segments: list[Segment], steps: int) -> None:
        """Queue segments and do an update for every full batch.

        Args:
            segments: complete segments, in the order in which they ended.
            steps: agent steps so far, for the annealing of the learning rate.

        Raises:
            DivergedError: a loss or a gradient is not finite; the network is then as before.
        """
        self._queue.extend(segments)
        self._queued_samples += sum(len(segment) for segment in segments)
        while self._queued_samples >= self._settings.least_batch:
            batch: list[Segment] = []
            samples = 0
            while samples < self._settings.least_batch:
                batch.append(self._queue.popleft())
                samples += len(batch[-1])
            self._queued_samples -= samples
            self._update(batch, steps)

    def _update(self, batch: list[Segment], steps: int) -> None:
        settings = self._settings
        observations = np.stack([o for segment in batch for o in segment.observations])
        actions = torch.tensor([a for segment in batch for a in segment.actions])
        returns = torch.tensor(
            [
                value
                for segment in batch
                for value in n_step_returns(segment.rewards, segment.bootstrap, settings.gamma)
            ],
            dtype=torch.float32,
        )
        logits, values = self._network(torch.from_numpy(observations))
        loss = actor_critic_loss(logits, values, actions, returns, settings.entropy_weight)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        limit = settings.clip_norm or float("inf")
        norm = float(nn.utils.clip_grad_norm_(self._parameters, limit, foreach=True))
        if not (np.isfinite(norm) and np.isfinite(loss.item())):
            raise DivergedError(
                f"update {self.updates + 1}: the loss or its gradient is not finite"
            )
        if settings.anneal_steps:
            left = max(0.0, 1.0 - steps / settings.anneal_steps)
            self.optimizer.param_groups[0]["lr"] = settings.learning_rate * left
        self.optimizer.step()
        self.updates += 1
