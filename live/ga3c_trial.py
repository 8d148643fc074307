"""GA3C as a trial of a live search: `python -m simsched.live.ga3c_trial`.

Speaks the worker protocol (docs/workers.md). The `settings` of its welcome are

    {"game": "MsPacman", "training": {"agents": 64, …}, "tensorboard": true}

where `training` holds what all trials share; the trial's hyperparameters are GA3C settings, too.
It says hello at once and imports torch only then, so silence before `training` is start-up. From
then on the thread that trains is the one that says `beat`: a trainer that hangs falls silent.

While it waits for a verdict it stands still and its training seconds do not pass, but its threads,
emulators and network stay as they are: `train` goes on within a millisecond or two.
"""

import contextlib
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from simsched.live import window
from simsched.live.channel import Channel, Gone, connect, greet
from simsched.live.errors import LiveError
from simsched.live.ga3c.knobs import CHANGEABLE
from simsched.live.ga3c.settings import Settings, settings_from
from simsched.live.protocol import (
    Adopt,
    Beat,
    Failed,
    FromWorker,
    Park,
    Reached,
    Rows,
    Save,
    Saved,
    Source,
    Stop,
    ToWorker,
    Train,
    Training,
    Welcome,
)
from simsched.live.window import Score

if TYPE_CHECKING:
    from simsched.live.ga3c.scalars import WorkerScalars
    from simsched.live.ga3c.worker import Counters, Row, Worker

ROWS_PER_MESSAGE = 5000
"""So that no line comes near the protocol's longest."""

_log = logging.getLogger(__name__)


def trial_settings(
    settings: Mapping[str, Any], hparams: Mapping[str, Any], *, seed: int, trial: int
) -> Settings:
    """Return a trial's GA3C settings from those of the search and its hyperparameters.

    Args:
        settings: `game` and `training`, what all trials share; else is ignored.
        hparams: the trial's own, by the names of GA3C settings.
        seed: of the search.
        trial: the trial's number.

    Raises:
        LiveError: no such setting, or a value that cannot work.
    """
    shared = settings.get("training", {})
    game = {"game": settings["game"]} if "game" in settings else {}
    return settings_from({**game, **shared, **hparams, "seed": seed, "trial": trial})


class Trial:
    """Trains as it is told, and tells how it gets on."""

    def __init__(self, channel: Channel, welcome: Welcome) -> None:
        """Construct the worker, from the checkpoint if there is one; it stands still.

        Raises:
            LiveError: the settings cannot work, or the checkpoint does not fit.
        """
        self._channel = channel
        self._welcome = welcome
        self._window = _window(welcome)
        self._rows: list[Score] = []
        self._scalars: WorkerScalars | None = None
        self._waiting = False
        self._over = False
        self._told_s = time.monotonic()
        settings = self._settings(welcome.hparams)
        self._worker = self._make_worker(settings, welcome.source, _own_counters(welcome))

    def _settings(self, hparams: Mapping[str, Any]) -> Settings:
        told = self._welcome
        return trial_settings(told.settings, hparams, seed=told.seed, trial=told.trial)

    def _make_worker(
        self, settings: Settings, source: Source | None, own: "Counters | None"
    ) -> "Worker":
        # Imported here: torch and the games take seconds, and hello is said before.
        from simsched.live.ga3c.worker import Worker

        worker = Worker(settings, None if source is None else Path(source.path), own=own)
        self._take(worker.hold())
        if self._welcome.settings.get("tensorboard"):
            from simsched.live.ga3c.scalars import WorkerScalars

            self._scalars = WorkerScalars(Path(self._welcome.folder, "tensorboard"), worker)
        return worker

    def run(self) -> None:
        """Train and obey, until the coordinator stops or parks the trial.

        Raises:
            Gone: the coordinator is gone.
            LiveError: a part of the worker died, or what was asked cannot be done.
        """
        self._channel.send(Training(self._worker.load_s))
        self._go_on(self._welcome.until)
        while not self._over:
            patience_s = self._welcome.heartbeat_s if self._waiting else 0.0
            told = self._channel.receive(patience_s)
            if told is not None:
                self._obey(told)
            elif self._waiting:
                self._beat()
            else:
                self._train()

    def finish(self) -> None:
        """Complete the event files; threads and processes go with this process."""
        if self._scalars is not None:
            self._scalars.__exit__(None, None, None)
            self._scalars = None

    def close(self) -> None:
        """End every thread and process, where this process is to live on."""
        self.finish()
        self._worker.close()

    def _train(self) -> None:
        self._take(self._worker.advance())
        reached = self._window.milestone()
        if reached is not None:
            self._report(reached)
        elif self._worker.diverged is not None:
            self._report(None)
        elif time.monotonic() - self._told_s >= self._welcome.heartbeat_s / 2:
            self._beat()

    def _take(self, rows: "list[Row]") -> None:
        scores = [Score(*row) for row in rows]
        self._window.add(scores)
        self._rows += scores

    def _flush(self, *messages: FromWorker) -> None:
        """Send the rows that were not sent yet, then these messages."""
        starts = range(0, len(self._rows), ROWS_PER_MESSAGE)
        batches = [self._rows[start : start + ROWS_PER_MESSAGE] for start in starts]
        rows = [Rows([(r.seconds, r.steps, r.episodes, r.score) for r in b]) for b in batches]
        self._channel.send(*rows, *messages)
        self._rows = []
        self._told_s = time.monotonic()

    def _beat(self) -> None:
        self._flush(Beat(**self._worker.counters._asdict()))
        if self._scalars is not None and not self._waiting:
            self._scalars.write_now_and_then()

    def _report(self, reached: window.Reached | None) -> None:
        """Stand still, tell a milestone, and wait; a trial that diverged has no score."""
        self._take(self._worker.hold())  # what ended on the way counts for the next milestone
        self._worker.check_finite()
        counters = self._worker.counters._asdict()
        # Each row is an episode.
        unit = "episodes" if self._window.unit == "reports" else self._window.unit
        score, count = None, float(counters[unit])
        if reached is not None:
            score, count = reached.score, reached.count
        if self._worker.diverged is not None:
            _log.info("diverged: %s", self._worker.diverged)
            score = None
        self._waiting = True
        self._flush(Reached(self._window.until, score, count, **counters))

    def _obey(self, told: ToWorker) -> None:
        if isinstance(told, Train):
            self._go_on(told.until)
        elif isinstance(told, Adopt):
            self._adopt(told)
        elif isinstance(told, Save):
            trained = not self._waiting
            if self._save(told.path) and trained:
                self._go_on(self._window.until)
        elif isinstance(told, Park):
            self._over = self._save(told.path)
        elif isinstance(told, Stop):
            self._over = True
        else:
            raise LiveError("the coordinator sent a second welcome")

    def _go_on(self, until: int) -> None:
        """Train until the next milestone, which the rows that are there may reach already."""
        self._window.until = until
        reached = self._window.milestone()
        if reached is not None:
            self._report(reached)
            return
        self._waiting = False
        self._worker.go()

    def _save(self, path: str) -> bool:
        """Write a checkpoint and say so; returns whether that could be done.

        A trial that is found to have diverged is not saved, but says that it has.
        """
        self._take(self._worker.hold())
        self._waiting = True
        # The coordinator waits for the disk; until then the file is nobody's but its.
        if not self._worker.save(Path(path), durable=False):
            self._report(None)
            return False
        counters = self._worker.counters._asdict()
        self._flush(Beat(**counters), Saved({**counters, "window": self._window.state()}))
        return True

    def _adopt(self, told: Adopt) -> None:
        self._take(self._worker.hold())
        settings = self._settings(told.hparams)
        before, after = map(msgspec.structs.asdict, (self._worker.settings, settings))
        own = ("game", "seed", "trial")
        changes = {k: v for k, v in after.items() if v != before[k] and k not in own}
        if self._worker.diverged is None and changes.keys() <= set(CHANGEABLE):
            self._worker.adopt(Path(told.source.path), **changes)
        else:
            self._begin_anew(settings, told.source)
        self._channel.send(Training(self._worker.load_s))
        self._go_on(told.until)

    def _begin_anew(self, settings: Settings, source: Source) -> None:
        """Replace the worker: its threads have ended on a NaN, or another number is wanted."""
        own = self._worker.counters
        self.close()
        self._worker = self._make_worker(settings, source, own)


def _own_counters(welcome: Welcome) -> "Counters | None":
    """Return the trial's counters; None where they are in its own checkpoint."""
    from simsched.live.ga3c.worker import Counters

    if welcome.source is not None and welcome.source.trial == welcome.trial:
        return None
    return Counters(welcome.seconds, welcome.steps, welcome.episodes)


def _window(welcome: Welcome) -> window.Window:
    try:
        return window.window_of(welcome)
    except msgspec.ValidationError as error:
        raise LiveError(f"what was kept beside the checkpoint is broken: {error}") from error


def _train(trial: Trial) -> None:
    try:
        trial.run()
    finally:
        trial.finish()


def run() -> int:
    """Train the trial that this process was started for; returns the exit code."""
    try:
        connection = connect()
    except LiveError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with connection:
        channel = Channel(connection)
        try:
            _train(Trial(channel, greet(channel)))
        except Gone:
            _log.info("the coordinator is gone; so this worker ends")
        except Exception as error:  # noqa: BLE001 - a boundary: whatever it was, it is told
            traceback.print_exc()
            text = (
                str(error) if isinstance(error, LiveError) else f"{type(error).__name__}: {error}"
            )
            with contextlib.suppress(Gone):
                channel.send(Failed((text.splitlines() or ["no reason given"])[0][:500]))
            return 1
    return 0


def main() -> NoReturn:
    """Run, then leave at once: nothing of use is left, and an interpreter is slow to go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the coordinator's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ends the process, wherever it is
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    code = 1
    try:
        code = run()
    finally:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
