"""The actor-critic networks: the paper's for frames, MinAtar's for grids, towers for vectors."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor, nn

from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings


class FrameNetwork(nn.Module):
    """GA3C's networks (ICLR 2017, section 5): convolutions, a layer of 256, two heads.

    Takes uint8 frames of shape (batch, channels, height, width); they become numbers from 0
    to 1 or, `centred`, from -1 to 1.
    """

    def __init__(
        self,
        convolutions: nn.Sequential,
        shape: tuple[int, ...],
        actions: int,
        *,
        centred: bool = False,
    ) -> None:
        super().__init__()
        self._centred = centred
        self.features = convolutions
        with torch.inference_mode():
            width = int(self.features(torch.zeros(1, *shape)).shape[1])
        self.hidden = nn.Sequential(nn.Linear(width, 256), nn.ReLU())
        self.policy = nn.Linear(256, actions)
        self.value = nn.Linear(256, 1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits (batch, actions) and the values (batch,)."""
        frames = observations.to(torch.float32, memory_format=torch.channels_last)
        frames = frames / 128.0 - 1.0 if self._centred else frames / 255.0
        hidden = self.hidden(self.features(frames))
        return self.policy(hidden), self.value(hidden).squeeze(1)


def small(channels: int) -> nn.Sequential:
    """Return the convolutions of the paper's small network: 16 of 8x8/4, 32 of 4x4/2."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )


def large(channels: int, stride: int) -> nn.Sequential:
    """Return those of the large network: 32 of 8x8/stride, 32 of 4x4/2, 64 of 4x4/2."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, stride=stride),
        nn.ReLU(),
        nn.Conv2d(32, 32, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )


class GridNetwork(nn.Module):
    """MinAtar's network (Young & Tian 2019, arXiv 1903.03176): one convolution, one layer.

    Takes observations of shape (batch, height, width, channels).
    """

    def __init__(self, shape: tuple[int, ...], actions: int) -> None:
        super().__init__()
        height, width, channels = shape
        self.features = nn.Sequential(nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Flatten())
        self.hidden = nn.Sequential(nn.Linear(16 * (height - 2) * (width - 2), 128), nn.ReLU())
        self.policy = nn.Linear(128, actions)
        self.value = nn.Linear(128, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits (batch, actions) and the values (batch,)."""
        grid = observations.to(torch.float32).permute(0, 3, 1, 2)
        hidden = self.hidden(self.features(grid))
        return self.policy(hidden), self.value(hidden).squeeze(1)


class VectorNetwork(nn.Module):
    """Two separate towers of 2 x 64 tanh units, one for the policy and one for the value.

    Takes observations of shape (batch, ...), which are flattened.
    """

    def __init__(self, shape: tuple[int, ...], actions: int) -> None:
        super().__init__()
        self.policy = self._tower(math.prod(shape), actions)
        self.value = self._tower(math.prod(shape), 1)

    @staticmethod
    def _tower(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
        )

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits (batch, actions) and the values (batch,)."""
        vectors = observations.to(torch.float32).flatten(1)
        return self.policy(vectors), self.value(vectors).squeeze(1)


def suitable(shape: tuple[int, ...], dtype: DTypeLike) -> tuple[str, ...]:
    """Return the kinds of network that observations allow, the one `auto` takes first."""
    kind = np.dtype(dtype)
    # From 68 pixels a side, the large network at its widest stride still has a pixel left.
    if len(shape) == 3 and kind == np.uint8 and min(shape[1:]) >= 68:
        return ("small", "large", "vector")
    if len(shape) == 3 and kind == np.bool_ and min(shape[:2]) >= 3:
        return ("grid", "vector")
    return ("vector",)


def build(
    settings: Settings, shape: tuple[int, ...], dtype: DTypeLike, actions: int, seed: int
) -> nn.Module:
    """Make the network that the settings ask for, its weights drawn from the seed.

    Either weights and biases are uniform within 1/sqrt(inputs of the unit), as in the original;
    or weights are orthogonal with gain sqrt(2), 1 for the value and 0.01 for the policy, and
    biases 0, which Engstrom et al. 2020 (arXiv 2005.12729) list among what makes
    implementations differ.

    Raises:
        LiveError: the chosen network cannot take such observations.
    """
    kinds = suitable(shape, dtype)
    kind = kinds[0] if settings.network == "auto" else settings.network
    if kind not in kinds:
        raise LiveError(
            f"network: {kind} cannot take the observations of {settings.game}, {shape} of "
            f"{np.dtype(dtype)}; use {' or '.join(kinds)}"
        )
    centred = settings.preprocessing == "original"
    makers: dict[str, Callable[[], nn.Module]] = {
        "small": lambda: FrameNetwork(small(shape[0]), shape, actions, centred=centred),
        "large": lambda: FrameNetwork(
            large(shape[0], settings.stride), shape, actions, centred=centred
        ),
        "grid": lambda: GridNetwork(shape, actions),
        "vector": lambda: VectorNetwork(shape, actions),
    }
    network = makers[kind]()
    generator = torch.Generator().manual_seed(seed)
    draw = _draw_orthogonal if settings.initialization == "orthogonal" else _draw_uniform
    draw(network, generator)
    return network


def _draw_uniform(network: nn.Module, generator: torch.Generator) -> None:
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def _draw_orthogonal(network: nn.Module, generator: torch.Generator) -> None:
    gains = {_last_layer(network.policy): 0.01, _last_layer(network.value): 1.0}
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            gain = gains.get(layer, math.sqrt(2))
            drawn = torch.empty(layer.weight.shape)  # the layer's own may lie channels last
            layer.weight.data.copy_(nn.init.orthogonal_(drawn, gain, generator=generator))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _last_layer(head: object) -> nn.Module:
    """Return the layer that gives a head's output: itself, or the end of its tower."""
    last = head[-1] if isinstance(head, nn.Sequential) else head
    assert isinstance(last, nn.Linear)  # noqa: S101 - told to the type checker
    return last
