"""The actor-critic networks: the published small one for frames, a small one for vectors."""

import math

import torch
from torch import Tensor, nn


class FrameNetwork(nn.Module):
    """GA3C's small network (ICLR 2017, section 5): two convolutions, one hidden layer.

    Takes uint8 frames of shape (batch, channels, height, width).
    """

    def __init__(self, shape: tuple[int, ...], actions: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(shape[0], 16, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.inference_mode():
            width = int(self.features(torch.zeros(1, *shape)).shape[1])
        self.hidden = nn.Sequential(nn.Linear(width, 256), nn.ReLU())
        self.policy = nn.Linear(256, actions)
        self.value = nn.Linear(256, 1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits (batch, actions) and the values (batch,)."""
        frames = observations.to(torch.float32, memory_format=torch.channels_last).div_(255.0)
        hidden = self.hidden(self.features(frames))
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


def build(shape: tuple[int, ...], *, frames: bool, actions: int, seed: int) -> nn.Module:
    """Make a network for observations of this shape, its weights drawn from the seed.

    Weights and biases are uniform within 1/sqrt(inputs of the unit), as in the original.
    """
    network: nn.Module
    network = FrameNetwork(shape, actions) if frames else VectorNetwork(shape, actions)
    generator = torch.Generator().manual_seed(seed)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return network
