"""Optimizers over one flat vector of parameters."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from simsched.live.ga3c.settings import Settings


class RMSpropTF(torch.optim.Optimizer):
    """RMSProp as TensorFlow 1 and the original GA3C have it.

    m = decay m + (1 - decay) g^2 from m = 1, and x = x - learning_rate g / sqrt(m + epsilon):
    epsilon is inside the root, and the first updates are small.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, alpha: float, eps: float) -> None:
        super().__init__(parameters, {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        if closure is not None:
            raise ValueError("RMSpropTF takes no closure")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        gradient = parameter.grad
        assert gradient is not None  # noqa: S101 - told to the type checker
        state = self.state[parameter]
        if not state:
            state["square_avg"] = torch.ones_like(parameter)
        mean = state["square_avg"]
        mean.mul_(group["alpha"]).addcmul_(gradient, gradient, value=1 - group["alpha"])
        parameter.addcdiv_(gradient, mean.add(group["eps"]).sqrt_(), value=-group["lr"])


def make_optimizer(settings: Settings, parameter: nn.Parameter) -> torch.optim.Optimizer:
    """Return the optimizer that the settings name."""
    rate = settings.learning_rate
    if settings.optimizer == "adam":
        return torch.optim.Adam([parameter], lr=rate, eps=settings.adam_epsilon, foreach=False)
    decay, epsilon = settings.rms_decay, settings.rms_epsilon
    if settings.optimizer == "rmsprop-tf":
        return RMSpropTF([parameter], rate, decay, epsilon)
    return torch.optim.RMSprop([parameter], lr=rate, alpha=decay, eps=epsilon, foreach=False)
