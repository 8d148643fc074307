"""From arrays to tensors on the device: frames stay bytes until they are there."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simsched.live.errors import LiveError


def choose_device(name: str) -> torch.device:
    """Return the device of this name; `auto` is a GPU where there is one.

    Raises:
        LiveError: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise LiveError(f"device: {name!r} is none of auto, cpu, cuda, cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise LiveError(f"device: {name!r} is none of auto, cpu, cuda, cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise LiveError(
            f"device: {name!r} is not here, torch sees {torch.cuda.device_count()} GPUs; use auto"
        )
    return device


class Transfer:
    """Moves arrays to a device: through pinned memory, asynchronously, if that is a GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """Return an array as a tensor of the same type on the device."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.device.type == "cpu":
            return tensor
        # The copy is queued on this thread's stream; whatever uses the tensor comes after it.
        return tensor.pin_memory().to(self.device, non_blocking=True)
