"""The networks by the papers' lists of layers, and the one vector that holds their weights."""

import copy
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn.functional import conv2d, linear, relu  # noqa: E402

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.batches import Sample  # noqa: E402
from simsched.live.ga3c.flat import FlatParameters  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.network import build, suitable  # noqa: E402
from simsched.live.ga3c.settings import Optimizer, Settings  # noqa: E402
from simsched.live.ga3c.trainer import Trainer  # noqa: E402
from simsched.live.ga3c.transfer import Transfer  # noqa: E402

pytestmark = pytest.mark.torch

FRAMES, GRID, VECTOR = (4, 84, 84), (10, 10, 6), (4,)
SMALL = [(16, 8, 4), (32, 4, 2)]
"""Outputs, side of the filters and stride of each convolution: GA3C, section 5."""


def large(stride: int) -> list[tuple[int, int, int]]:
    return [(32, 8, stride), (32, 4, 2), (64, 4, 2)]


def convolutional_count(
    layers: list[tuple[int, int, int]], channels: int, side: int, hidden: int, actions: int
) -> int:
    """Parameters of square convolutions, a layer, a policy head and a value head."""
    total = 0
    for outputs, filter_side, stride in layers:
        total += outputs * (channels * filter_side**2) + outputs
        channels, side = outputs, (side - filter_side) // stride + 1
    total += channels * side**2 * hidden + hidden
    return total + (hidden * actions + actions) + (hidden + 1)


def make(
    shape: tuple[int, ...], dtype: DTypeLike, actions: int = 6, seed: int = 0, **fields: Any
) -> nn.Module:
    return build(Settings(game="Pong", **fields), shape, dtype, actions, seed)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_counts_that_were_added_up_on_paper() -> None:
    """Small: 4,112 + 8,224 + 663,808 + 1,542 + 257. So that the helper is right, too."""
    assert convolutional_count(SMALL, 4, 84, 256, 6) == 677_943
    assert count(make(FRAMES, np.uint8)) == 677_943
    # Towers: 4 x 64 + 64, 64 x 64 + 64, and 64 x 2 + 2 or 64 + 1.
    assert count(make(VECTOR, np.float32, actions=2)) == 2 * (320 + 4_160) + 130 + 65


@pytest.mark.parametrize("actions", [4, 18])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_the_large_network_at_each_stride(stride: int, actions: int) -> None:
    network = make(FRAMES, np.uint8, actions, network="large", stride=stride)
    assert count(network) == convolutional_count(large(stride), 4, 84, 256, actions)
    logits, values = network(torch.zeros(3, *FRAMES, dtype=torch.uint8))
    assert (logits.shape, values.shape) == ((3, actions), (3,))


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "expected"),
    [
        (FRAMES, np.uint8, "small", convolutional_count(SMALL, 4, 84, 256, 5)),
        (GRID, np.bool_, "grid", convolutional_count([(16, 3, 1)], 6, 10, 128, 5)),
        (VECTOR, np.float32, "vector", 2 * (320 + 4_160) + 325 + 65),
        ((3, 2), np.float64, "vector", 2 * (448 + 4_160) + 325 + 65),
        (GRID, np.bool_, "vector", 2 * (600 * 64 + 64 + 4_160) + 325 + 65),
    ],
)
def test_shapes_and_counts(
    shape: tuple[int, ...], dtype: DTypeLike, kind: str, expected: int
) -> None:
    network = make(shape, dtype, actions=5, network=kind)
    assert count(network) == expected
    for batch in (1, 7):
        observations = torch.from_numpy(np.ones((batch, *shape), dtype=dtype))
        logits, values = network(observations)
        assert (logits.shape, values.shape) == ((batch, 5), (batch,))
        assert logits.dtype == values.dtype == torch.float32


@pytest.mark.parametrize(
    ("shape", "dtype", "kind"),
    [(FRAMES, np.uint8, "small"), (GRID, np.bool_, "grid"), (VECTOR, np.float64, "vector")],
)
def test_auto_takes_what_suits_the_observations(
    shape: tuple[int, ...], dtype: DTypeLike, kind: str
) -> None:
    assert suitable(shape, dtype)[0] == kind
    automatic, named = make(shape, dtype), make(shape, dtype, network=kind)
    assert str(automatic) == str(named)


def by_hand(
    network: nn.Module, x: Tensor, layers: list[tuple[int, int, int]]
) -> tuple[Tensor, Tensor]:
    """The same weights in the paper's order of layers, in double precision."""
    weights = iter([parameter.detach().double() for parameter in network.parameters()])
    for _, _, stride in layers:
        x = relu(conv2d(x, next(weights), next(weights), stride=stride))
    x = relu(linear(x.flatten(1), next(weights), next(weights)))
    logits = linear(x, next(weights), next(weights))
    return logits, linear(x, next(weights), next(weights))[:, 0]


@pytest.mark.parametrize("preprocessing", ["standard", "original"])
@pytest.mark.parametrize(
    ("kind", "stride", "layers"), [("small", 4, SMALL), ("large", 3, large(3))]
)
def test_frames_go_through_the_papers_layers(
    preprocessing: str, kind: str, stride: int, layers: list[tuple[int, int, int]]
) -> None:
    network = make(
        FRAMES, np.uint8, network=kind, stride=stride, preprocessing=preprocessing, seed=3
    )
    frames = np.random.default_rng(0).integers(0, 256, (2, *FRAMES), dtype=np.uint8)
    pixels = torch.from_numpy(frames).double()
    pixels = pixels / 255 if preprocessing == "standard" else pixels / 128 - 1
    logits, values = network(torch.from_numpy(frames))
    expected = by_hand(network, pixels, layers)
    torch.testing.assert_close(logits.double(), expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values.double(), expected[1], rtol=1e-4, atol=1e-5)


def test_grids_have_their_channels_last() -> None:
    network = make(GRID, np.bool_)
    grid = torch.from_numpy(np.random.default_rng(0).random((3, *GRID)) < 0.3)
    logits, values = network(grid)
    expected = by_hand(network, grid.double().permute(0, 3, 1, 2), [(16, 3, 1)])
    torch.testing.assert_close(logits.double(), expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values.double(), expected[1], rtol=1e-4, atol=1e-5)


def test_weights_are_uniform_within_one_over_the_root_of_the_inputs() -> None:
    for network in (make(FRAMES, np.uint8), make(GRID, np.bool_), make(VECTOR, np.float32)):
        parameters = [parameter.detach() for parameter in network.parameters()]
        for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
            bound = 1 / math.sqrt(weight[0].numel())
            for tensor in (weight, bias):
                assert float(tensor.abs().max()) <= bound
            assert float(weight.abs().max()) > 0.9 * bound
            assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_the_seed_decides_the_weights_and_torchs_own_does_not() -> None:
    torch.manual_seed(1)
    one = make(VECTOR, np.float32, seed=5)
    torch.manual_seed(2)
    same, other = make(VECTOR, np.float32, seed=5), make(VECTOR, np.float32, seed=6)
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "use"),
    [
        (VECTOR, np.float32, "small", "vector"),
        (VECTOR, np.float32, "grid", "vector"),
        (GRID, np.bool_, "large", "grid or vector"),
        (FRAMES, np.uint8, "grid", "small or large or vector"),
        ((4, 20, 20), np.uint8, "small", "vector"),
    ],
)
def test_a_network_that_cannot_take_the_observations_is_refused_in_one_line(
    shape: tuple[int, ...], dtype: DTypeLike, kind: str, use: str
) -> None:
    with pytest.raises(LiveError) as caught:
        make(shape, dtype, network=kind)
    assert str(caught.value) == (
        f"network: {kind} cannot take the observations of Pong, {shape} of {np.dtype(dtype)}; "
        f"use {use}"
    )


@pytest.mark.parametrize("stride", [1, 4])
def test_the_least_side_that_is_let_through_works_at_every_stride(stride: int) -> None:
    logits, _ = make((4, 68, 68), np.uint8, network="large", stride=stride)(
        torch.zeros(1, 4, 68, 68, dtype=torch.uint8)
    )
    assert logits.shape == (1, 6)


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_extreme_logits_train_without_nan(size: float) -> None:
    """Both the action that is all but certain and those that are all but impossible."""
    knobs = Knobs(Settings(game="Pong", learning_rate=1e-3))
    network = make(VECTOR, np.float32, actions=3)
    learner = Learner(network, knobs)
    head = network.get_submodule("policy.4")
    with torch.no_grad():
        head.get_parameter("bias").copy_(torch.tensor([size, 0.0, -size]))
    trainer = Trainer(learner, Transfer(torch.device("cpu")))
    rng = np.random.default_rng(0)
    for _ in range(3):
        batch = [
            Sample(rng.normal(0, 1, VECTOR).astype(np.float32), k % 3, float(rng.normal()), 0)
            for k in range(9)
        ]
        update = trainer.update(batch, 0)
        assert all(math.isfinite(number) for number in update)
        assert update.gradient_norm > 0
    learner.check_finite()


NETWORKS = [(FRAMES, np.uint8), (GRID, np.bool_), (VECTOR, np.float32)]


def assert_views(flat: FlatParameters) -> None:
    """Every parameter and gradient lies in the vectors, in order, without gap or overlap."""
    offset = 0
    for parameter in flat.network.parameters():
        assert parameter.grad is not None
        for tensor, vector in ((parameter.data, flat.values), (parameter.grad, flat.gradients)):
            assert tensor.untyped_storage().data_ptr() == vector.untyped_storage().data_ptr()
            assert tensor.data_ptr() == vector.data_ptr() + 4 * offset
            span = sum(
                (n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)
            )
            assert span + 1 == tensor.numel()  # dense
        offset += parameter.numel()
    assert offset == flat.values.numel() == flat.gradients.numel()


@pytest.mark.parametrize(("shape", "dtype"), NETWORKS)
def test_flattening_changes_no_number_and_lays_filters_channels_last(
    shape: tuple[int, ...], dtype: DTypeLike
) -> None:
    network = make(shape, dtype)
    before = copy.deepcopy(network)
    flat = FlatParameters(network)
    assert_views(flat)
    for old, new in zip(before.parameters(), network.parameters(), strict=True):
        assert torch.equal(old, new)
        if new.dim() == 4:
            assert new.is_contiguous(memory_format=torch.channels_last)
    observations = torch.from_numpy(np.ones((2, *shape), dtype=dtype))
    for a, b in zip(before(observations), network(observations), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("shape", "dtype"), NETWORKS)
def test_gradients_land_in_the_vector(shape: tuple[int, ...], dtype: DTypeLike) -> None:
    network = make(shape, dtype)
    plain = copy.deepcopy(network)
    flat = FlatParameters(network)
    rng = np.random.default_rng(2)
    observations = torch.from_numpy((rng.random((2, *shape)) * 200).astype(dtype))
    for each in (plain, network, network):  # twice: they add up
        logits, values = each(observations)
        (logits.square().sum() + values.sum()).backward()
    expected = torch.cat(
        [
            (p.grad.permute(0, 2, 3, 1) if p.dim() == 4 else p.grad).flatten()
            for p in plain.parameters()
            if p.grad is not None
        ]
    )
    assert float(expected.abs().max()) > 0
    torch.testing.assert_close(flat.gradients, 2 * expected, rtol=1e-4, atol=1e-4)
    assert_views(flat)
    flat.clear_gradients()
    assert not flat.gradients.any()
    assert_views(flat)


@pytest.mark.parametrize("optimizer", ["rmsprop", "rmsprop-tf", "adam"])
def test_views_stay_views_through_updates_and_restores(optimizer: Optimizer) -> None:
    knobs = Knobs(Settings(game="Pong", optimizer=optimizer))
    learner = Learner(make(GRID, np.bool_), knobs)
    trainer = Trainer(learner, Transfer(torch.device("cpu")))
    batch = [Sample(np.ones(GRID, dtype=np.bool_), 1, 3.0, 0)] * 4
    for _ in range(3):
        before = learner.flat.values.clone()
        trainer.update(batch, 0)
        assert_views(learner.flat)
        assert not torch.equal(before, learner.flat.values)
    learner.restore(learner.state())
    assert_views(learner.flat)
    trainer.update(batch, 0)
    assert_views(learner.flat)
    replica = learner.replica()
    assert_views(replica)
    assert torch.equal(replica.values, learner.flat.values)
    assert replica.values.data_ptr() != learner.flat.values.data_ptr()


def test_a_vector_of_someone_else_takes_over() -> None:
    one, other = (
        FlatParameters(make(VECTOR, np.float32)),
        FlatParameters(make(VECTOR, np.float32, seed=9)),
    )
    one.share(other.values)
    assert_views(one)
    with torch.no_grad():
        other.values.fill_(0.25)
    assert all(bool((parameter == 0.25).all()) for parameter in one.network.parameters())
