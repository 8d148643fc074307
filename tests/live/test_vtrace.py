"""V-trace against the sums and products of its paper (Espeholt et al. 2018, section 4.1)."""

import math

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from simsched.live.ga3c.agents import Segment  # noqa: E402
from simsched.live.ga3c.batches import Batcher  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.trainer import Trainer  # noqa: E402
from simsched.live.ga3c.transfer import Transfer  # noqa: E402
from simsched.live.ga3c.vtrace import vtrace  # noqa: E402

pytestmark = pytest.mark.torch

Floats = NDArray[np.float64]


def literal(
    rewards: list[float],
    values: list[float],
    ratios: list[float],
    gamma: float,
    rho_bar: float,
    c_bar: float,
) -> tuple[list[float], list[float]]:
    """Targets and advantages as equation (1) has them; `values` has one more than `rewards`."""
    n = len(rewards)
    rho = [min(rho_bar, ratio) for ratio in ratios]
    c = [min(c_bar, ratio) for ratio in ratios]
    v = [
        values[s]
        + sum(
            gamma ** (t - s)
            * math.prod(c[i] for i in range(s, t))
            * rho[t]
            * (rewards[t] + gamma * values[t + 1] - values[t])
            for t in range(s, n)
        )
        for s in range(n)
    ]
    v.append(values[n])
    return v[:n], [rho[s] * (rewards[s] + gamma * v[s + 1] - values[s]) for s in range(n)]


@st.composite
def experiences(draw: st.DrawFn) -> tuple[Floats, Floats, float, Floats]:
    n = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bootstrap = draw(st.sampled_from([0.0, -3.0, 2.5]))
    return rng.normal(0, 2, n), rng.normal(0, 3, n), bootstrap, rng.normal(0, 1.5, n)


gammas = st.sampled_from([0.3, 0.9, 0.99, 1.0])


@hypothesis_settings(max_examples=150, deadline=None)
@given(
    experiences(), gammas, st.sampled_from([0.5, 1.0, 3.0, 1e9]), st.sampled_from([0.4, 1.0, 1e9])
)
def test_targets_are_the_papers_sums_and_products(
    experience: tuple[Floats, Floats, float, Floats], gamma: float, rho: float, c: float
) -> None:
    rewards, values, bootstrap, log_ratios = experience
    targets, advantages = vtrace(rewards, values, bootstrap, log_ratios, gamma=gamma, rho=rho, c=c)
    expected = literal(
        rewards.tolist(),
        [*values.tolist(), bootstrap],
        [math.exp(x) for x in log_ratios],
        gamma,
        rho,
        c,
    )
    np.testing.assert_allclose(targets, expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(advantages, expected[1], rtol=1e-9, atol=1e-9)


@hypothesis_settings(max_examples=50, deadline=None)
@given(experiences(), gammas, st.sampled_from([1.0, 2.0]), st.sampled_from([1.0, 2.0]))
def test_on_policy_it_is_the_n_step_return(
    experience: tuple[Floats, Floats, float, Floats], gamma: float, rho: float, c: float
) -> None:
    rewards, values, bootstrap, _ = experience
    n = len(rewards)
    targets, advantages = vtrace(rewards, values, bootstrap, np.zeros(n), gamma=gamma, rho=rho, c=c)
    for s in range(n):
        rest = sum(gamma ** (k - s) * rewards[k] for k in range(s, n))
        rest += gamma ** (n - s) * bootstrap
        assert targets[s] == pytest.approx(rest, abs=1e-9)
        assert advantages[s] == pytest.approx(rest - values[s], abs=1e-9)


def test_the_bounds_hold_by_hand() -> None:
    """One step of each: what pi likes a thousand times more counts rho-bar, not a thousand."""
    r, v, after = np.array([1.0]), np.array([0.5]), 2.0
    delta = 1.0 + 0.9 * 2.0 - 0.5
    for log_ratio, rho, weight in [
        (math.log(1000), 1.0, 1.0),
        (math.log(1000), 2.5, 2.5),
        (math.log(0.25), 1.0, 0.25),
        (math.log(0.25), 0.1, 0.1),
        (5_000.0, 1.0, 1.0),  # no overflow
        (-5_000.0, 1.0, 0.0),
    ]:
        targets, advantages = vtrace(r, v, after, np.array([log_ratio]), gamma=0.9, rho=rho, c=1)
        assert targets[0] == pytest.approx(0.5 + weight * delta)
        assert advantages[0] == pytest.approx(weight * delta)
    # c-bar alone cuts the trace: the second error reaches the first target by half.
    rewards, values, zeros = np.array([0.0, 1.0]), np.zeros(2), np.zeros(2)
    targets, _ = vtrace(rewards, values, 0.0, zeros, gamma=1.0, rho=1.0, c=0.5)
    assert targets.tolist() == [0.5, 1.0]


SHAPE, ACTIONS = (3,), 3
AS_THEY_COME = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: the naive loop is slow, and a smaller seed says no more."""


def network_numbers(weights: list[Tensor], x: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """Log-policy and value of one observation, by the two towers of tanh units, by hand."""
    out = []
    for part in (weights[:6], weights[6:]):
        h = torch.tensor(x, dtype=torch.float64)
        for layer in (0, 2):
            h = torch.tanh(part[layer] @ h + part[layer + 1])
        out.append(part[4] @ h + part[5])
    logits, value = out[0], out[1][0]
    return torch.stack([z - torch.log(torch.exp(logits).sum()) for z in logits]), value


def random_segments(rng: np.random.Generator, count: int) -> list[Segment]:
    """True ends have nothing that follows. The stored bootstrap is old, and must not be used."""
    segments = []
    for k in range(count):
        n = int(rng.integers(1, 6))
        segments.append(
            Segment(
                observations=list(rng.normal(0, 1, (n, *SHAPE)).astype(np.float32)),
                actions=rng.integers(0, ACTIONS, n).tolist(),
                rewards=rng.normal(0, 1, n).tolist(),
                probabilities=rng.uniform(0.05, 1, n).tolist(),
                versions=[0] * n,
                bootstrap=math.nan,
                following=None if k % 3 == 0 else rng.normal(0, 1, SHAPE).astype(np.float32),
            )
        )
    return segments


def expected_weights(
    weights: list[Tensor], segments: list[Segment], settings: Settings
) -> list[Tensor]:
    """One update by RMSProp from 0, on V-trace's targets by the weights that are trained."""
    weights = [w.detach().double().requires_grad_() for w in weights]
    total = torch.zeros((), dtype=torch.float64)
    for segment in segments:
        answers = [network_numbers(weights, x) for x in segment.observations]
        values = [value.item() for _, value in answers]
        after = segment.following
        values.append(0.0 if after is None else network_numbers(weights, after)[1].item())
        acted = zip(answers, segment.actions, segment.probabilities, strict=True)
        ratios = [math.exp(log_policy[a].item()) / p for (log_policy, _), a, p in acted]
        targets, advantages = literal(
            segment.rewards,
            values,
            ratios,
            settings.gamma,
            settings.vtrace_rho,
            settings.vtrace_c,
        )
        for t, (log_policy, value) in enumerate(answers):
            total = total - log_policy[segment.actions[t]] * advantages[t]
            total = total + (targets[t] - value) ** 2 / 2
            total = total + settings.entropy_weight * (log_policy.exp() * log_policy).sum()
    new = []
    for weight, g in zip(weights, torch.autograd.grad(total, weights), strict=True):
        mean_square = (1 - settings.rms_decay) * g**2
        change = settings.learning_rate * g / (mean_square.sqrt() + settings.rms_epsilon)
        new.append((weight - change).detach())
    return new


def make(settings: Settings) -> tuple[Learner, Trainer, Batcher]:
    knobs = Knobs(settings)
    network = build(settings, SHAPE, np.float32, ACTIONS, seed=4)
    learner = Learner(network, knobs)
    return learner, Trainer(learner, Transfer(torch.device("cpu"))), Batcher(knobs)


@hypothesis_settings(max_examples=15, deadline=None, phases=AS_THEY_COME)
@given(
    seed=st.integers(0, 2**32 - 1),
    gamma=st.sampled_from([0.5, 0.99]),
    rho=st.sampled_from([0.5, 1.0, 4.0]),
    c=st.sampled_from([0.5, 1.0, 4.0]),
)
def test_an_update_is_the_papers(seed: int, gamma: float, rho: float, c: float) -> None:
    settings = Settings(
        game="CartPole-v1",
        vtrace=True,
        vtrace_rho=rho,
        vtrace_c=c,
        gamma=gamma,
        learning_rate=0.02,
        least_batch=12,
    )
    segments = random_segments(np.random.default_rng(seed), 20)
    learner, trainer, batcher = make(settings)
    batcher.add(segments)
    batch = [segment for segment in batcher.take() if isinstance(segment, Segment)]
    assert batch == segments[: len(batch)]  # whole, in order, and no more than needed
    assert sum(map(len, batch)) >= 12 > sum(map(len, batch[:-1]))
    expected = expected_weights(list(learner.network.parameters()), batch, settings)
    update = trainer.update(batch, 0)
    assert update.samples == sum(map(len, batch))
    for new, right in zip(learner.network.parameters(), expected, strict=True):
        torch.testing.assert_close(new.detach().double(), right, rtol=1e-4, atol=2e-5)


def test_without_lag_its_update_is_that_of_a3c() -> None:
    """Bootstraps, probabilities and weights are all of the same network."""
    plain = Settings(game="CartPole-v1", learning_rate=0.01, least_batch=1)
    corrected = Settings(game="CartPole-v1", learning_rate=0.01, least_batch=1, vtrace=True)
    segments = random_segments(np.random.default_rng(6), 6)
    learner, trainer, batcher = make(plain)
    weights = [p.detach().double() for p in learner.network.parameters()]
    for segment in segments:
        policies = [network_numbers(weights, x)[0].exp() for x in segment.observations]
        acted = zip(policies, segment.actions, strict=True)
        segment.probabilities = [policy[action].item() for policy, action in acted]
        after = segment.following
        segment.bootstrap = 0.0 if after is None else network_numbers(weights, after)[1].item()
    other, other_trainer, other_batcher = make(corrected)
    batcher.add(segments)
    other_batcher.add(segments)
    one = trainer.update(batcher.take(everything=True), 0)
    two = other_trainer.update(other_batcher.take(everything=True), 0)
    torch.testing.assert_close(learner.flat.values, other.flat.values, rtol=1e-5, atol=1e-6)
    assert one.policy_loss == pytest.approx(two.policy_loss, rel=1e-4)
    assert one.value_loss == pytest.approx(two.value_loss, rel=1e-4)


def test_an_action_that_the_old_policy_all_but_never_took_stays_finite() -> None:
    """A probability that rounded to 0 when it was stored."""
    learner, trainer, batcher = make(Settings(game="CartPole-v1", vtrace=True))
    segment = random_segments(np.random.default_rng(1), 1)[0]
    segment.probabilities = [0.0] * len(segment)
    batcher.add([segment])
    update = trainer.update(batcher.take(), 0)
    assert math.isfinite(update.policy_loss)
    assert bool(torch.isfinite(learner.flat.values).all())
