"""A coordinator that does what a test says: drives a GA3C trial by the worker protocol."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch

from simsched.live.channel import Channel
from simsched.live.ga3c.settings import PRESETS, Settings
from simsched.live.ga3c_trial import Trial
from simsched.live.protocol import Beat, FromWorker, Rows, Source, ToWorker, Training, Welcome

PATIENCE_S = 300.0
"""With what comes for certain, on a machine however busy."""
T = TypeVar("T", bound=FromWorker)

TRAINING: dict[str, Any] = {
    **{k: v for k, v in PRESETS["repeatable"].items() if k != "learning_rate"},
    "agents": 4,
    "threads": 1,
}
"""Short and repeatable."""

OVERLAPPED: dict[str, Any] = {
    "overlap": "on",
    "agents": 8,
    "groups": 2,
    "predictors": 1,
    "trainers": 1,
    "least_batch": 20,
    "training_queue": 40,
    "threads": 1,
}

A3C: dict[str, Any] = {"algorithm": "a3c", "agents": 2}


def welcome(folder: Path, **changes: Any) -> Welcome:
    """What a trial of CartPole is told first."""
    game = changes.pop("game", "CartPole-v1")
    training = changes.pop("training", TRAINING)
    tensorboard = changes.pop("tensorboard", False)
    fields: dict[str, Any] = {
        "trial": 3,
        "attempt": 7,
        "node": 1,
        "hparams": {"learning_rate": 1e-3, "gamma": 0.99, "t_max": 5},
        "settings": {"game": game, "training": training, "tensorboard": tensorboard},
        "seed": 5,
        "unit": "steps",
        "since": 0,
        "until": 1000,
        "source": None,
        "folder": str(folder),
        "heartbeat_s": 0.1,
    }
    return Welcome(**{**fields, **changes})


def source(path: Path, state: dict[str, Any], trial: int = 3, step: int = 1000) -> Source:
    return Source(str(path), trial, step, state)


def settings(told: Welcome, **changes: Any) -> Settings:
    fields = {**told.settings["training"], **told.hparams, **changes}
    return Settings(game=told.settings["game"], seed=told.seed, trial=told.trial, **fields)


class Driver:
    """The coordinator's end of one worker's connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.settimeout(PATIENCE_S)
        self._lines = connection.makefile("rb")
        self._decoder = msgspec.json.Decoder(FromWorker)
        self.rows: list[tuple[float, int, int, float]] = []
        self.beats: list[Beat] = []
        self.loads: list[float] = []
        """Of each `training`."""

    def send(self, *messages: ToWorker) -> None:
        self.connection.sendall(b"".join(msgspec.json.encode(m) + b"\n" for m in messages))

    def next(self) -> Any:
        line = self._lines.readline()
        if not line:
            raise EOFError("the worker has closed the connection")
        return self._decoder.decode(line)

    def expect(self, kind: type[T]) -> T:
        """The next message of this kind; rows, beats and `training` before it are kept."""
        while True:
            message = self.next()
            if isinstance(message, Rows):
                self.rows += message.rows
            elif isinstance(message, Beat):
                self.beats.append(message)
            elif isinstance(message, Training):
                self.loads.append(message.load_s)
            if isinstance(message, kind):
                return message
            assert isinstance(message, Rows | Beat | Training), message

    def drain(self, seconds: float) -> list[int]:
        """The steps of the beats that come before nothing has come for so long."""
        steps = []
        self.connection.settimeout(seconds)
        with suppress(TimeoutError):
            while True:
                steps.append(self.expect(Beat).steps)
        self._lines.close()
        self.connection.settimeout(PATIENCE_S)
        self._lines = self.connection.makefile("rb")  # one that timed out cannot be read again
        return steps

    def ends(self) -> None:
        """Read on to the end of the connection, where only rows and beats may be."""
        try:
            while True:
                message = self.next()
                assert isinstance(message, Rows | Beat), message
        except EOFError:
            return

    def close(self) -> None:
        self._lines.close()
        self.connection.close()


class Running(Driver):
    """A trial in a thread of this process: `trial` can be looked at while it waits."""

    trial: Trial
    error: Exception | None = None


@contextmanager
def in_a_thread(told: Welcome, *first: ToWorker) -> Iterator[Running]:
    """Run a trial until the block is left, and longer if it was not told to stop.

    What is told `first` is there before it trains.
    """
    ours, theirs = socket.socketpair()
    driver = Running(ours)
    driver.send(*first)

    def work() -> None:
        with theirs:
            try:
                driver.trial = Trial(Channel(theirs), told)
                driver.trial.run()
            except Exception as error:  # noqa: BLE001 - the test looks at it
                driver.error = error
            finally:
                if hasattr(driver, "trial"):
                    driver.trial.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield driver
    finally:
        driver.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _accept(listener: socket.socket, process: "subprocess.Popen[str]") -> socket.socket:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return listener.accept()[0]
        except TimeoutError:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "it did not connect"


class Process(Driver):
    """A trial as the live world starts it."""

    process: "subprocess.Popen[str]"


@contextmanager
def in_a_process(
    folder: Path, told: Welcome, *first: ToWorker, command: list[str] | None = None
) -> Iterator[Process]:
    """Start `python -m simsched.live.ga3c_trial`, answer its hello, kill what is left of it.

    What is told `first` is there before it trains.
    """
    path = folder / "socket"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(0.2)
        process = subprocess.Popen(
            command or [sys.executable, "-m", "simsched.live.ga3c_trial"],
            cwd=folder,
            env={**os.environ, "SIMSCHED_SOCKET": str(path), "SIMSCHED_TOKEN": "secret"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            with closing(Process(_accept(listener, process))) as driver:
                driver.process = process
                hello = driver.next()
                assert (hello.protocol, hello.token, hello.pid) == (1, "secret", process.pid)
                driver.send(told, *first)
                yield driver
        finally:
            process.kill()
            process.communicate()


def assert_equal(one: Any, other: Any, where: str = "checkpoint") -> None:
    """Compare two checkpoints, bit for bit."""
    assert type(one) is type(other), where
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, where
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_equal(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal(a, b, f"{where}[{k}]")
    else:
        assert one == other, where
