"""Actions are drawn as the policy says, in single precision, too."""

import numpy as np
import pytest

pytest.importorskip("ale_py")

from simsched.live.ga3c.agents import sample_actions

pytestmark = pytest.mark.torch


def test_actions_are_drawn_as_the_policy_says() -> None:
    policy = np.tile([0.2, 0.0, 0.5, 0.3], (20_000, 1))
    drawn = sample_actions(policy, np.random.default_rng(0).random(20_000))
    shares = np.bincount(drawn, minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.2, 0.0, 0.5, 0.3], atol=0.01)
    assert shares[1] == 0
    edge = sample_actions(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0.0, np.nextafter(1, 0)]))
    assert edge.tolist() == [0, 0]


def test_single_precision_policies_never_draw_what_is_not_there() -> None:
    """Sums of 18 float32 probabilities miss 1 by some 1e-7."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (5_000, 18)).astype(np.float32)
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy = scores / scores.sum(axis=1, keepdims=True)
    top = np.full(5_000, np.nextafter(1, 0))
    assert sample_actions(policy, top).max() <= 17
    policy[:, -1] = 0
    assert sample_actions(policy, top).max() <= 16
    policy[:, 0] = 0
    assert sample_actions(policy, np.zeros(5_000)).min() >= 1
