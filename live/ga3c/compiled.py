"""Compiled training, where that is a gain and works."""

import logging
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simsched.live.errors import LiveError
from simsched.live.ga3c.flat import FlatParameters
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.trainer import LossFunction, a3c_loss
from simsched.live.ga3c.transfer import Transfer

_log = logging.getLogger(__name__)


def require_compilable(settings: Settings, *, overlapped: bool) -> None:
    """Refuse `compile = "on"` where nothing would be compiled.

    Args:
        settings: of the worker.
        overlapped: whether its parts run in threads of their own.

    Raises:
        LiveError: parts that take turns, or batches of no fixed size.
    """
    if settings.compile != "on":
        return
    if not overlapped:
        raise LiveError(
            "compile: on is for GA3C's parts in threads: use overlap on, or compile off"
        )
    if not _fixed(settings):
        raise LiveError(
            "compile: on needs batches of a fixed size: algorithm ga3c, a least_batch above "
            "0 and no vtrace"
        )


def _fixed(settings: Settings) -> bool:
    """Whether all batches have the same size."""
    return settings.least_batch > 0 and not settings.vtrace and settings.algorithm == "ga3c"


def worth_compiling(settings: Settings, *, frames: bool, device: torch.device) -> bool:
    """Whether to try, where parts run in threads: asked for, or of use."""
    require_compilable(settings, overlapped=True)
    if settings.compile == "on":
        return True
    # On a processor it saves page faults, and there are none where freed memory is kept.
    return settings.compile == "auto" and _fixed(settings) and frames and device.type == "cuda"


def compile_loss(
    networks: list[FlatParameters],
    settings: Settings,
    transfer: Transfer,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> LossFunction:
    """Compile the loss and its gradient, and try them on each of the networks.

    Returns the plain function where compiling fails, after a warning, unless the settings
    insist: then LiveError.
    """
    compiled: LossFunction = torch.compile(a3c_loss, dynamic=False)
    size = settings.least_batch
    observations = transfer.tensor(np.zeros((size, *shape), dtype=dtype))
    actions = transfer.tensor(np.zeros(size, dtype=np.int64))
    returns = transfer.tensor(np.zeros(size, dtype=np.float32))
    weight = torch.tensor(settings.entropy_weight, device=transfer.device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own, about this machine
            for flat in networks:
                _try(compiled, flat, observations, actions, returns, weight)
    except Exception as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        if settings.compile == "on":
            raise LiveError(
                f"compile: {type(error).__name__}: {reason}; use auto or off"
            ) from error
        _log.warning("training is not compiled: %s: %s", type(error).__name__, reason)
        return a3c_loss
    return compiled


def _try(loss: LossFunction, flat: FlatParameters, *batch: Tensor) -> None:
    observations, actions, returns, weight = batch
    total, _ = loss(flat.network, observations, actions, returns, weight)
    total.backward()  # type: ignore[no-untyped-call]
    flat.clear_gradients()
