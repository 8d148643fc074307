"""The predictor: answers agents from the network as it is at that moment."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simsched.live.errors import DivergedError
from simsched.live.ga3c.agents import Prediction
from simsched.live.ga3c.captured import CapturedForward
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.queues import BoundedQueue, Request
from simsched.live.ga3c.transfer import Transfer


class NetworkPredictor:
    """Predicts with the one network."""

    def __init__(
        self,
        learner: Learner,
        transfer: Transfer,
        most: int,
        captured: CapturedForward | None = None,
    ) -> None:
        """Make a predictor.

        Args:
            learner: holds the network.
            transfer: to the network's device.
            most: the most observations in one pass of the network.
            captured: that pass, captured on a GPU for batches of `most`.
        """
        self._captured = captured
        self._learner = learner
        self._transfer = transfer
        self._most = most

    def predict(self, observations: NDArray[Any]) -> Prediction:
        """Answer observations (n, ...).

        Raises:
            DivergedError: a probability or a value is not finite.
        """
        version = self._learner.updates
        parts = [
            self._forward(observations[start : start + self._most])
            for start in range(0, len(observations), self._most)
        ]
        policy = np.concatenate([part[0] for part in parts]) if len(parts) > 1 else parts[0][0]
        values = np.concatenate([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
        if not (np.isfinite(values).all() and np.isfinite(policy).all()):
            raise DivergedError("a prediction is not finite")
        return Prediction(policy, values, version)

    def _forward(self, observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        if self._captured is not None:
            return self._captured(observations)
        with torch.inference_mode():
            logits, values = self._network(self._transfer.tensor(observations))
            policy = torch.softmax(logits, dim=1)
            return policy.cpu().numpy(), values.cpu().numpy()

    def _network(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        answer: tuple[Tensor, Tensor] = self._learner.network(observations)
        return answer


def answer_requests(queue: BoundedQueue[Request], predictor: NetworkPredictor, most: int) -> int:
    """Answer what waits in the prediction queue, in one batch; returns its size."""
    requests = queue.take(most)
    if len(requests) == 1:
        batch = requests[0].observations
    else:
        batch = np.concatenate([request.observations for request in requests])
    prediction = predictor.predict(batch)
    start = 0
    for request in requests:
        part = slice(start, start + len(request))
        answer = Prediction(prediction.policy[part], prediction.values[part], prediction.version)
        request.answer.put(answer)
        start = part.stop
    return len(batch)
