"""A recorder's trial that stops itself, as by SIGSTOP, once it has begun to train."""

import os
import signal
from multiprocessing.connection import Connection

from simsched.live.trial_process import Task, run_trial


def run_and_stop(task: Task, connection: Connection) -> None:
    """Train trial 0 up to the first step, and any other to its end."""
    from simsched.live.ga3c.worker import Row, Worker

    def stop(worker: Worker) -> list[Row]:
        os.kill(os.getpid(), signal.SIGSTOP)
        return advance(worker)

    advance = Worker.advance
    if task.settings.trial == 0:
        Worker.advance = stop  # type: ignore[method-assign]
    run_trial(task, connection)
