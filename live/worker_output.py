"""What a worker prints: its pipe is read without blocking, and cut into lines."""

import asyncio
import os
from collections.abc import Callable

LONGEST_LINE = 64 * 1024
CUT = f" [cut: longer than {LONGEST_LINE // 1024} KiB]"
CHUNK = 64 * 1024
READ_BYTES_PER_S = 1 << 20
"""How fast a worker's output is read. One that prints more has to wait, not the coordinator."""
LEAST_COST_BYTES = 4096
"""What a read counts for at least, so that many small ones are held back too."""
REMAINDER_BYTES = 4 << 20
"""How much is still read when the worker has ended; a pipe holds 64 KiB unless enlarged."""


class Lines:
    """Cuts bytes into lines of text.

    What does not decode as UTF-8 is replaced. As on a terminal, a carriage return lets what
    follows overwrite the line, so of a progress bar only the last state is a line. Lines are cut
    at `LONGEST_LINE` bytes, with a note.
    """

    def __init__(self, hear: Callable[[str], object]) -> None:
        self._hear = hear
        self._begun = bytearray()
        self._cut = self._returned = False
        """Whether the line is longer than it may be; whether a carriage return came last."""

    def feed(self, data: bytes) -> None:
        """Take some output; tells every line that it completes."""
        first, *others = data.split(b"\n")
        self._extend(first)
        for part in others:
            self._finish()
            self._extend(part)

    def close(self) -> None:
        """Tell what came after the last line's end, if anything did."""
        if self._begun or self._returned:
            self._finish()

    def _extend(self, part: bytes) -> None:
        if not part:
            return
        if self._returned:
            self._clear()
        self._returned = part.endswith(b"\r")  # the end of a line, if that follows
        _, overwritten, part = part.removesuffix(b"\r").rpartition(b"\r")
        if overwritten:
            self._begun.clear()
            self._cut = False
        room = LONGEST_LINE - len(self._begun)
        self._begun += part[:room]
        self._cut |= len(part) > room

    def _finish(self) -> None:
        self._hear(self._begun.decode(errors="replace") + CUT * self._cut)
        self._clear()

    def _clear(self) -> None:
        self._begun.clear()
        self._cut = self._returned = False


class OutputReader:
    """Reads the end of a pipe in an event loop, and tells lines."""

    def __init__(self, pipe: int, hear: Callable[[str], object]) -> None:
        """Start to read. The pipe becomes this object's: it closes it."""
        self._pipe: int | None = pipe
        self._lines = Lines(hear)
        self._loop = asyncio.get_running_loop()
        self._rest: asyncio.TimerHandle | None = None
        self._allowance_bytes = float(CHUNK)
        self._counted_s = self._loop.time()
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._read)

    def _read(self) -> None:
        """Read once; then rest, if there was more to read lately than there may be."""
        assert self._pipe is not None  # noqa: S101 - told to the type checker
        count = self._take()
        if count == 0:
            self._close_pipe()
        elif count is not None:
            now_s = self._loop.time()
            gained = (now_s - self._counted_s) * READ_BYTES_PER_S
            self._counted_s = now_s
            self._allowance_bytes = min(self._allowance_bytes + gained, CHUNK)
            self._allowance_bytes -= max(count, LEAST_COST_BYTES)
            if self._allowance_bytes < 0:
                self._loop.remove_reader(self._pipe)
                rest_s = -self._allowance_bytes / READ_BYTES_PER_S
                self._rest = self._loop.call_later(rest_s, self._go_on)

    def _go_on(self) -> None:
        self._rest = None
        if self._pipe is not None:
            self._loop.add_reader(self._pipe, self._read)

    def _take(self) -> int | None:
        """Read a chunk; returns its length, 0 at the end, None where there is nothing yet."""
        if self._pipe is None:
            return 0
        try:
            data = os.read(self._pipe, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return 0
        self._lines.feed(data)
        return len(data)

    def drain(self) -> None:
        """Read what is in the pipe now: the last words of a worker that has ended."""
        left = REMAINDER_BYTES
        while left > 0 and (count := self._take()):
            left -= count

    def close(self) -> None:
        """Read what is left, tell it, and let go of the pipe."""
        self.drain()
        self._lines.close()
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None
