"""`simsched live` of a command, whose search is never run: who would be called, and how."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")

from simsched.live import search
from simsched.live.outcome import Outcome as RunOutcome

COMMAND = ("--command", "sh train.sh {lr}", "--search-space", "space.toml")


class Recorder:
    """Stands in for `run_search`: remembers its call and ends as it is told."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.ended = "done"
        self.error: Exception | None = None

    def __call__(self, settings: Any, nodes: Any, folder: Path, **options: Any) -> RunOutcome:
        self.calls.append({"settings": settings, "nodes": nodes, "folder": folder, **options})
        if self.error is not None:
            raise self.error
        (folder / "settings.json").write_bytes(search._pretty(settings))
        if self.ended == "interrupted":
            return RunOutcome(ended="interrupted", folder=folder)
        (folder / "results.json").write_text('{"runs": []}\n')
        return RunOutcome(
            ended=self.ended,  # type: ignore[arg-type]
            folder=folder,
            report=folder / "report.html",
            best_score=711.4321,
            best_trial=3,
            best_hparams={"lr": 0.0123456},
        )
