"""One trial of a recording, in a process of its own."""

import signal
import time
import traceback
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

    from simsched.live.ga3c.worker import Worker

    torch.set_num_threads(1)
    trial = task.settings.trial
    checkpoint = checkpoint_path(task.parts, trial)
    path = rows_path(task.parts, trial)
    log = TrialLog(path)
    lines = read_lines(path)
    if is_finished(lines):
        return
    worker = Worker(task.settings, checkpoint if checkpoint.exists() else None)
    kept = lines[: worker.episodes]
    if len(kept) < worker.episodes:
        raise LiveError(
            f"{path}: has {len(kept)} episodes but its checkpoint {worker.episodes}; "
            f"delete {checkpoint.name} and {path.name} to record the trial anew"
        )
    log.keep(kept)
    saved_steps = worker.steps
    reported = 0.0
    scores = [line.score for line in kept if line.score is not None][-RECENT:]
    connection.send(_progress(trial, worker, scores))
    while worker.steps < task.steps and worker.diverged is None:
        rows = worker.advance()
        log.write([Line(*row) for row in rows])
        scores = [*scores, *(row.score for row in rows)][-RECENT:] if rows else scores
        if worker.steps - saved_steps >= CHECKPOINT_STEPS:
            log.sync()  # the rows a checkpoint counts must be on the disk before it is
            worker.save(checkpoint)
            saved_steps = worker.steps
        if time.monotonic() - reported > REPORT_S:
            reported = time.monotonic()
            connection.send(_progress(trial, worker, scores))
            if connection.poll():  # any word from the recorder, its end included, means stop
                log.sync()
                worker.save(checkpoint)
                return
    worker.check_finite()
    end: End = "complete" if worker.diverged is None else "diverged"
    last = Line(round(worker.seconds, 6), worker.steps, worker.episodes, None, end)
    log.write([last])
    log.sync()
    log.close()
    checkpoint.unlink(missing_ok=True)
    connection.send(_progress(trial, worker, scores, end))


def _progress(
    trial: int, worker: "Worker", scores: list[float], end: End | None = None
) -> Progress:
    recent = sum(scores) / len(scores) if scores else None
    return Progress(trial, worker.steps, worker.episodes, worker.seconds, recent, end)
