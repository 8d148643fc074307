"""Returns, losses, their gradients and the schedules, against the papers' formulas by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.knobs import CHANGEABLE, Knobs  # noqa: E402
from simsched.live.ga3c.loss import (  # noqa: E402
    a3c_losses,
    actor_critic_loss,
    losses,
    n_step_returns,
)
from simsched.live.ga3c.settings import Settings  # noqa: E402

pytestmark = pytest.mark.torch

Floats = NDArray[np.float64]
numbers = st.floats(-10, 10, allow_nan=False)
FIXED = "cannot change while training, only learning_rate, t_max, gamma, entropy_weight, clip_norm"


@given(st.lists(numbers, min_size=1, max_size=20), numbers, st.floats(0.1, 1.0))
def test_returns_are_the_discounted_sums(
    rewards: list[float], bootstrap: float, gamma: float
) -> None:
    n = len(rewards)
    for t, value in enumerate(n_step_returns(rewards, bootstrap, gamma)):
        naive = sum(gamma ** (k - t) * rewards[k] for k in range(t, n))
        assert value == pytest.approx(naive + gamma ** (n - t) * bootstrap, abs=1e-9)


def naive_loss(
    logits: Floats,
    values: Floats,
    actions: list[int],
    targets: list[float],
    weights: list[float],
    beta: float,
) -> tuple[float, Floats, Floats]:
    """Loss and its gradients by hand: sample by sample, softmax derivatives written out."""
    loss, by_logits, by_values = 0.0, np.zeros_like(logits), np.zeros_like(values)
    for i, (action, target, weight) in enumerate(zip(actions, targets, weights, strict=True)):
        policy = [math.exp(x) / sum(math.exp(y) for y in logits[i]) for x in logits[i]]
        entropy = -sum(p * math.log(p) for p in policy)
        error = target - values[i]
        loss += -math.log(policy[action]) * weight + error**2 / 2 - beta * entropy
        for k, p in enumerate(policy):
            by_logits[i, k] = weight * (p - (k == action)) + beta * p * (math.log(p) + entropy)
        by_values[i] = -error
    return loss, by_logits, by_values


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(2, 6), st.floats(0, 1))
def test_loss_and_gradients_are_those_of_the_naive_loop(
    seed: int, batch: int, n: int, beta: float
) -> None:
    rng = np.random.default_rng(seed)
    logits, values = rng.normal(0, 2, (batch, n)), rng.normal(0, 3, batch)
    actions, returns = rng.integers(0, n, batch), rng.normal(0, 3, batch)
    tensors = torch.tensor(logits, requires_grad=True), torch.tensor(values, requires_grad=True)
    loss = actor_critic_loss(*tensors, torch.tensor(actions), torch.tensor(returns), beta)
    torch.autograd.backward(loss)
    expected, by_logits, by_values = naive_loss(
        logits, values, actions.tolist(), returns.tolist(), (returns - values).tolist(), beta
    )
    assert loss.item() == pytest.approx(expected)
    np.testing.assert_allclose(tensors[0].grad.numpy(), by_logits, atol=1e-9)
    np.testing.assert_allclose(tensors[1].grad.numpy(), by_values, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(2, 5))
def test_targets_and_advantages_of_ones_own_pass_no_gradient(seed: int, batch: int, n: int) -> None:
    """As V-trace uses it: advantages are not targets less values, and no gradient flows there."""
    rng = np.random.default_rng(seed)
    logits, values = rng.normal(0, 2, (batch, n)), rng.normal(0, 3, batch)
    targets, weights = rng.normal(0, 3, batch), rng.normal(0, 3, batch)
    actions = rng.integers(0, n, batch)
    given_ = [torch.tensor(x, requires_grad=True) for x in (logits, values, targets, weights)]
    terms = losses(given_[0], given_[1], torch.tensor(actions), given_[2], given_[3])
    torch.autograd.backward(terms.total(0.3))
    loss, by_logits, by_values = naive_loss(
        logits, values, actions.tolist(), targets.tolist(), weights.tolist(), 0.3
    )
    assert terms.total(0.3).item() == pytest.approx(loss)
    np.testing.assert_allclose(given_[0].grad.numpy(), by_logits, atol=1e-9)
    np.testing.assert_allclose(given_[1].grad.numpy(), by_values, atol=1e-9)
    assert given_[2].grad is None
    assert given_[3].grad is None


def test_the_terms_are_sums_of_what_their_names_say() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.5], [0.2, 0.8]]))
    values, returns = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0])
    terms = a3c_losses(logits, values, torch.tensor([0, 1]), returns)
    assert terms.policy.item() == pytest.approx(-math.log(0.5) * 2 - math.log(0.8) * -1, rel=1e-6)
    assert terms.value.item() == pytest.approx((2**2 + 1**2) / 2)
    entropy = math.log(2) - 0.2 * math.log(0.2) - 0.8 * math.log(0.8)
    assert terms.entropy.item() == pytest.approx(entropy, rel=1e-6)
    total = terms.policy + terms.value - 0.25 * terms.entropy
    assert terms.total(0.25).item() == pytest.approx(total.item())


@pytest.mark.parametrize("size", [50.0, 1e3, 1e4, 1e6])
def test_certain_policies_give_finite_losses_and_gradients(size: float) -> None:
    """Where every probability but one rounds to 0, the logarithm is the logit itself."""
    logits = torch.tensor([[size, 0.0, -size], [size, 0.0, -size]], requires_grad=True)
    values = torch.zeros(2, requires_grad=True)
    terms = a3c_losses(logits, values, torch.tensor([2, 0]), torch.tensor([1.0, 1.0]))
    torch.autograd.backward(terms.total(0.01))
    assert terms.policy.item() == pytest.approx(2 * size, rel=1e-6)  # -log p = 2 size, and 0
    assert terms.entropy.item() == pytest.approx(0.0, abs=1e-6)
    # d/dlogits of -log p(a): p - [a]; it does not vanish, as it does for log(max(p, 1e-6)).
    np.testing.assert_allclose(logits.grad.numpy(), [[1, 0, -1], [0, 0, 0]], atol=1e-6)


def schedule(**fields: float) -> Knobs:
    return Knobs(Settings(game="CartPole-v1", **fields))  # type: ignore[arg-type]


def test_schedules_fall_in_a_straight_line_to_zero() -> None:
    knobs = schedule(
        learning_rate=0.5, anneal_steps=100, entropy_weight=0.04, entropy_anneal_steps=40
    )
    at = (0, 10, 20, 40, 50, 75, 100, 150)
    rates = [knobs.learning_rate(steps) for steps in at]
    assert rates == pytest.approx([0.5, 0.45, 0.4, 0.3, 0.25, 0.125, 0.0, 0.0])
    weights = [knobs.entropy_weight(steps) for steps in at]
    assert weights == pytest.approx([0.04, 0.03, 0.02, 0.0, 0.0, 0.0, 0.0, 0.0])


def test_without_a_schedule_nothing_falls() -> None:
    knobs = schedule(learning_rate=0.5, entropy_weight=0.04)
    assert {knobs.learning_rate(steps) for steps in (0, 10**6, 10**9)} == {0.5}
    assert {knobs.entropy_weight(steps) for steps in (0, 10**6, 10**9)} == {0.04}


def test_what_can_change_does_and_the_schedule_goes_on_from_it() -> None:
    knobs = schedule(anneal_steps=100)
    changes = {
        "learning_rate": 0.25,
        "t_max": 7,
        "gamma": 0.9,
        "entropy_weight": 0.5,
        "clip_norm": 3.0,
    }
    assert set(changes) == set(CHANGEABLE)
    knobs.change(**changes)
    assert {name: getattr(knobs.settings, name) for name in changes} == changes
    assert knobs.learning_rate(50) == 0.125


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 1.5}, "gamma: 1.5 is outside (0, 1]"),
        ({"t_max": 0}, "t_max: 0 is too small, use 1 or more"),
        ({"learning_rate": math.nan}, "learning_rate: nan must be a finite number above 0"),
        ({"learning_rate": 0.1, "gamma": -1.0}, "gamma: -1.0 is outside (0, 1]"),
        ({"learning_rate": 0.1, "agents": 3}, f"agents: {FIXED} can"),
        ({"nonsense": 3}, f"nonsense: {FIXED} can"),
    ],
)
def test_a_change_that_cannot_work_changes_nothing(changes: dict[str, float], message: str) -> None:
    knobs = schedule()
    before = knobs.settings
    with pytest.raises(LiveError) as caught:
        knobs.change(**changes)
    assert str(caught.value) == message
    assert knobs.settings == before == Settings(game="CartPole-v1")


@pytest.mark.parametrize("t_max", [2.5, "5"])
def test_a_change_of_the_wrong_type_is_refused(t_max: object) -> None:
    knobs = schedule()
    with pytest.raises(LiveError, match=r"^t_max: "):
        knobs.change(t_max=t_max)
    assert knobs.settings.t_max == 5
