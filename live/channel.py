"""A worker's end of the worker protocol: its connection to the coordinator that started it."""

import os
import select
import socket
import time

import msgspec

from simsched.live.errors import LiveError
from simsched.live.protocol import PROTOCOL, FromWorker, Hello, ToWorker, Welcome


class Gone(Exception):  # noqa: N818 - no error: nobody wants this trial any more
    """The coordinator has closed the connection."""


class Channel:
    """The connection to the coordinator: a line of JSON for each message."""

    def __init__(self, connection: socket.socket) -> None:
        """Use a connection that is open; whoever opened it closes it."""
        self._socket = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._buffer = bytearray()
        self._decoder = msgspec.json.Decoder(ToWorker)

    def send(self, *messages: FromWorker) -> None:
        """Send messages at one stroke; Gone if nobody is there to read them."""
        lines = b"".join(msgspec.json.encode(message) + b"\n" for message in messages)
        try:
            self._socket.sendall(lines)
        except OSError as error:
            raise Gone from error

    def receive(self, patience_s: float | None = None) -> ToWorker | None:
        """Return the next message; None if there is none in this time (None: for ever).

        Raises:
            Gone: there will be no more.
            LiveError: what came is no message.
        """
        deadline = None if patience_s is None else time.monotonic() + patience_s
        while (end := self._buffer.find(b"\n")) < 0:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._poll.poll(None if left_s is None else left_s * 1000):
                return None
            try:
                part = self._socket.recv(65536)
            except OSError as error:
                raise Gone from error
            if not part:
                raise Gone
            self._buffer += part
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            told: ToWorker = self._decoder.decode(line)
        except msgspec.DecodeError as error:
            raise LiveError(f"the coordinator sent {line[:80]!r}: {error}") from error
        return told


def connect() -> socket.socket:
    """Connect to the coordinator that started this process.

    Raises:
        LiveError: none did, or it is gone.
    """
    path = os.environ.get("SIMSCHED_SOCKET")
    if path is None or "SIMSCHED_TOKEN" not in os.environ:
        raise LiveError("SIMSCHED_SOCKET is not set: `simsched live` starts this program")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise LiveError(f"{path}: no coordinator is there: {error.strerror}") from error
    return connection


def greet(channel: Channel) -> Welcome:
    """Say hello and return what to train.

    Raises:
        Gone: the coordinator does not want this worker.
        LiveError: it speaks another protocol.
    """
    channel.send(Hello(PROTOCOL, os.environ["SIMSCHED_TOKEN"], os.getpid()))
    told = channel.receive()
    if not isinstance(told, Welcome) or told.protocol != PROTOCOL:
        raise LiveError(f"the coordinator does not answer hello in protocol {PROTOCOL}")
    return told
