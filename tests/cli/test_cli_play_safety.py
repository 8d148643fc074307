"""`simsched play` of a run from elsewhere: nothing of it is executed, no link is followed."""

import contextlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cli_outcome import Outcome  # noqa: E402
from cli_play import HPARAMS, TRAINING, live_run, saved, winner  # noqa: E402

from simsched.live.plan import Plan  # noqa: E402

pytestmark = pytest.mark.torch

Run = Callable[..., Outcome]


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self._folder),))


def trapped(path: Path, trap: Trap, kind: str, good: Path) -> None:
    """Write a file that executes something when it is unpickled."""
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"network": trap}))
    else:
        state = torch.load(good, weights_only=True)
        state["random" if kind == "in the state" else "settings"] = trap
        torch.save(state, path)


@pytest.mark.parametrize("kind", ["pickle", "in the state", "in the settings"])
def test_a_run_from_elsewhere_cannot_execute_code(
    kind: str, checkpoint: Path, simsched: Run, tmp_path: Path
) -> None:
    sprung = tmp_path / "sprung"
    bad = tmp_path / "bad"
    trapped(bad, Trap(sprung), kind, checkpoint)
    run = live_run(Path("run"))
    winner(run, bad)
    saved(run, bad, 3, 100)
    train = Path("train")
    train.mkdir()
    made = Plan(
        game="Breakout", trials=1, steps=9, seed=0, space={}, training=TRAINING, hparams=[HPARAMS]
    )
    made.save(train)
    (train / "trial-0000.pt").write_bytes(bad.read_bytes())
    for arguments in (
        (run,),
        (run, "--trial", 3),
        (run / "best",),
        (run / "best" / "checkpoint.pt",),
        (run / "checkpoints" / "trial-0003-step-100",),
        (train,),
    ):
        refusal = simsched("play", *arguments).refusal
        assert refusal.endswith(": not a readable checkpoint: UnpicklingError")
        assert not sprung.exists()
    assert not list(run.rglob("*.mp4"))
    # The trap works, else none of this says anything.
    with contextlib.suppress(RuntimeError):
        torch.load(bad, weights_only=False)
    assert sprung.is_dir()


def test_a_game_from_elsewhere_imports_nothing(checkpoint: Path, simsched: Run) -> None:
    """Gymnasium imports what stands before a colon in a game's name."""
    Path("trap.py").write_text("open('sprung', 'w').close()")
    state = torch.load(checkpoint, weights_only=True)
    state["settings"]["game"] = "trap:Pong-v0"
    torch.save(state, "c.pt")
    sys.path.insert(0, os.getcwd())
    try:
        assert simsched("play", "c.pt").refusal.startswith("game: 'trap:Pong-v0' is unknown")
    finally:
        sys.path.remove(os.getcwd())
    assert not Path("sprung").exists()


def test_a_film_goes_through_no_link(checkpoint: Path, simsched: Run, tmp_path: Path) -> None:
    pytest.importorskip("av")
    run = live_run(Path("run"))
    winner(run, checkpoint)
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for name in ("play.mp4", ".play.mp4.tmp"):
        (run / "best" / name).symlink_to(mine)
    simsched("play", run).good  # noqa: B018
    assert mine.read_text() == "precious"
    assert not (run / "best" / "play.mp4").is_symlink()
