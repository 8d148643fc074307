"""The one copy of the network, and the optimizer that updates it."""

import copy
import math
import threading
from typing import Any

import torch
from torch import Tensor, nn

from simsched.live.errors import DivergedError
from simsched.live.ga3c.flat import FlatParameters
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.optimizers import make_optimizer


class Learner:
    """Applies gradients to the network, one at a time, whoever computed them."""

    def __init__(self, network: nn.Module, knobs: Knobs) -> None:
        self.network = network
        self.knobs = knobs
        self.flat = FlatParameters(network)
        self._vector = nn.Parameter(self.flat.values)
        self.optimizer = make_optimizer(knobs.settings, self._vector)
        self.updates = 0
        self.lock = threading.Lock()
        """Held while the network changes."""

    def replica(self) -> FlatParameters:
        """Return a copy of the network: a trainer's own, for its backward pass."""
        network = copy.deepcopy(self.network)
        return FlatParameters(network)

    def refresh(self, replica: FlatParameters) -> None:
        """Copy the newest weights to a replica."""
        with self.lock:
            replica.values.copy_(self.flat.values)

    def apply(self, gradients: Tensor, loss: float, steps: int) -> float:
        """Do one update; returns the gradient's norm before any clipping.

        Args:
            gradients: flat, of the sum over the batch.
            loss: the loss they are of.
            steps: agent steps so far, for the schedule.

        Raises:
            DivergedError: the loss or the gradient is not finite; the network stays as it was.
        """
        norm = float(torch.linalg.vector_norm(gradients))
        if not (math.isfinite(norm) and math.isfinite(loss)):
            raise DivergedError(
                f"update {self.updates + 1}: the loss or its gradient is not finite"
            )
        limit = self.knobs.settings.clip_norm
        if limit and norm > limit:
            gradients = gradients * (limit / norm)
        with self.lock:
            self.optimizer.param_groups[0]["lr"] = self.knobs.learning_rate(steps)
            self._vector.grad = gradients
            self.optimizer.step()
            self.updates += 1
        return norm

    def check_finite(self) -> None:
        """Raise DivergedError, naming it, if a parameter is NaN or infinite."""
        if bool(torch.isfinite(self.flat.values).all()):
            return
        for name, parameter in self.network.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise DivergedError(f"parameter {name} is not finite")

    def state(self) -> dict[str, Any]:
        """Return weights, optimizer and update count: copies, on the processor."""
        with self.lock:
            weights = {
                name: tensor.detach().to("cpu", copy=True).contiguous()
                for name, tensor in self.network.state_dict().items()
            }
            optimizer = copy.deepcopy(self.optimizer.state_dict())
            return {"network": weights, "optimizer": optimizer, "updates": self.updates}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; KeyError, RuntimeError or ValueError if it does not fit."""
        sizes = [t.numel() for t in state["optimizer"]["state"].get(0, {}).values() if t.dim()]
        if any(size != self.flat.values.numel() for size in sizes):
            raise ValueError("the optimizer's state is of another network or optimizer")
        kind = type(self.optimizer).__name__
        groups = state["optimizer"]["param_groups"][0].keys()
        if groups != self.optimizer.param_groups[0].keys():
            raise ValueError(f"the optimizer's state is not that of {kind}")
        with self.lock:
            self.network.load_state_dict(state["network"])
            self._restore_optimizer(state["optimizer"])
            self.updates = int(state["updates"])

    def _restore_optimizer(self, state: dict[str, Any]) -> None:
        """Take over statistics and the schedule's learning rate; all else is as in the settings."""
        own = self.optimizer.param_groups[0]
        kept = {name: own[name] for name in own if name not in ("params", "lr")}
        before = dict(self.optimizer.state.get(self._vector, {}))
        self.optimizer.load_state_dict(state)
        self.optimizer.param_groups[0].update(kept)
        after = self.optimizer.state.get(self._vector, {})
        for name in before.keys() & after.keys():  # in place: other processes may share them
            after[name] = before[name].copy_(after[name])

    def adopt(self, state: dict[str, Any]) -> None:
        """Take over a donor's weights and optimizer, as one more update of this network.

        KeyError, RuntimeError or ValueError if they do not fit.
        """
        own = self.updates
        self.restore(state)
        self.updates = own + 1
