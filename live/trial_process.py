"""One trial of a recording, in a process of its own."""

import signal
import time
import traceback
from collections import deque
from collections.abc import Collection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings
from simsched.live.machine import pin_to_core
from simsched.live.parts import (
    End,
    Line,
    TrialLog,
    checkpoint_path,
    is_finished,
    read_lines,
    rows_path,
)

if TYPE_CHECKING:
    from simsched.live.ga3c.worker import Worker

CHECKPOINT_STEPS = 20_000
REPORT_S = 0.5
RECENT = 100
"""Episodes in the mean that is shown as progress."""


class Progress(msgspec.Struct, frozen=True):
    """How far a trial is."""

    trial: int
    steps: int
    episodes: int
    seconds: float
    recent_score: float | None
    end: End | None = None
    """Set once the trial is over and its file complete."""


class Failure(msgspec.Struct, frozen=True):
    """A trial's process could not go on; the reason is one line."""

    trial: int
    reason: str


class Task(NamedTuple):
    """What a trial's process is to do."""

    settings: Settings
    steps: int
    parts: Path
    core: int


def run_trial(task: Task, connection: Connection) -> None:
    """Train a trial to its end, or until the recorder says stop or is gone.

    Sends Progress now and then, and Failure if something breaks. The recorder is the one to
    handle Ctrl-C, so this process ignores it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trial = task.settings.trial
    try:
        pin_to_core(task.core)
        _train(task, connection)
    except (BrokenPipeError, EOFError):
        return  # the recorder is gone; the last checkpoint stands
    except Exception as error:  # noqa: BLE001 - a boundary: whatever it was, the recorder says it
        report = rows_path(task.parts, trial).with_suffix(".error.txt")
        report.write_text(traceback.format_exc())
        reason = str(error) if isinstance(error, LiveError) else f"{type(error).__name__}: {error}"
        connection.send(Failure(trial, reason.splitlines()[0]))


def _train(task: Task, connection: Connection) -> None:
    # Imported here so that the core is chosen before torch and ale-py make their threads.
    import torch

    torch.set_num_threads(1)
    path = rows_path(task.parts, task.settings.trial)
    checkpoint = checkpoint_path(task.parts, task.settings.trial)
    log = TrialLog(path)
    lines = read_lines(path)
    if is_finished(lines):  # by a worker that outlived its recorder, while this one waited
        connection.send(finished_progress(task.settings.trial, lines))
        return
    worker = _resume(task, lines)
    log.keep(worker.episodes)
    recent = deque((line.score for line in lines[: worker.episodes]), maxlen=RECENT)
    connection.send(_progress(worker, recent))
    saved_steps = worker.steps
    reported_s = time.monotonic()
    while worker.steps < task.steps and worker.diverged is None:
        rows = worker.advance()
        log.write([Line(*row) for row in rows])
        recent.extend(row.score for row in rows)
        stop = False
        if time.monotonic() - reported_s > REPORT_S:
            reported_s = time.monotonic()
            connection.send(_progress(worker, recent))
            stop = connection.poll()  # any word from the recorder, its end too, means stop
        if stop or worker.steps - saved_steps >= CHECKPOINT_STEPS:
            log.sync()  # the rows that a checkpoint counts must be on the disk before it is
            worker.save(checkpoint)
            saved_steps = worker.steps
        if stop:
            return
    worker.check_finite()
    end: End = "complete" if worker.diverged is None else "diverged"
    log.write([Line(round(worker.seconds, 6), worker.steps, worker.episodes, None, end)])
    log.sync()
    log.close()
    checkpoint.unlink(missing_ok=True)
    connection.send(_progress(worker, recent, end))


def _resume(task: Task, lines: list[Line]) -> "Worker":
    """Make the worker, from the trial's checkpoint if there is one."""
    from simsched.live.ga3c.worker import Worker

    checkpoint = checkpoint_path(task.parts, task.settings.trial)
    worker = Worker(task.settings, checkpoint if checkpoint.exists() else None)
    if len(lines) < worker.episodes:
        path = rows_path(task.parts, task.settings.trial)
        raise LiveError(
            f"{path}: has {len(lines)} episodes but its checkpoint {worker.episodes}; "
            f"delete {checkpoint.name} and {path.name} to record the trial anew"
        )
    return worker


def finished_progress(trial: int, lines: list[Line]) -> Progress:
    """Return the last word on a finished trial, from its lines."""
    last = lines[-1]
    scores = [line.score for line in lines[-RECENT - 1 : -1] if line.score is not None]
    recent = sum(scores) / len(scores) if scores else None
    return Progress(trial, last.steps, last.episodes, last.seconds, recent, last.end)


def _progress(
    worker: "Worker", recent: Collection[float | None], end: End | None = None
) -> Progress:
    scores = [score for score in recent if score is not None]
    mean = sum(scores) / len(scores) if scores else None
    trial = worker.settings.trial
    return Progress(trial, worker.steps, worker.episodes, worker.seconds, mean, end)
