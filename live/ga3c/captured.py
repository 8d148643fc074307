"""The prediction step on a GPU, captured as a CUDA graph: one launch instead of a dozen."""

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

_log = logging.getLogger(__name__)

WARM_UP = 3
"""Passes before the capture: libraries choose their kernels and take their memory in them."""


class CapturedForward:
    """A network's pass over batches of up to a fixed size, captured once and replayed.

    The graph holds the addresses of the parameters, which are updated in place, so it always
    predicts with the newest weights. One thread at a time may use it.
    """

    def __init__(
        self, network: nn.Module, size: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        """Capture the pass for batches of `size` observations of this shape and type.

        Raises:
            RuntimeError: the network is not on a GPU, or cannot be captured.
        """
        device = next(network.parameters()).device
        if device.type != "cuda":
            raise RuntimeError("only a network on a GPU can be captured")
        self._size = size
        example = torch.from_numpy(np.zeros((size, *shape), dtype=dtype))
        self._staging = example.pin_memory()
        self._input = example.to(device)
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._stream), torch.inference_mode():
            for _ in range(WARM_UP):
                self._pass(network)
        self._stream.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"),
            torch.inference_mode(),
        ):
            self._policy, self._values = self._pass(network)
        self._policy_out = torch.empty_like(self._policy, device="cpu").pin_memory()
        self._values_out = torch.empty_like(self._values, device="cpu").pin_memory()

    def _pass(self, network: nn.Module) -> tuple[Tensor, Tensor]:
        logits, values = network(self._input)
        return torch.softmax(logits, dim=1), values

    def __call__(self, observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return probabilities (n, actions) and values (n,) of n <= size observations."""
        n = len(observations)
        self._staging[:n].copy_(torch.from_numpy(np.ascontiguousarray(observations)))
        with torch.cuda.stream(self._stream), torch.inference_mode():
            self._input[:n].copy_(self._staging[:n], non_blocking=True)
            self._graph.replay()
            self._policy_out.copy_(self._policy, non_blocking=True)
            self._values_out.copy_(self._values, non_blocking=True)
        self._stream.synchronize()
        return self._policy_out[:n].numpy().copy(), self._values_out[:n].numpy().copy()


def try_capture(
    network: nn.Module, size: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> CapturedForward | None:
    """Capture, if the network is on a GPU and it works there; a failure is logged."""
    if next(network.parameters()).device.type != "cuda":
        return None
    try:
        return CapturedForward(network, size, shape, dtype)
    except RuntimeError as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        _log.warning("predictions are not captured: %s", reason)
        return None
