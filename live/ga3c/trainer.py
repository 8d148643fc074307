"""The trainer: computes gradients of batches and has the learner apply them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simsched.live.ga3c.agents import Segment
from simsched.live.ga3c.batches import Sample
from simsched.live.ga3c.flat import FlatParameters
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.loss import Losses, a3c_losses, losses
from simsched.live.ga3c.transfer import Transfer
from simsched.live.ga3c.vtrace import vtrace

LossFunction = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Losses]]


class Update(NamedTuple):
    """What one update was, means over its samples."""

    samples: int
    policy_loss: float
    value_loss: float
    entropy: float
    """In nats."""
    gradient_norm: float
    """Of the sum over the batch, before clipping."""
    lag: float
    """Policy lag: updates between acting and training."""
    greatest_lag: int


def a3c_loss(
    network: nn.Module, observations: Tensor, actions: Tensor, returns: Tensor, weight: Tensor
) -> tuple[Tensor, Losses]:
    """Return the total A3C loss of a batch and its terms; what `torch.compile` compiles."""
    logits, values = network(observations)
    terms = a3c_losses(logits, values, actions, returns)
    return terms.total(weight), terms


class Trainer:
    """Trains one network, its own replica or the very one, on batches."""

    def __init__(
        self,
        learner: Learner,
        transfer: Transfer,
        *,
        replica: FlatParameters | None = None,
        loss: LossFunction = a3c_loss,
    ) -> None:
        self._learner = learner
        self._knobs: Knobs = learner.knobs
        self._transfer = transfer
        self._replica = replica
        self._flat = replica or learner.flat
        self._loss = loss

    def update(self, batch: list[Sample] | list[Segment], steps: int) -> Update:
        """Do one update, by V-trace if the settings say so: then on segments.

        Args:
            batch: what to train on, not empty.
            steps: agent steps so far, for the schedules.

        Raises:
            DivergedError: a loss or a gradient is not finite; the network is then as before.
        """
        if self._replica is not None:
            self._learner.refresh(self._replica)
        self._flat.clear_gradients()
        if isinstance(batch[0], Segment):
            return self._update_by_vtrace([s for s in batch if isinstance(s, Segment)], steps)
        samples = [sample for sample in batch if isinstance(sample, Sample)]
        to_device = self._transfer.tensor
        observations = to_device(np.stack([sample.observation for sample in samples]))
        actions = to_device(np.array([sample.action for sample in samples], dtype=np.int64))
        returns = to_device(np.array([sample.value for sample in samples], dtype=np.float32))
        weight = torch.tensor(self._knobs.entropy_weight(steps), device=self._transfer.device)
        total, terms = self._loss(self._flat.network, observations, actions, returns, weight)
        return self._finish(total, terms, [sample.version for sample in samples], steps)

    def _update_by_vtrace(self, batch: list[Segment], steps: int) -> Update:
        to_device = self._transfer.tensor
        acted = [o for segment in batch for o in segment.observations]
        following = [s.following for s in batch if s.following is not None]
        actions = to_device(np.array([a for s in batch for a in s.actions], dtype=np.int64))
        logits, values = self._flat.network(to_device(np.stack(acted + following)))
        logits = logits[: len(acted)]
        targets, advantages = map(to_device, self._vtrace(batch, logits, values, actions))
        terms = losses(logits, values[: len(acted)], actions, targets, advantages)
        total = terms.total(self._knobs.entropy_weight(steps))
        return self._finish(total, terms, [v for s in batch for v in s.versions], steps)

    def _vtrace(
        self, batch: list[Segment], logits: Tensor, values: Tensor, actions: Tensor
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return targets and advantages (samples,), by the weights that are trained."""
        settings = self._knobs.settings
        samples = len(actions)
        with torch.no_grad():
            log_policy = torch.log_softmax(logits, dim=1)
            chosen = log_policy.gather(1, actions.unsqueeze(1)).squeeze(1).cpu().numpy()
            estimates = values.detach().cpu().numpy().astype(np.float64)
        probabilities = np.array([p for segment in batch for p in segment.probabilities])
        acted = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
        targets, advantages = np.empty(samples), np.empty(samples)
        start, after = 0, samples
        for segment in batch:
            part = slice(start, start + len(segment))
            bootstrap = 0.0
            if segment.following is not None:
                bootstrap = float(estimates[after])
                after += 1
            targets[part], advantages[part] = vtrace(
                np.array(segment.rewards),
                estimates[part],
                bootstrap,
                chosen[part] - acted[part],
                gamma=settings.gamma,
                rho=settings.vtrace_rho,
                c=settings.vtrace_c,
            )
            start = part.stop
        return targets.astype(np.float32), advantages.astype(np.float32)

    def _finish(self, total: Tensor, terms: Losses, versions: list[int], steps: int) -> Update:
        total.backward()  # type: ignore[no-untyped-call]
        now = self._learner.updates
        sums = torch.stack([total, *terms]).detach().cpu().tolist()
        norm = self._learner.apply(self._flat.gradients, sums[0], steps)
        count = len(versions)
        return Update(
            samples=count,
            policy_loss=sums[1] / count,
            value_loss=sums[2] / count,
            entropy=sums[3] / count,
            gradient_norm=norm,
            lag=now - sum(versions) / count,
            greatest_lag=now - min(versions),
        )
