"""V-trace: targets for experience that older weights acted out.

Espeholt et al. 2018 (IMPALA, arXiv 1802.01561), section 4.1, with lambda = 1:

    v_s = V(x_s) + sum_{t=s}^{s+n-1} gamma^{t-s} (prod_{i=s}^{t-1} c_i) delta_t
    delta_t = rho_t (r_t + gamma V(x_{t+1}) - V(x_t))
    rho_t = min(rho_bar, pi(a_t|x_t) / mu(a_t|x_t)),  c_i = min(c_bar, pi(a_i|x_i) / mu(a_i|x_i))

and the policy's gradient is weighted by rho_s (r_s + gamma v_{s+1} - V(x_s)). pi is the policy
that is trained, mu the one that acted. With pi = mu and bounds of at least 1, v_s is the
n-step return.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def vtrace(
    rewards: Floats,
    values: Floats,
    bootstrap: float,
    log_ratios: Floats,
    *,
    gamma: float,
    rho: float = 1.0,
    c: float = 1.0,
) -> tuple[Floats, Floats]:
    """Return targets v (n,) and weights of the policy's gradient (n,) of one segment.

    Args:
        rewards: (n,).
        values: (n,), V(x_s) by the weights that are trained.
        bootstrap: V of the state after the last reward; 0 where the episode truly ended.
        log_ratios: (n,), log pi(a|x) - log mu(a|x).
        gamma: discount factor.
        rho: rho-bar.
        c: c-bar.
    """
    ratios = np.exp(np.minimum(log_ratios, 50.0))  # beyond that it is cut off anyway
    clipped_rho, clipped_c = np.minimum(rho, ratios), np.minimum(c, ratios)
    following = np.append(values[1:], bootstrap)
    deltas = clipped_rho * (rewards + gamma * following - values)
    targets = np.empty_like(values)
    excess = 0.0  # v_{s+1} - V(x_{s+1})
    for s in range(len(rewards) - 1, -1, -1):
        excess = deltas[s] + gamma * clipped_c[s] * excess
        targets[s] = values[s] + excess
    next_targets = np.append(targets[1:], bootstrap)
    return targets, clipped_rho * (rewards + gamma * next_targets - values)
