"""The worker protocol for Python programs.

    from simsched.live.client import Trial

    with Trial(save=model.save, load=model.load) as trial:
        model.build(**trial.hparams)
        trial.begin()
        while trial.report(model.train_epoch()):
            pass

A program that runs on its own, without `simsched live`, is told so: `Trial` raises RuntimeError.
"""

import json
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from simsched.live.protocol import PROTOCOL, Welcome
from simsched.live.window import Score, window_of


class Trial:
    """The trial that this program was started to train."""

    def __init__(
        self,
        *,
        save: Callable[[str], object] | None = None,
        load: Callable[[str], object] | None = None,
        change: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        """Connect, and learn what to train.

        Args:
            save: writes the program's state to a path, as a file or a folder.
            load: reads it again.
            change: takes new hyperparameters while training; only PBT needs it.

        Raises:
            RuntimeError: the program was not started by `simsched live`, or by another version.
        """
        try:
            path, token = os.environ["SIMSCHED_SOCKET"], os.environ["SIMSCHED_TOKEN"]
        except KeyError as missing:
            raise RuntimeError(f"{missing} is not set: start this through simsched live") from None
        self._save, self._load, self._change = save, load, change
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._buffer = b""
        self._send(type="hello", protocol=PROTOCOL, token=token, pid=os.getpid())
        told = self._receive()
        if told is None or told.get("type") != "welcome" or told.get("protocol") != PROTOCOL:
            raise RuntimeError(f"simsched live does not speak protocol {PROTOCOL}: {told}")
        welcome = msgspec.convert(told, Welcome)
        self.number: int = told["trial"]
        self.hparams: dict[str, Any] = told["hparams"]
        self.seed: int = told["seed"]
        self.unit: str = told["unit"]
        self.folder = Path(told["folder"])
        """The trial's own, for logs."""
        self.steps: int = told["steps"]
        self.episodes: int = told["episodes"]
        self.seconds: float = told["seconds"]
        self._source: dict[str, Any] | None = told["source"]
        state = self._source["state"] if self._source else {}
        own = self._source is not None and self._source["trial"] == self.number
        if own:
            self.steps, self.episodes = state["steps"], state["episodes"]
            self.seconds = state["seconds"]
        self._window = window_of(welcome)
        self._heartbeat_s: float = told["heartbeat_s"]
        self._since: float | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._beat, daemon=True, name="simsched heartbeat").start()

    def begin(self) -> None:
        """Say that the program is set up: loads the checkpoint, if there is one, and starts."""
        load_s = 0.0
        if self._source is not None:
            load_s = self._timed_load(self._source)
        self._send(type="training", load_s=load_s)
        self._since = time.monotonic()

    def _timed_load(self, source: dict[str, Any]) -> float:
        if self._load is None:
            self.fail("a checkpoint is to be loaded, but Trial was given no load")
        since = time.monotonic()
        assert self._load is not None  # noqa: S101 - told to the type checker; fail() exits
        self._load(source["path"])
        return time.monotonic() - since

    def report(self, score: float, steps: int | None = None) -> bool:
        """Tell a score. At a milestone this waits for the verdict, and does what it says.

        Args:
            score: of what was trained since the last report.
            steps: the trial's steps so far; by default one a report.

        Returns whether to go on. If not, leave the loop: the trial is over.

        Raises:
            ValueError: `steps` does not grow.
        """
        if self._since is None:
            self.begin()
            assert self._since is not None  # noqa: S101 - begin has set it
        total = self.steps + 1 if steps is None else steps
        if total <= self.steps:
            raise ValueError(f"steps={total} must be above the {self.steps} reported before")
        now = time.monotonic()
        self.seconds += now - self._since
        self._since = now
        self.steps, self.episodes = total, self.episodes + 1
        if not math.isfinite(score):
            self._tell(score=None, step=self._window.until, reached=self._count())
            return self._obey()
        row = Score(round(self.seconds, 6), self.steps, self.episodes, float(score))
        self._send(type="rows", rows=[list(row)])
        self._window.add([row])
        reached = self._window.milestone()
        if reached is None:
            return self._asked_to_park()
        self._tell(score=reached.score, step=self._window.until, reached=reached.count)
        return self._obey()

    def _count(self) -> float:
        return float(self.episodes if self.unit == "reports" else getattr(self, self.unit))

    def _tell(self, **report: Any) -> None:
        self._send(type="report", **report, **self._counters())

    def _counters(self) -> dict[str, Any]:
        return {"steps": self.steps, "episodes": self.episodes, "seconds": self.seconds}

    def _obey(self) -> bool:
        """Do what the answers to a report say, until there is something to train."""
        while True:
            told = self._receive()
            if told is None or told["type"] == "stop":
                return False
            if not self._do(told):
                return False
            if told["type"] in ("train", "adopt"):
                self._since = time.monotonic()
                reached = self._window.milestone()
                if reached is None:
                    return True
                # One score far past its milestone serves the next one, too.
                self._tell(score=reached.score, step=self._window.until, reached=reached.count)

    def _do(self, told: dict[str, Any]) -> bool:
        kind = told["type"]
        if kind in ("save", "park"):
            self._send(type="beat", **self._counters())
            self._write(told["path"])
            return bool(kind == "save")
        self._window.until = told["until"]
        if kind == "adopt":
            if self._change is None:
                self.fail("hyperparameters are to change, but Trial was given no change")
            assert self._change is not None  # noqa: S101 - told to the type checker
            load_s = self._timed_load(told["source"])
            self.hparams = told["hparams"]
            self._change(self.hparams)
            self._send(type="training", load_s=load_s)
        return True

    def _write(self, path: str) -> None:
        if self._save is None:
            self.fail("a checkpoint is to be saved, but Trial was given no save")
        assert self._save is not None  # noqa: S101 - told to the type checker
        self._save(path)
        self._send(type="saved", state={**self._counters(), "window": self._window.state()})

    def _asked_to_park(self) -> bool:
        """Look, without waiting, whether the coordinator wants the trial back in mid-phase."""
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([self._socket], [], [], 0)
            if not readable:
                return True
            part = self._socket.recv(65536)
            if not part:
                return False
            self._buffer += part
        told = self._receive()
        going_on = told is not None and told["type"] != "stop" and self._do(told)
        self._since = time.monotonic()  # saving is not training
        return going_on

    def fail(self, reason: str) -> None:
        """Say that the trial cannot go on, and exit."""
        self._send(type="failed", reason=reason)
        raise SystemExit(f"simsched: {reason}")

    def _beat(self) -> None:
        while not self._ended.wait(self._heartbeat_s):
            try:
                self._send(type="beat", **self._counters())
            except OSError:
                os._exit(1)  # the coordinator is gone: nobody wants this trial any more

    def _send(self, **message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            self._socket.sendall(line)

    def _receive(self) -> dict[str, Any] | None:
        """Return the next message; None when the coordinator is gone."""
        while b"\n" not in self._buffer:
            part = self._socket.recv(65536)
            if not part:
                return None
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def __enter__(self) -> "Trial":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the channel; an exception is told to the coordinator first."""
        self._ended.set()
        if kind is not None and error is not None and issubclass(kind, Exception):
            reason = f"{kind.__name__}: {error}".splitlines()[0]
            self._send(type="failed", reason=reason[:500])
        self._socket.close()
