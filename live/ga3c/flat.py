"""A network's parameters as one vector: copied, shared and updated in one stroke."""

import torch
from torch import Tensor, nn


class FlatParameters:
    """Puts all parameters of a network into one vector and all gradients into another.

    The network works as before: its parameters and their gradients become views. Filters of
    convolutions lie channels last, which is what the processor's kernels are fastest with.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        total = sum(parameter.numel() for parameter in parameters)
        device = parameters[0].device
        self.network = network
        self.values = torch.empty(total, device=device)
        self.gradients = torch.zeros(total, device=device)
        self._bind(copy=True)

    def _bind(self, *, copy: bool) -> None:
        start = 0
        for parameter in self.network.parameters():
            end = start + parameter.numel()
            view = _view(self.values[start:end], parameter)
            if copy:
                view.copy_(parameter.detach())
            parameter.data = view
            parameter.grad = _view(self.gradients[start:end], parameter)
            start = end

    def share(self, values: Tensor) -> None:
        """Use this vector, of the same length, for the parameters; its numbers stand."""
        self.values = values
        self._bind(copy=False)

    def clear_gradients(self) -> None:
        """Set all gradients to 0; they stay views."""
        self.gradients.zero_()


def _view(part: Tensor, like: Tensor) -> Tensor:
    if like.dim() == 4:
        outputs, inputs, height, width = like.shape
        return part.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
    return part.view(like.shape)
