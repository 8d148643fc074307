"""Folders of live searches whose agents can be played, and what a film shows. Needs torch."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("ale_py")
pytest.importorskip("psutil")

from simsched.live.best import About, keep  # noqa: E402
from simsched.live.ga3c.settings import PRESETS, Settings  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402
from simsched.live.settings import LiveSettings  # noqa: E402
from simsched.live.storage import Store  # noqa: E402
from simsched.messages import Checkpoint  # noqa: E402

torch.set_num_threads(1)  # on a busy machine several wait for each other
TRAINING = {**PRESETS["repeatable"], "agents": 2, "threads": 1}
HPARAMS = {"learning_rate": 1e-3, "gamma": 0.95}


def settings(trial: int, game: str = "Breakout") -> Settings:
    return Settings(**{"game": game, "trial": trial, **TRAINING, **HPARAMS})


def random_agent(path: Path) -> None:
    """Write a checkpoint of trial 3, an agent that plays Breakout at random."""
    worker = Worker(settings(3))
    worker.save(path)
    worker.close()


def live_run(folder: Path, **changes: Any) -> Path:
    """The folder of a live search without a checkpoint."""
    fields: dict[str, Any] = {
        "version": "0", "code": "0", "game": "Breakout", "training": TRAINING, "nodes": 1,
        "phase_length": 100, "space": {"gamma": {"type": "real"}, "learning_rate": {}},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    told = LiveSettings(**{**fields, **changes})
    (folder / "settings.json").write_bytes(msgspec.json.encode(told))
    return folder


def saved(run: Path, checkpoint: Path, trial: int, step: int) -> None:
    """Put a checkpoint into a live search's folder, as its worker and coordinator do."""
    store = Store(run / "checkpoints")
    store.scratch(1).write_bytes(checkpoint.read_bytes())
    store.commit(1, Checkpoint(trial, step), {"steps": step})


def winner(run: Path, checkpoint: Path, trial: int = 3) -> None:
    keep(run, checkpoint, About(trial, HPARAMS, settings(trial)), {})


def picture_count(path: Path) -> int:
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(container.streams.video[0]))
