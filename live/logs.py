"""The logs of a run: all processes in one file, and each trial's in one of its own.

    run.log                  all of it
    trials/0003/worker.log   what concerns trial 3

    2026-11-21T17:12:03.123+0100 OUTPUT  node=0 trial=3 attempt=7 what the worker printed
    2026-11-21T17:12:03.125+0100 WARNING node=0 trial=3 attempt=7 what simsched says of it
    2026-11-21T17:12:03.130+0100 INFO    node=- trial=- attempt=- what concerns no trial

Lines are whole: each is written by one call, by this process, which opened the files for
appending. Its multiprocessing children send it theirs, through multiprocessing-logging. What a
worker prints is bounded to `OUTPUT_BYTES` for each trial; one line says that the rest is dropped.
"""

import logging
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from multiprocessing_logging import MultiProcessingHandler

from simsched.live.log_files import OUTPUT_BYTES, RUN_LOG, LogFiles

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    Channel: TypeAlias = Queue[logging.LogRecord]
else:
    Channel: TypeAlias = Any

LOGGER = "simsched"


class RunLog:
    """The open logs of a run's folder. As a context, it also takes all that is logged."""

    def __init__(self, folder: Path, *, output_bytes: int = OUTPUT_BYTES) -> None:
        """Open them; what is there stays.

        Args:
            folder: the run's; it exists.
            output_bytes: how much of each trial's file its workers' output may fill.
        """
        self._files = LogFiles(folder, output_bytes)
        self._handler: _Handler | None = None
        self._level = logging.NOTSET

    def worker_line(self, node: int, trial: int, attempt: int, line: str) -> bool:
        """Write a line that a worker printed. False if it is dropped, as all that follow are."""
        return self._files.output(node, trial, attempt, line)

    def event(
        self,
        level: int,
        text: str,
        *,
        node: int | None = None,
        trial: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Write what happened; `level` is one of the module logging."""
        place = {"node": node, "trial": trial, "attempt": attempt}
        record = logging.LogRecord(LOGGER, level, "", 0, text, None, None)
        vars(record).update(place)
        self._files.handle(record)

    @property
    def channel(self) -> Channel:
        """Where children of this process send their records: see `log_through`."""
        if self._handler is None:
            raise RuntimeError("use the log as a context: it takes no records yet")
        return self._handler.channel()

    def __enter__(self) -> Self:
        """Take all that is logged here, from INFO up of simsched's own, into the files.

        Extras `node`, `trial` and `attempt` of a record say what it is about. Forked children of
        multiprocessing log like this process, spawned ones after `log_through`.
        """
        self._handler = _Handler(self._files)
        logger = logging.getLogger(LOGGER)
        self._level = logger.level
        logger.setLevel(logging.INFO)
        logging.getLogger().addHandler(self._handler)
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the children's records (for 5 s at most), and close the files."""
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)
            logging.getLogger(LOGGER).setLevel(self._level)
            self._handler.close()
            self._handler = None
        self._files.finish()


@contextmanager
def log_through(channel: Channel) -> Iterator[None]:
    """Log through the run's log, in a spawned child that was given its channel."""
    root, logger = logging.getLogger(), logging.getLogger(LOGGER)
    handler, level = QueueHandler(channel), logger.level
    root.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        root.removeHandler(handler)


class _Handler(logging.Handler):
    """Writes this process's records at once, and its children's as they come in.

    The own ones do not take the way through the queue: after SIGKILL they are in the file, and
    a child that is killed while it has the queue's lock cannot stop this process.
    """

    def __init__(self, files: LogFiles) -> None:
        super().__init__()
        self._files = files
        self._owner = os.getpid()
        self._forked = MultiProcessingHandler(RUN_LOG, files)
        self._spawned: MultiProcessingHandler | None = None

    def channel(self) -> Channel:
        """Return the spawned children's queue. Made when it is asked for: it takes a process."""
        if self._spawned is None:
            self._spawned = MultiProcessingHandler(f"{RUN_LOG}-spawned", self._files)
            # Its own is for forked children only. Its thread takes this one within 0.2 s.
            self._spawned.queue = multiprocessing.get_context("spawn").Queue(-1)
        channel: Channel = self._spawned.queue
        return channel

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() == self._owner:
            self._files.handle(record)
        else:
            self._forked.emit(record)

    def close(self) -> None:
        if os.getpid() == self._owner:
            for handler in (self._forked, self._spawned):
                if handler is not None:
                    handler.close()
        super().close()
