"""From segments to new weights: the whole chain against a naive loop in double precision.

The naive side knows only the formulas of Mnih et al. 2016 (arXiv 1602.01783) and of the
optimizers: it goes through time step by step, computes the two towers of tanh units by hand, and
takes the gradient of its own loss.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from simsched.live.errors import DivergedError  # noqa: E402
from simsched.live.ga3c.agents import Segment  # noqa: E402
from simsched.live.ga3c.batches import Batcher  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.trainer import Trainer, Update  # noqa: E402
from simsched.live.ga3c.transfer import Transfer  # noqa: E402

pytestmark = pytest.mark.torch

SHAPE, ACTIONS = (3,), 2
AS_THEY_COME = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: the naive loop is slow, and a smaller seed says no more."""
Weights = list[Tensor]


def tower(weights: Weights, x: Tensor) -> Tensor:
    for layer in (0, 2):
        x = torch.tanh(weights[layer] @ x + weights[layer + 1])
    return weights[4] @ x + weights[5]


def naive_gradients(
    weights: Weights, segments: list[Segment], settings: Settings, beta: float
) -> tuple[Weights, dict[str, float]]:
    """Sum of the gradients of all steps of all segments, and means of the loss's terms."""
    weights = [w.detach().requires_grad_() for w in weights]
    sums = {"policy_loss": 0.0, "value_loss": 0.0, "entropy": 0.0}
    total = torch.zeros((), dtype=torch.float64)
    for segment in segments:
        n = len(segment.rewards)
        for t in range(n):
            x = torch.tensor(segment.observations[t], dtype=torch.float64)
            logits, value = tower(weights[:6], x), tower(weights[6:], x)[0]
            target = sum(settings.gamma ** (k - t) * segment.rewards[k] for k in range(t, n))
            target += settings.gamma ** (n - t) * segment.bootstrap
            log_policy = [z - torch.log(sum(torch.exp(y) for y in logits)) for z in logits]
            entropy = -sum(torch.exp(lp) * lp for lp in log_policy)
            policy_loss = -log_policy[segment.actions[t]] * (target - value.item())
            value_loss = (target - value) ** 2 / 2
            total = total + policy_loss + value_loss - beta * entropy
            for name, term in zip(sums, (policy_loss, value_loss, entropy), strict=True):
                sums[name] += term.item()
    samples = sum(len(segment.rewards) for segment in segments)
    means = {name: value / samples for name, value in sums.items()}
    return list(torch.autograd.grad(total, weights)), means


class NaiveOptimizer:
    """Each optimizer's formula on plain numbers, one by one."""

    def __init__(self, settings: Settings, count: int) -> None:
        self.settings, self.updates = settings, 0
        self.square = [1.0 if settings.optimizer == "rmsprop-tf" else 0.0] * count
        self.mean = [0.0] * count

    def step(self, values: list[float], gradients: list[float], rate: float) -> list[float]:
        s = self.settings
        self.updates += 1
        norm = math.sqrt(sum(g * g for g in gradients))
        if s.clip_norm and norm > s.clip_norm:
            gradients = [g * s.clip_norm / norm for g in gradients]
        decay = 0.999 if s.optimizer == "adam" else s.rms_decay
        new = []
        for i, (x, g) in enumerate(zip(values, gradients, strict=True)):
            self.square[i] = decay * self.square[i] + (1 - decay) * g * g
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * g
            if s.optimizer == "rmsprop":
                change = g / (math.sqrt(self.square[i]) + s.rms_epsilon)
            elif s.optimizer == "rmsprop-tf":
                change = g / math.sqrt(self.square[i] + s.rms_epsilon)
            else:
                mean = self.mean[i] / (1 - 0.9**self.updates)
                square = self.square[i] / (1 - decay**self.updates)
                change = mean / (math.sqrt(square) + s.adam_epsilon)
            new.append(x - rate * change)
        return new


def flat(tensors: Weights) -> list[float]:
    return [number for tensor in tensors for number in tensor.double().flatten().tolist()]


def unflat(numbers: list[float], like: Weights) -> Weights:
    result, start = [], 0
    for tensor in like:
        part = numbers[start : start + tensor.numel()]
        result.append(torch.tensor(part, dtype=torch.float64).reshape(tensor.shape))
        start += tensor.numel()
    return result


def random_segments(rng: np.random.Generator, count: int, longest: int = 6) -> list[Segment]:
    """Segments of all lengths: a third ends truly, a third by the time limit, a third is cut."""
    segments = []
    for _ in range(count):
        n, end = int(rng.integers(1, longest + 1)), rng.integers(3)
        segments.append(
            Segment(
                observations=list(rng.normal(0, 1, (n, *SHAPE)).astype(np.float32)),
                actions=rng.integers(0, ACTIONS, n).tolist(),
                rewards=rng.normal(0, 1, n).tolist(),
                probabilities=rng.uniform(0.1, 1, n).tolist(),
                versions=[0] * n,
                bootstrap=0.0 if end == 0 else float(rng.normal(0, 2)),
                following=None if end == 0 else rng.normal(0, 1, SHAPE).astype(np.float32),
            )
        )
    return segments


class Rig:
    """A learner of a small network with its trainer, and the weights as naive numbers."""

    def __init__(self, *, replica: bool = False, **fields: Any) -> None:
        self.settings = Settings(game="CartPole-v1", **fields)
        self.knobs = Knobs(self.settings)
        network = build(self.settings, SHAPE, np.float32, ACTIONS, seed=1)
        self.learner = Learner(network, self.knobs)
        own = self.learner.replica() if replica else None
        self.trainer = Trainer(self.learner, Transfer(torch.device("cpu")), replica=own)

    def weights(self) -> Weights:
        return [p.detach().double().clone() for p in self.learner.network.parameters()]


ends = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed))
optimizers = st.sampled_from(["rmsprop", "rmsprop-tf", "adam"])


@hypothesis_settings(max_examples=15, deadline=None, phases=AS_THEY_COME)
@given(
    rng=ends,
    optimizer=optimizers,
    gamma=st.sampled_from([0.5, 0.9, 0.99, 1.0]),
    beta=st.sampled_from([0.0, 0.01, 0.5]),
    clip=st.sampled_from([0.0, 0.5, 1000.0]),
    replica=st.booleans(),
)
def test_updates_are_those_of_the_naive_loop(
    rng: np.random.Generator,
    optimizer: str,
    gamma: float,
    beta: float,
    clip: float,
    replica: bool,
) -> None:
    """Three updates in a row, so that the optimizer's memory takes part."""
    batches = [random_segments(rng, int(rng.integers(1, 5))) for _ in range(3)]
    fields = {"optimizer": optimizer, "gamma": gamma, "entropy_weight": beta, "clip_norm": clip}
    rig = Rig(replica=replica, learning_rate=0.01, anneal_steps=1_000, **fields)
    numbers = flat(rig.weights())
    naive = NaiveOptimizer(rig.settings, len(numbers))
    batcher = Batcher(rig.knobs)
    for k, segments in enumerate(batches):
        shapes = rig.weights()
        steps = 100 * k
        gradients, means = naive_gradients(unflat(numbers, shapes), segments, rig.settings, beta)
        numbers = naive.step(numbers, flat(gradients), 0.01 * (1 - steps / 1_000))
        batcher.add(segments)
        update = rig.trainer.update(batcher.take(everything=True), steps)
        np.testing.assert_allclose(flat(rig.weights()), numbers, rtol=1e-4, atol=2e-5)
        assert update.samples == sum(map(len, segments))
        assert update.gradient_norm == pytest.approx(math.hypot(*flat(gradients)), rel=1e-3)
        for name, value in means.items():
            assert getattr(update, name) == pytest.approx(value, rel=1e-3, abs=1e-4)
    assert rig.learner.updates == 3


@hypothesis_settings(max_examples=15, deadline=None, phases=AS_THEY_COME)
@given(rng=ends, least=st.integers(0, 15))
def test_segments_become_batches_become_weights(rng: np.random.Generator, least: int) -> None:
    """Through the batcher: with a least batch, the naive side gets the same steps one by one.

    A step with its n-step return is a segment of one step whose reward is that return.
    """
    segments = random_segments(rng, 8)
    rig = Rig(learning_rate=0.02, gamma=0.9, least_batch=least)
    numbers, shapes = flat(rig.weights()), rig.weights()
    naive = NaiveOptimizer(rig.settings, len(numbers))
    steps_of = [[alone(segment, t, 0.9) for t in range(len(segment))] for segment in segments]
    in_order = [step for steps in steps_of for step in steps]
    whole = len(in_order) - len(in_order) % least if least else 0
    cuts = [in_order[k : k + least] for k in range(0, whole, least)] if least else steps_of
    for batch in cuts:
        gradients, _ = naive_gradients(unflat(numbers, shapes), batch, rig.settings, 0.01)
        numbers = naive.step(numbers, flat(gradients), 0.02)
    batcher = Batcher(rig.knobs)
    sizes = []
    for segment in segments:
        batcher.add([segment])
        while not batcher.missing:
            sizes.append(rig.trainer.update(batcher.take(), 0).samples)
    assert sizes == [len(batch) for batch in cuts]
    np.testing.assert_allclose(flat(rig.weights()), numbers, rtol=1e-4, atol=2e-5)


def alone(segment: Segment, t: int, gamma: float) -> Segment:
    ahead = segment.rewards[t:]
    value = sum(gamma**k * reward for k, reward in enumerate(ahead))
    value += gamma ** len(ahead) * segment.bootstrap
    return Segment([segment.observations[t]], [segment.actions[t]], [value])


def test_the_entropy_weight_that_has_fallen_is_used() -> None:
    segments = random_segments(np.random.default_rng(3), 3)
    rig = Rig(entropy_weight=0.8, entropy_anneal_steps=100, least_batch=1, learning_rate=0.01)
    numbers = flat(rig.weights())
    gradients, _ = naive_gradients(rig.weights(), segments, rig.settings, 0.8 * 0.75)
    expected = NaiveOptimizer(rig.settings, len(numbers)).step(numbers, flat(gradients), 0.01)
    batcher = Batcher(rig.knobs)
    batcher.add(segments)
    rig.trainer.update(batcher.take(everything=True), 25)
    np.testing.assert_allclose(flat(rig.weights()), expected, rtol=1e-4, atol=1e-5)


def once(rig: Rig, rng: np.random.Generator, steps: int = 0) -> Update:
    batcher = Batcher(rig.knobs)
    batcher.add(random_segments(rng, 4))
    return rig.trainer.update(batcher.take(everything=True), steps)


def test_a_learning_rate_that_has_fallen_to_zero_moves_nothing() -> None:
    rig = Rig(anneal_steps=50)
    before = flat(rig.weights())
    once(rig, np.random.default_rng(1), steps=50)
    assert flat(rig.weights()) == before
    once(rig, np.random.default_rng(1), steps=49)
    assert flat(rig.weights()) != before


def test_learning_rate_and_gamma_change_at_once() -> None:
    segments = random_segments(np.random.default_rng(8), 4)
    changed, made_so = Rig(learning_rate=0.5, gamma=0.3), Rig(learning_rate=0.01, gamma=0.95)
    changed.knobs.change(learning_rate=0.01, gamma=0.95)
    for rig in (changed, made_so):
        batcher = Batcher(rig.knobs)
        batcher.add(segments)
        rig.trainer.update(batcher.take(everything=True), 0)
    assert flat(changed.weights()) == flat(made_so.weights())


def test_the_lag_is_the_updates_between_acting_and_training() -> None:
    rig = Rig()
    for _ in range(5):
        once(rig, np.random.default_rng(1))
    segments = random_segments(np.random.default_rng(2), 2)
    segments[0].versions = [2] * len(segments[0])
    segments[1].versions = [4] * len(segments[1])
    batcher = Batcher(rig.knobs)
    batcher.add(segments)
    update = rig.trainer.update(batcher.take(everything=True), 0)
    lags = [3] * len(segments[0]) + [1] * len(segments[1])
    assert update.lag == pytest.approx(sum(lags) / len(lags))
    assert update.greatest_lag == 3


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_a_loss_that_is_not_finite_is_divergence_and_leaves_the_network(bad: float) -> None:
    """1e30 squares to infinity in single precision."""
    rig = Rig()
    once(rig, np.random.default_rng(1))
    before = flat(rig.weights())
    segments = random_segments(np.random.default_rng(2), 1)
    segments[0].bootstrap = bad
    batcher = Batcher(rig.knobs)
    batcher.add(segments)
    with pytest.raises(DivergedError, match=r"^update 2: the loss or its gradient is not finite$"):
        rig.trainer.update(batcher.take(), 0)
    assert flat(rig.weights()) == before
    assert rig.learner.updates == 1


def test_a_replica_is_refreshed_and_never_the_one_that_is_updated() -> None:
    one, other = Rig(), Rig(replica=True)
    for k in range(3):
        for rig in (one, other):
            once(rig, np.random.default_rng(k))
    assert flat(one.weights()) == pytest.approx(flat(other.weights()), abs=1e-7)
    with torch.no_grad():
        other.learner.flat.values.zero_()  # the next update must start from here
    segments = random_segments(np.random.default_rng(9), 1)
    gradients, _ = naive_gradients(other.weights(), segments, other.settings, 0.01)
    batcher = Batcher(other.knobs)
    batcher.add(segments)
    update = other.trainer.update(batcher.take(), 0)
    assert update.gradient_norm == pytest.approx(math.hypot(*flat(gradients)), rel=1e-4)
