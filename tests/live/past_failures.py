"""Journals of searches that did not go smoothly, event by event."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from simsched.control import Control
from simsched.coordinator import Coordinator
from simsched.events import Failed, NodeUp, Reported, Saved, TimerFired
from simsched.failures import DEADLINE
from simsched.journal import Journal, Record
from simsched.ledger import Ledger
from simsched.live.curves import TrialCurve
from simsched.live.protocol import Counters
from simsched.live.search import make_scheduler, policy_of
from simsched.live.settings import LiveSettings

START, LOAD, SAVE, TRAIN, REDO = 1_500_000, 250_000, 500_000, 5_000_000, 3_000_000
"""What things take, in µs; 3 s of the second phase are trained when its worker fails."""


def fail_once(folder: Path, settings: LiveSettings) -> None:
    """Leave behind a search of two trials on one node; trial 1 fails in its second phase."""
    folder.mkdir()
    length, maximum = settings.phase_length, settings.plan.maximum
    about = {"run": "made up", "settings": msgspec.to_builtins(settings)}
    with (folder / "journal.jsonl").open("wb") as file:
        coordinator = Coordinator(make_scheduler(settings), policy_of(settings))
        control = Control(coordinator, Ledger(maximum), Journal(file, about, maximum))
        now, attempt = 0, 1

        def reported(step: int, start: int = 0, load: int = 0, redo: int = 0) -> None:
            nonlocal now
            score = float(step + 100 * (attempt > 1))
            now += start + load + redo + (TRAIN if not redo else TRAIN - redo)
            control.feed(Reported(now, 0, attempt, step, score, float(step), start, load, redo))
            now += SAVE
            control.feed(Saved(now, 0, attempt))

        control.feed(NodeUp(0, 0))
        reported(length, START)
        reported(maximum)
        attempt = 2
        reported(length, START)
        now += REDO
        control.feed(Failed(now, 0, attempt, "it was killed", length + 1.0))
        now += 1_000_000
        control.feed(TimerFired(now, "retry-1"))
        attempt = 3
        reported(maximum, START, LOAD, REDO)
        assert coordinator.finished
    for trial in range(2):
        curve = TrialCurve(folder / "trials" / f"{trial:04d}" / "rows.jsonl")
        curve.started(trial + 1, Counters())
        for phase, step in enumerate((length, maximum), 1):
            if trial == 1 and phase == 2:
                curve.started(3, Counters(length, 1, TRAIN / 1e6))
            seconds, score = phase * TRAIN / 1e6, float(step + 100 * trial)
            curve.add([(seconds, step, phase, score)])
            curve.reached(step, step, Counters(step, phase, seconds), score)
        curve.close()


def cut_off(whole: Path, folder: Path, settings: LiveSettings, records: Sequence[Record]) -> None:
    """Leave behind the search whose records these are, with its time up before its end."""
    shutil.copytree(whole, folder)
    assert settings.max_time_s is not None
    limit_us, maximum = round(settings.max_time_s * 1e6), settings.plan.maximum
    about = {"run": "made up", "settings": msgspec.to_builtins(settings)}
    with (folder / "journal.jsonl").open("wb") as file:
        coordinator = Coordinator(make_scheduler(settings), policy_of(settings))
        control = Control(coordinator, Ledger(maximum), Journal(file, about, maximum))
        for record in records:
            if record.event.at <= limit_us:
                control.feed(record.event)
        control.feed(TimerFired(limit_us, DEADLINE))
        assert coordinator.finished
