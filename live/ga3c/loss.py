"""What A3C minimises (Mnih et al. 2016, arXiv 1602.01783, section 4 and algorithm S3)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


def n_step_returns(rewards: Sequence[float], bootstrap: float, gamma: float) -> list[float]:
    """Discounted returns of one segment: R_t = r_t + gamma R_{t+1}, with R_T = bootstrap.

    `bootstrap` is the value of the state after the last reward: 0 if the episode truly ended
    there, the network's estimate if the segment was cut or the time limit struck.
    """
    returns = [0.0] * len(rewards)
    running = bootstrap
    for t in range(len(rewards) - 1, -1, -1):
        running = rewards[t] + gamma * running
        returns[t] = running
    return returns


class Losses(NamedTuple):
    """Sums over a batch, scalars."""

    policy: Tensor
    """Sum of -log pi(a) times the advantage."""
    value: Tensor
    """Sum of half the squared errors."""
    entropy: Tensor
    """Sum of the policy's entropies, in nats."""

    def total(self, entropy_weight: float | Tensor) -> Tensor:
        """Return what is minimised: policy + value - entropy_weight * entropy."""
        return self.policy + self.value - entropy_weight * self.entropy


def losses(
    logits: Tensor, values: Tensor, actions: Tensor, targets: Tensor, advantages: Tensor
) -> Losses:
    """Return the terms of the actor-critic loss.

    No gradient flows through `targets` and `advantages`. The logarithm is that of the softmax
    taken in one, so it is finite where a probability rounds to 0.

    Args:
        logits: (batch, actions).
        values: (batch,).
        actions: (batch,), int64.
        targets: (batch,), what the values should be.
        advantages: (batch,), the weights of the policy's gradient.
    """
    log_policy = torch.log_softmax(logits, dim=1)
    chosen = log_policy.gather(1, actions.unsqueeze(1)).squeeze(1)
    policy_loss = -(chosen * advantages.detach()).sum()
    value_loss = 0.5 * (targets.detach() - values).square().sum()
    entropy = -(log_policy.exp() * log_policy).sum()
    return Losses(policy_loss, value_loss, entropy)


def a3c_losses(logits: Tensor, values: Tensor, actions: Tensor, returns: Tensor) -> Losses:
    """Return A3C's terms: the targets are the returns R, the advantages R - V."""
    return losses(logits, values, actions, returns, returns - values)


def actor_critic_loss(
    logits: Tensor, values: Tensor, actions: Tensor, returns: Tensor, entropy_weight: float
) -> Tensor:
    """Return the sum over the batch of policy loss, value loss and entropy bonus.

    Per sample: -log pi(a) (R - V) + (R - V)^2 / 2 - entropy_weight H(pi), where no gradient
    flows through the advantage R - V of the first term.
    """
    return a3c_losses(logits, values, actions, returns).total(entropy_weight)
