"""What A3C minimises (Mnih et al. 2016, arXiv 1602.01783, section 4 and algorithm S3)."""

from collections.abc import Sequence

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


def actor_critic_loss(
    logits: Tensor, values: Tensor, actions: Tensor, returns: Tensor, entropy_weight: float
) -> Tensor:
    """Sum over the batch of policy loss, value loss and entropy bonus.

    Per sample: -log pi(a) (R - V) + (R - V)^2 / 2 - entropy_weight H(pi), where no gradient
    flows through the advantage R - V of the first term.

    Args:
        logits: (batch, actions).
        values: (batch,).
        actions: (batch,), int64.
        returns: (batch,).
        entropy_weight: weight of the entropy H in nats.
    """
    log_policy = torch.log_softmax(logits, dim=1)
    errors = returns - values
    chosen = log_policy.gather(1, actions.unsqueeze(1)).squeeze(1)
    policy_loss = -(chosen * errors.detach()).sum()
    value_loss = 0.5 * errors.square().sum()
    entropy = -(log_policy.exp() * log_policy).sum()
    return policy_loss + value_loss - entropy_weight * entropy
