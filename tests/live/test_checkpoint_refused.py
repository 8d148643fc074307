"""Checkpoints that do not fit, or are none, are refused in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_workers import settings, trained  # noqa: E402

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.checkpoint import read_checkpoint  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402

pytestmark = pytest.mark.torch


def refused(path: Path, **changes: Any) -> str:
    with pytest.raises(LiveError) as caught:
        Worker(settings(**changes), path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_file_that_is_no_checkpoint_is_refused_in_one_line(tmp_path: Path) -> None:
    trained(tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    path = tmp_path / "c.pt"
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert refused(path).startswith("not a readable checkpoint: ")
    path.write_bytes(np.random.default_rng(0).bytes(5_000))
    assert refused(path).startswith("not a readable checkpoint: ")
    path.write_bytes(b"PK\x03\x04 torn")
    assert refused(path).startswith("not a readable checkpoint: ")
    assert refused(tmp_path / "none.pt") == "not a readable checkpoint: FileNotFoundError"
    assert refused(tmp_path) == "not a readable checkpoint: IsADirectoryError"
    for content in (torch.zeros(3), [1, 2], "text", 5):
        torch.save(content, path)
        assert refused(path).startswith("not a")
    state = read_checkpoint(tmp_path / "whole.pt")
    for missing in sorted(set(state) - {"settings"}):
        torch.save({key: value for key, value in state.items() if key != missing}, path)
        assert refused(path) == f"not a checkpoint, {missing!r} is missing"


def test_what_does_not_fit_the_trial_is_refused_in_one_line(tmp_path: Path) -> None:
    for name, changes in [
        ("mountain", {"game": "MountainCar-v0"}),
        ("acrobot", {"game": "Acrobot-v1"}),
        ("adam", {"optimizer": "adam"}),
        ("tf", {"optimizer": "rmsprop-tf"}),
        ("rms", {}),
    ]:
        trained(tmp_path / f"{name}.pt", steps=200, **changes)
    fits = "the checkpoint does not fit this trial: "
    assert refused(tmp_path / "mountain.pt").startswith(fits)
    assert refused(tmp_path / "acrobot.pt").startswith(fits)
    for saved, wanted in [
        ("rms", "adam"),
        ("rms", "rmsprop-tf"),
        ("tf", "rmsprop"),
        ("tf", "adam"),
        ("adam", "rmsprop"),
        ("adam", "rmsprop-tf"),
    ]:
        message = refused(tmp_path / f"{saved}.pt", optimizer=wanted)
        assert message.startswith(f"{fits}the optimizer's state is not that of ")


@pytest.mark.parametrize(
    ("spoil", "trouble"),
    [
        (lambda state: state.update(random={}), "not"),
        (lambda state: state["network"].pop("policy.0.weight"), "the checkpoint does not fit"),
        (lambda state: state["network"].update(extra=torch.zeros(1)), "the checkpoint does not"),
        (lambda state: state.update(network=torch.zeros(1)), "the checkpoint does not fit"),
        (lambda state: state.update(optimizer={}), "the checkpoint does not fit"),
        (lambda state: state.update(updates="many"), "the checkpoint does not fit"),
        (lambda state: state.update(steps="many"), ""),
        (lambda state: state.update(random={"groups": [{"bit_generator": "MT19937"}]}), ""),
    ],
)
def test_a_checkpoint_with_wrong_parts_is_refused_in_one_line(
    spoil: Callable[[dict[str, Any]], object], trouble: str, tmp_path: Path
) -> None:
    trained(tmp_path / "c.pt", steps=200)
    state = read_checkpoint(tmp_path / "c.pt")
    spoil(state)
    torch.save(state, tmp_path / "c.pt")
    assert refused(tmp_path / "c.pt").startswith(trouble)
