"""GA3C's worker in this process: on CartPole if not asked otherwise, trained for some steps."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from simsched.live.ga3c.settings import PRESETS, Settings  # noqa: E402
from simsched.live.ga3c.worker import Row, Worker  # noqa: E402


def settings(**changes: Any) -> Settings:
    fields = {**PRESETS["repeatable"], "game": "CartPole-v1", "threads": 1, "seed": 2, **changes}
    return Settings(**fields)


def train(worker: Worker, steps: int, *, may_diverge: bool = False) -> list[Row]:
    """Train on to so many steps, or until it diverges."""
    rows = []
    while worker.steps < steps and worker.diverged is None:
        rows += worker.advance()
    assert may_diverge or worker.diverged is None
    return rows


def train_and_close(worker: Worker, steps: int, *, may_diverge: bool = False) -> list[Row]:
    rows = train(worker, steps, may_diverge=may_diverge)
    worker.close()
    return rows


def trained(path: Path, steps: int = 2_000, **changes: Any) -> Worker:
    """A closed worker that was trained and saved."""
    worker = Worker(settings(**changes))
    train(worker, steps)
    assert worker.save(path)
    worker.close()
    return worker
