"""One start of a worker, as the coordinator's side sees it: its process, its channel, its times.

What a worker says is believed only as far as it can be checked: messages in an order that makes
no sense, too many of them or too long ones end the attempt, and nothing else.
"""

import asyncio
import json
import math
import secrets
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from simsched.live.curves import RowTuple
from simsched.live.launch import WorkerProcess
from simsched.live.protocol import (
    LONGEST_LINE,
    PROTOCOL,
    Beat,
    Counters,
    Failed,
    FromWorker,
    Hello,
    Reached,
    Rows,
    Saved,
    ToWorker,
    Training,
)
from simsched.messages import Checkpoint, TrialId, Unit

State: TypeAlias = Literal[
    "starting", "loading", "training", "reported", "saving", "parking", "leaving"
]
"""`reported` waits for the coordinator's answer."""

MOST_MESSAGES, MOST_BYTES = 5000, 16 << 20
"""A second: more is a flood."""
LARGEST_COUNT = 2**53
"""Of steps, episodes and seconds: any file and program can hold it."""


class Attempt:
    """A worker of one trial on one node."""

    def __init__(self, number: int, node: int, trial: TrialId, until: int, now_us: int) -> None:
        self.number = number
        self.node = node
        self.trial = trial
        self.token = secrets.token_hex(16)
        self.state: State = "starting"
        self.until = until
        self.process: WorkerProcess | None = None
        self.channel: asyncio.Transport | None = None
        self.failed = False
        self.greeted = False
        self.said: set[type] = set()
        """The answers that it has given to its newest command: none is due twice."""
        self.saving: Checkpoint | None = None
        self.snapping = False
        """It was told to save in mid-phase and to train on; what comes meanwhile waits."""
        self.afterwards: list[Callable[[], None]] = []
        """What has to wait for that save."""
        self.at_milestone = False
        """It had told a milestone when it heard of that save."""
        self.counters = self.base = Counters()
        """What it has trained, and what it began from."""
        self.heard_s = time.monotonic()
        """When it last said anything."""
        self.told_us = now_us
        """When the command came that it is carrying out."""
        self.training_us: int | None = None
        """When it began to train after that."""
        self.load_us = 0
        self.redo_until = 0.0
        self.redo_end_us: int | None = None
        """When it was back where the trial had been before."""
        self.save_began_us = 0
        self.rate = 0.0
        """Steps per second, of late."""
        self._rate_from: tuple[float, int] | None = None

    def begin(self, now_us: int, state: State) -> None:
        """A command came: nothing has been done of it yet."""
        self.state = state
        self.told_us, self.training_us = now_us, None
        self.load_us = 0
        self.said.clear()
        self.heard_s = time.monotonic()

    @property
    def has_parked(self) -> bool:
        """Whether it has said that it is saved, was told to end then, and may be gone."""
        return self.state == "parking" and Saved in self.said

    def count(self, unit: Unit) -> float:
        """Return how far the trial is known to be, in the run's unit."""
        name = "episodes" if unit == "reports" else unit
        return float(getattr(self.counters, name))

    def progressed(self, counters: Counters, unit: Unit, now_us: int) -> None:
        """The worker said how far it is."""
        self.counters = counters
        if self.redo_until and self.redo_end_us is None and self.count(unit) >= self.redo_until:
            self.redo_end_us = now_us
        now_s = time.monotonic()
        if self._rate_from is None:
            self._rate_from = now_s, counters.steps
        elif now_s - self._rate_from[0] >= 1.0:
            since_s, steps = self._rate_from
            self.rate = (counters.steps - steps) / (now_s - since_s)
            self._rate_from = now_s, counters.steps

    def spent(self, now_us: int) -> tuple[int, int, int]:
        """Return the µs since the last command spent on starting, on loading, on redoing."""
        if self.training_us is not None:
            began = self.training_us
        else:
            began = now_us if self.state in ("starting", "loading") else self.told_us
        before = began - self.told_us
        load_us = min(self.load_us, before)
        redo_us = 0
        if self.redo_until:
            end = self.redo_end_us if self.redo_end_us is not None else now_us
            redo_us = max(0, min(end, now_us) - began)
        return before - load_us, load_us, redo_us

    def saving_us(self, now_us: int) -> int:
        """Return the µs since the last command that went into parking, or a mid-phase save."""
        if not self.snapping and self.state != "parking":
            return 0
        start_us, load_us, _ = self.spent(now_us)
        trained_from = self.told_us + start_us + load_us
        return min(now_us - self.save_began_us, max(0, now_us - trained_from))

    def send(self, message: ToWorker) -> None:
        """Tell the worker something; if it is gone, its process says so."""
        if self.channel is not None and not self.channel.is_closing():
            self.channel.write(msgspec.json.encode(message) + b"\n")


class Garbage(Exception):  # noqa: N818 - what it says is the worker's fault
    """A worker said what it may not."""


class Line(asyncio.Protocol):
    """A connection to a worker: finds out whose it is, then hands on its messages."""

    def __init__(
        self,
        greet: Callable[[Hello, asyncio.Transport], Attempt | None],
        hear: Callable[[Attempt, FromWorker], None],
        blame: Callable[[Attempt, str], None],
        gone: Callable[[Attempt], None],
    ) -> None:
        self._greet, self._hear, self._blame, self._gone = greet, hear, blame, gone
        self._attempt: Attempt | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._decoder = msgspec.json.Decoder(FromWorker)
        self._second, self._messages, self._bytes = 0.0, 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take whole lines."""
        self._buffer += data
        try:
            self._check_flood(len(data))
            while (end := self._buffer.find(b"\n")) >= 0:
                text = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._take(text)
            if len(self._buffer) > LONGEST_LINE:
                raise Garbage(f"a line of more than {LONGEST_LINE:,} bytes")
        except Garbage as error:
            self._refuse(f"{error} on its channel")

    def _check_flood(self, size: int) -> None:
        now = time.monotonic()
        if now - self._second > 1.0:
            self._second, self._messages, self._bytes = now, 0, 0
        self._bytes += size
        if self._messages > MOST_MESSAGES or self._bytes > MOST_BYTES:
            raise Garbage("a flood of messages")

    def _take(self, text: bytes) -> None:
        self._messages += 1
        if self._messages % 500 == 0:
            self._check_flood(0)
        message = self._decoded(text)
        if self._attempt is not None:
            if isinstance(message, Hello):
                raise Garbage("a second hello")
            self._hear(self._attempt, message)
        elif not isinstance(message, Hello) or self._transport is None:
            raise Garbage("something before hello")
        else:
            self._attempt = self._greet(message, self._transport)
            if self._attempt is None:
                self._transport.abort()
            elif message.protocol != PROTOCOL:
                raise Garbage(f"protocol {message.protocol}, not {PROTOCOL},")

    def _decoded(self, text: bytes) -> FromWorker:
        known = text
        try:
            if b"NaN" in text or b"Infinity" in text:  # many a library writes them; JSON has null
                known = json.dumps(json.loads(text, parse_constant=lambda _: None)).encode()
            message: FromWorker = self._decoder.decode(known)
            return message
        except (ValueError, RecursionError):
            raise Garbage(f"garbage ({text[:40]!r})") from None

    def _refuse(self, reason: str) -> None:
        self._buffer.clear()
        if self._transport is not None:
            self._transport.abort()
        if self._attempt is not None:
            self._blame(self._attempt, reason)

    def connection_lost(self, error: Exception | None) -> None:
        """The other end is closed."""
        del error
        if self._attempt is not None:
            self._gone(self._attempt)


def check_message(attempt: Attempt, message: FromWorker, last: RowTuple | None) -> None:
    """Refuse what makes no sense now, or no number; `last` is the trial's newest row.

    Raises:
        Garbage: what is wrong.
    """
    state = "saving" if attempt.snapping and isinstance(message, Saved) else attempt.state
    kind = message.__struct_config__.tag
    allowed = {
        Training: ("starting", "loading", "parking"),
        Reached: ("training", "parking", "saving"),
        Saved: ("saving", "parking"),
    }.get(type(message))
    if allowed is not None and state not in allowed:
        raise Garbage(f"{kind!r} while {state}")
    if type(message) in attempt.said:
        raise Garbage(f"a second {kind!r}")
    if isinstance(message, Rows):
        for row in message.rows:
            _check_row(row, last)
            last = row
    elif isinstance(message, Beat | Reached):
        if not _are_counters(message.seconds, message.steps, message.episodes):
            raise Garbage(f"{kind!r} with counters that cannot be")
    elif isinstance(message, Saved):
        _check_state(message.state)
    if isinstance(message, Reached):
        if message.step != attempt.until:
            raise Garbage(f"a report of {message.step}, when {attempt.until} was awaited,")
        least = 0 if message.score is None else attempt.until
        if not least <= message.reached <= LARGEST_COUNT:
            raise Garbage(f"a report of {message.step} at a count of {message.reached:g}")


def _are_counters(*numbers: float) -> bool:
    return all(0 <= number <= LARGEST_COUNT for number in numbers)  # NaN is not


def _check_row(row: RowTuple, last: RowTuple | None) -> None:
    seconds, steps, episodes, score = row
    if not (_are_counters(seconds, steps, episodes) and episodes and math.isfinite(score)):
        raise Garbage(f"a row that cannot be ({str(list(row))[:80]})")
    if last is not None and (seconds < last[0] or steps < last[1] or episodes <= last[2]):
        raise Garbage(f"a row that goes back ({list(row)} after {list(last)})")


def _check_state(state: dict[str, Any]) -> None:
    """Refuse a state that the trial could not go on from."""
    own = {name: state[name] for name in Counters.__struct_fields__ if name in state}
    try:
        counters = msgspec.convert(own, Counters)
    except msgspec.ValidationError as error:
        raise Garbage(f"a state that cannot be ({error})") from None
    if not _are_counters(counters.seconds, counters.steps, counters.episodes):
        raise Garbage("a state with counters that cannot be")


def reason_of(message: Failed) -> str:
    """Return what a worker gave as its reason, fit to be shown."""
    return " ".join(message.reason.split())[:300] or "it gave no reason"
