"""A network that answers from a table."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Scripted(nn.Module):
    """Answers with the policies of a table, row by row, over and over."""

    def __init__(self, policies: Any) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.log(torch.as_tensor(policies, dtype=torch.float32)))
        self.calls = 0

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        assert observations.device == self.logits.device
        row = self.logits[self.calls % len(self.logits)]
        self.calls += 1
        return row.expand(len(observations), -1), torch.zeros(len(observations))


def uniform(actions: int) -> Scripted:
    return Scripted(np.full((1, actions), 1 / actions))
