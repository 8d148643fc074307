"""First weights, as both choices say."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("ale_py")

from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402

pytestmark = pytest.mark.torch

CASES = [
    ("Pong", (4, 84, 84), np.uint8, 6),
    ("MinAtar/Breakout-v1", (10, 10, 4), np.bool_, 3),
    ("CartPole-v1", (4,), np.float32, 2),
]


def layers(network: torch.nn.Module) -> dict[str, torch.nn.Module]:
    kinds = (torch.nn.Conv2d, torch.nn.Linear)
    return {name: layer for name, layer in network.named_modules() if isinstance(layer, kinds)}


@pytest.mark.parametrize(("game", "shape", "dtype", "actions"), CASES)
def test_orthogonal(game: str, shape: tuple[int, ...], dtype: type, actions: int) -> None:
    settings = Settings(game=game, initialization="orthogonal")
    network = build(settings, shape, dtype, actions, seed=3)
    found = layers(network)
    last = {name.partition(".")[0]: name for name in found}
    for name, layer in found.items():
        gain = {last["policy"]: 0.01, last["value"]: 1.0}.get(name, 2**0.5)
        matrix = layer.weight.detach().flatten(1)
        matrix = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        product = matrix @ matrix.T / gain**2
        torch.testing.assert_close(product, torch.eye(len(product)), atol=1e-4, rtol=0)
        assert not layer.bias.any()
    random = np.random.default_rng(0)
    seen = torch.from_numpy((random.random((5, *shape)) * 200).astype(dtype))
    with torch.inference_mode():
        logits, _ = network(seen)
    policy = torch.softmax(logits, dim=1)
    assert float((policy - 1 / actions).abs().max()) < 0.1


@pytest.mark.parametrize(("game", "shape", "dtype", "actions"), CASES)
def test_uniform_and_keyed(game: str, shape: tuple[int, ...], dtype: type, actions: int) -> None:
    settings = Settings(game=game)
    first, same, other = (build(settings, shape, dtype, actions, seed=s) for s in (3, 3, 4))
    for name, layer in layers(first).items():
        bound = layer.weight[0].numel() ** -0.5
        greatest = float(layer.weight.detach().abs().max())
        assert 0.8 * bound < greatest <= bound
        assert float(layer.bias.detach().abs().max()) <= bound
        assert torch.equal(layer.weight, layers(same)[name].weight)
        assert not torch.equal(layer.weight, layers(other)[name].weight)
