"""Compiled training gives what plain training gives."""

import shutil
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from simsched.live.ga3c.compiled import compile_loss, worth_compiling  # noqa: E402
from simsched.live.ga3c.flat import FlatParameters  # noqa: E402
from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.settings import PRESETS, Settings  # noqa: E402
from simsched.live.ga3c.trainer import a3c_loss  # noqa: E402
from simsched.live.ga3c.transfer import Transfer  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch itself
]

SHAPE, DTYPE, ACTIONS, BATCH = (4,), np.dtype(np.float32), 3, 16


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_the_compiled_loss_has_the_gradient_of_the_plain_one() -> None:
    settings = Settings(game="CartPole-v1", least_batch=BATCH, compile="on")
    device = torch.device("cpu")
    flats = [FlatParameters(build(settings, SHAPE, DTYPE, ACTIONS, 0)) for _ in range(2)]
    compiled = compile_loss(flats[:1], settings, Transfer(device), SHAPE, DTYPE)
    assert compiled is not a3c_loss
    random = torch.Generator().manual_seed(0)
    batch = (
        torch.randn(BATCH, *SHAPE, generator=random),
        torch.randint(ACTIONS, (BATCH,), generator=random),
        torch.randn(BATCH, generator=random),
        torch.tensor(0.01),
    )
    losses: list[Any] = []
    for loss, flat in zip((compiled, a3c_loss), flats, strict=True):
        flat.clear_gradients()
        total, terms = loss(flat.network, *batch)
        total.backward()
        losses.append(torch.stack([total, *terms]).detach())
    torch.testing.assert_close(*losses)
    assert flats[1].gradients.abs().max() > 0.1
    torch.testing.assert_close(flats[0].gradients, flats[1].gradients)


def test_auto_compiles_on_a_gpu_only() -> None:
    settings = Settings(game="MsPacman", **PRESETS["fast"])
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert worth_compiling(settings, frames=True, device=gpu)
    assert not worth_compiling(settings, frames=True, device=cpu)
    assert not worth_compiling(settings, frames=False, device=gpu)
