"""Scalars of training for TensorBoard, and for whoever shows progress."""

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from simsched.live.errors import LiveError
from simsched.live.ga3c.monitor import Monitor, rates

if TYPE_CHECKING:
    from simsched.live.ga3c.worker import Worker

EVERY_S = 5.0
"""How often scalars are written."""


class Scalars:
    """Reads a worker's monitor now and then: rates and means of the time in between."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._before = monitor.totals()
        self._at = time.monotonic()

    def read(self) -> dict[str, float]:
        """Return the scalars of the time since the last call."""
        now, totals = time.monotonic(), self._monitor.totals()
        found = rates(self._before, totals, max(now - self._at, 1e-9))
        found["train/greatest_policy_lag"] = float(self._monitor.greatest_lag())
        self._before, self._at = totals, now
        return found


class TensorBoard:
    """Writes scalars of a worker into a folder of TensorBoard event files.

    `speed/…` PPS (predictions), TPS (samples trained), agent steps and updates per second;
    `batch/…` mean sizes; `queue/…` mean fill, observations and samples; `train/…` losses and
    entropy per sample, gradient norm of the summed loss, policy lag in updates; `episode/…`
    score and length; `adjust/…` the parts that are active, where they are adjusted.
    """

    def __init__(self, folder: Path, steps: int = 0) -> None:
        """Open a folder; earlier event files in it stay.

        Args:
            folder: made if it is not there.
            steps: the trial's, if it goes on: what was written of later ones is not shown.

        Raises:
            LiveError: the package tensorboard is not installed.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise LiveError(
                "tensorboard is not installed, --tensorboard needs it: pip install 'simsched[live]'"
            ) from error
        self._writer: Any = SummaryWriter(str(folder), purge_step=steps or None)

    def write(self, scalars: dict[str, float], steps: int) -> None:
        """Write scalars as those after so many agent steps."""
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, steps)
        self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()


class WorkerScalars:
    """Writes a worker's scalars every few seconds, and at the end."""

    def __init__(self, folder: Path, worker: "Worker") -> None:
        self._worker = worker
        self._board = TensorBoard(folder, worker.steps)
        self._scalars = Scalars(worker.monitor)
        self._written_s = time.monotonic()

    def write_now_and_then(self) -> None:
        """Write, if the last time is a while ago."""
        if time.monotonic() - self._written_s >= EVERY_S:
            self._write()

    def _write(self) -> None:
        self._written_s = time.monotonic()
        values = {**self._scalars.read(), **self._worker.part_counts()}
        self._board.write(values, self._worker.steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write for the last time and close the file."""
        self._write()
        self._board.__exit__(kind, error, traceback)
