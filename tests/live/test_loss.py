"""Returns, loss and gradients against a naive loop that follows the paper's formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from simsched.live.ga3c.agents import Segment  # noqa: E402
from simsched.live.ga3c.loss import actor_critic_loss, n_step_returns  # noqa: E402
from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.trainer import Trainer  # noqa: E402

pytestmark = pytest.mark.torch

numbers = st.floats(-10, 10, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=20), numbers, st.floats(0.1, 1.0))
def test_returns_are_the_discounted_sums(
    rewards: list[float], bootstrap: float, gamma: float
) -> None:
    n = len(rewards)
    for t, value in enumerate(n_step_returns(rewards, bootstrap, gamma)):
        naive = sum(gamma ** (k - t) * rewards[k] for k in range(t, n))
        assert value == pytest.approx(naive + gamma ** (n - t) * bootstrap, abs=1e-9)


def naive_loss(
    logits: NDArray[np.float64],
    values: NDArray[np.float64],
    actions: list[int],
    returns: list[float],
    beta: float,
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Loss and its gradients by hand: sample by sample, softmax derivatives written out."""
    loss, by_logits, by_values = 0.0, np.zeros_like(logits), np.zeros_like(values)
    for i, (action, target) in enumerate(zip(actions, returns, strict=True)):
        policy = np.exp(logits[i]) / np.exp(logits[i]).sum()
        entropy = -sum(p * math.log(p) for p in policy)
        advantage = target - values[i]
        loss += -math.log(policy[action]) * advantage + advantage**2 / 2 - beta * entropy
        by_logits[i] = advantage * (policy - np.eye(len(policy))[action])
        by_logits[i] += beta * policy * (np.log(policy) + entropy)
        by_values[i] = -advantage
    return loss, by_logits, by_values


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(2, 6))
def test_loss_and_gradients_are_those_of_the_naive_loop(seed: int, batch: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    logits, values = rng.normal(0, 2, (batch, n)), rng.normal(0, 3, batch)
    actions, returns = rng.integers(0, n, batch), rng.normal(0, 3, batch)
    tensors = torch.tensor(logits, requires_grad=True), torch.tensor(values, requires_grad=True)
    loss = actor_critic_loss(*tensors, torch.tensor(actions), torch.tensor(returns), 0.01)
    loss.backward()
    expected, by_logits, by_values = naive_loss(
        logits, values, actions.tolist(), returns.tolist(), 0.01
    )
    assert loss.item() == pytest.approx(expected)
    np.testing.assert_allclose(tensors[0].grad.numpy(), by_logits, atol=1e-9)
    np.testing.assert_allclose(tensors[1].grad.numpy(), by_values, atol=1e-9)


def random_segments(rng: np.random.Generator, count: int) -> list[Segment]:
    """Segments of all lengths; a third end truly (bootstrap 0), the others are cut."""
    segments = []
    for k in range(count):
        n = int(rng.integers(1, 9))
        segments.append(
            Segment(
                list(rng.normal(0, 1, (n, 3)).astype(np.float32)),
                rng.integers(0, 2, n).tolist(),
                rng.normal(0, 1, n).tolist(),
                0.0 if k % 3 == 0 else float(rng.normal(0, 2)),
            )
        )
    return segments


def test_an_update_is_the_naive_gradient_through_rmsprop() -> None:
    """One update on segments with all kinds of ends moves each weight as the formulas say."""
    segments = random_segments(np.random.default_rng(5), 7)
    samples = sum(map(len, segments))
    chosen = Settings(game="x", learning_rate=0.01, gamma=0.9, least_batch=samples)
    network = build((3,), frames=False, actions=2, seed=1)
    parameters = list(network.parameters())
    before = [p.detach().clone() for p in parameters]
    gradients = [torch.zeros_like(p) for p in parameters]
    for segment in segments:
        for t in range(len(segment)):
            ahead = segment.rewards[t:]
            target = sum(0.9**k * reward for k, reward in enumerate(ahead))
            target += 0.9 ** len(ahead) * segment.bootstrap
            logits, value = network(torch.from_numpy(segment.observations[t])[None])
            plain = logits.detach().numpy().astype(float), value.detach().numpy().astype(float)
            _, by_logits, by_value = naive_loss(*plain, [segment.actions[t]], [target], 0.01)
            total = (logits * torch.tensor(by_logits)).sum()
            total = total + (value * torch.tensor(by_value)).sum()
            for sum_so_far, part in zip(
                gradients, torch.autograd.grad(total, parameters), strict=True
            ):
                sum_so_far += part
    trainer = Trainer(network, chosen)
    trainer.train(segments, 0)
    assert trainer.updates == 1
    for old, new, gradient in zip(before, parameters, gradients, strict=True):
        square = 0.01 * gradient.square()  # decay 0.99, and the mean square starts at 0
        expected = old - 0.01 * gradient / (square.sqrt() + 0.1)
        torch.testing.assert_close(new.detach(), expected, rtol=1e-4, atol=1e-6)


def test_batches_hold_whole_segments_and_at_least_the_least() -> None:
    segments = random_segments(np.random.default_rng(3), 60)
    network = build((3,), frames=False, actions=2, seed=1)
    trainer = Trainer(network, Settings(game="x", least_batch=20))
    sizes: list[int] = []
    network.register_forward_hook(lambda module, args, out: sizes.append(len(args[0])))
    for segment in segments:
        trainer.train([segment], 0)
    assert len(sizes) == trainer.updates > 5
    assert all(20 <= size < 20 + 8 for size in sizes)
    left = sum(map(len, segments)) - sum(sizes)
    assert 0 <= left < 20


def test_the_learning_rate_falls_to_zero() -> None:
    network = build((3,), frames=False, actions=2, seed=1)
    chosen = Settings(game="x", least_batch=1, learning_rate=0.5, anneal_steps=100)
    trainer = Trainer(network, chosen)
    rates = []
    for steps in (0, 50, 100, 150):
        trainer.train(random_segments(np.random.default_rng(1), 1), steps)
        rates.append(trainer.optimizer.param_groups[0]["lr"])
    assert rates == [0.5, 0.25, 0.0, 0.0]
