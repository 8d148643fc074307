"""Training one trial to its end: rows, checkpoints, progress; stopped and taken up at will."""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings
from simsched.live.parts import End, Line, TrialLog, is_finished, read_lines

if TYPE_CHECKING:
    from simsched.live.ga3c.worker import Worker

Clock: TypeAlias = Literal["wall", "cpu"]
"""What training seconds are: of a clock on the wall, or of processor time."""

CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.monotonic, "cpu": time.process_time}

CHECKPOINT_STEPS = 20_000
"""Agent steps between two checkpoints, at least."""
REPORT_S = 0.5
RECENT = 100
"""Episodes in the mean that is shown as progress."""


_log = logging.getLogger(__name__)


class Progress(msgspec.Struct, frozen=True):
    """How far a trial is."""

    trial: int
    steps: int
    episodes: int
    seconds: float
    recent_score: float | None
    end: End | None = None
    """Set once the trial is over and its file complete."""
    reason: str | None = None
    """Why, if it has just diverged."""


class Job(NamedTuple):
    """A trial to train."""

    settings: Settings
    steps: int
    """Agent steps after which it is complete."""
    rows: Path
    """Its file of lines; see `simsched.live.parts`."""
    checkpoint: Path
    clock: Clock = "wall"
    tensorboard: Path | None = None
    """Folder for event files; None writes none."""
    keep_checkpoint: bool = False
    """Whether the last checkpoint stays once the trial is complete."""


def train(job: Job, report: Callable[[Progress], bool]) -> End | None:
    """Train a trial from its checkpoint, if it has one, to its end.

    Args:
        job: the trial.
        report: called about twice a second, and at the end; it returns True to stop, then the
            trial is saved first. An exception that it raises ends the training unsaved.

    Returns how the trial ended; None if it was stopped.

    Raises:
        LiveError: files that do not fit together, or a part of the worker died.
    """
    with _log_to(job.rows.with_suffix(".log")):
        return _train(job, report)


def _train(job: Job, report: Callable[[Progress], bool]) -> End | None:
    with closing(TrialLog(job.rows)) as log:
        lines = read_lines(job.rows)
        if is_finished(lines):  # by a worker that outlived its recorder, while this one waited
            progress = finished_progress(job.settings.trial, lines)
            report(progress)
            return progress.end
        with closing(_resume(job, lines)) as worker:
            log.keep(worker.episodes)
            recent = deque((line.score for line in lines[: worker.episodes]), maxlen=RECENT)
            if not _loop(job, worker, log, recent, report):
                return None
            return _end(job, worker, log, recent, report)


def _end(
    job: Job,
    worker: "Worker",
    log: TrialLog,
    recent: deque[float | None],
    report: Callable[[Progress], bool],
) -> End:
    """Write the last lines of a trial that is over, and its checkpoint if that stays."""
    log.write([Line(*row) for row in worker.finish()])
    worker.check_finite()
    end: End = "complete" if worker.diverged is None else "diverged"
    if worker.diverged is not None:
        _log.warning("diverged after %d steps: %s", worker.steps, worker.diverged)
    if job.keep_checkpoint and end == "complete":
        log.sync()
        worker.save(job.checkpoint)
    log.write([Line(round(worker.seconds, 6), worker.steps, worker.episodes, None, end)])
    log.sync()
    log.close()
    if not job.keep_checkpoint:
        job.checkpoint.unlink(missing_ok=True)
    report(_progress(worker, recent, end))
    return end


def _loop(
    job: Job,
    worker: "Worker",
    log: TrialLog,
    recent: deque[float | None],
    report: Callable[[Progress], bool],
) -> bool:
    """Train until the trial is over; False if it was stopped, and saved, before."""
    with ExitStack() as stack:
        scalars = None
        if job.tensorboard is not None:
            from simsched.live.ga3c.scalars import WorkerScalars

            scalars = stack.enter_context(WorkerScalars(job.tensorboard, worker))
        report(_progress(worker, recent))
        saved_steps, reported_s = worker.steps, time.monotonic()
        while worker.steps < job.steps and worker.diverged is None:
            rows = worker.advance()
            log.write([Line(*row) for row in rows])
            recent.extend(row.score for row in rows)
            now = time.monotonic()
            stop = False
            if now - reported_s > REPORT_S:
                reported_s = now
                stop = report(_progress(worker, recent))
                if scalars is not None:
                    scalars.write_now_and_then()
            if stop or worker.steps - saved_steps >= CHECKPOINT_STEPS:
                log.sync()  # the rows that a checkpoint counts must be on the disk before it is
                worker.save(job.checkpoint)
                saved_steps = worker.steps
            if stop:
                return False
    return True


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    """Append what the worker logs (adjustments, what could not be compiled) to a file."""
    logger = logging.getLogger("simsched.live")
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.close()


def _resume(job: Job, lines: list[Line]) -> "Worker":
    """Make the worker, from the trial's checkpoint if there is one."""
    # Imported here so that cores are chosen before torch and ale-py make their threads.
    from simsched.live.ga3c.worker import Worker

    exists = job.checkpoint.exists()
    worker = Worker(job.settings, job.checkpoint if exists else None, clock=CLOCKS[job.clock])
    if len(lines) < worker.episodes:
        worker.close()
        raise LiveError(
            f"{job.rows}: has {len(lines)} episodes but its checkpoint {worker.episodes}; "
            f"delete {job.checkpoint.name} and {job.rows.name} to train the trial anew"
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
    reason = None if end is None else worker.diverged
    return Progress(trial, worker.steps, worker.episodes, worker.seconds, mean, end, reason)
