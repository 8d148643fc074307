"""One trial of a recording, in a process of its own."""

import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import msgspec

from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings
from simsched.live.machine import pin_to_cores
from simsched.live.parts import checkpoint_path, rows_path
from simsched.live.training import Clock, Job, Progress, train


class Failure(msgspec.Struct, frozen=True):
    """A trial's process could not go on; the reason is one line."""

    trial: int
    reason: str


class Task(NamedTuple):
    """What a trial's process is to do."""

    settings: Settings
    steps: int
    parts: Path
    cores: tuple[int, ...]
    clock: Clock
    tensorboard: Path | None


def run_trial(task: Task, connection: Connection) -> None:
    """Train a trial to its end, or until the recorder says stop or is gone.

    Sends Progress now and then, and Failure if something breaks. The recorder is the one to
    handle Ctrl-C, so this process ignores it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trial = task.settings.trial

    def report(progress: Progress) -> bool:
        connection.send(progress)
        return connection.poll()  # any word from the recorder, its end too, means stop

    try:
        pin_to_cores(task.cores)
        job = Job(
            task.settings,
            task.steps,
            rows_path(task.parts, trial),
            checkpoint_path(task.parts, trial),
            task.clock,
            task.tensorboard,
        )
        train(job, report)
    except (BrokenPipeError, EOFError):
        return  # the recorder is gone; the last checkpoint stands
    except Exception as error:  # noqa: BLE001 - a boundary: whatever it was, the recorder says it
        report_path = rows_path(task.parts, trial).with_suffix(".error.txt")
        with suppress(OSError):  # the disk may be full; the recorder is told anyway
            report_path.write_text(traceback.format_exc())
        reason = str(error) if isinstance(error, LiveError) else f"{type(error).__name__}: {error}"
        connection.send(Failure(trial, reason.splitlines()[0]))
