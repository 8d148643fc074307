"""The journal: every event with what the scheduler answered and the coordinator commanded.

One JSON object a line. The first says what is run (`Header`), each further one is a
`Record`. A record is written before its commands are carried out, so whoever reads the
journal knows all that was ever told or decided.

Each line ends with the field `check`: the CRC-32 of the line before that field, begun with the
check of the line before it. So no line can be changed, dropped or moved unseen. A last line
that was cut short is what a crash leaves; it is no record, because nothing was carried out.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from simsched.errors import SimschedError
from simsched.events import Command, Event
from simsched.ledger import Ledger
from simsched.messages import Decision, TrialId

FORMAT = 2
_CHECK = b',"check":"%08x"}'
_CHECK_LENGTH = len(_CHECK % 0)


class Header(msgspec.Struct, frozen=True, tag="header", tag_field="record"):
    """First line: what is run, in the terms of the world that runs it."""

    format: int
    run: dict[str, Any]
    maximum: int
    """A trial's full length in resource units."""


class Record(msgspec.Struct, frozen=True, tag="event", tag_field="record"):
    """One event and all answers to it."""

    number: int
    event: Event
    commands: list[Command]
    decision: Decision | None = None
    abandoned: tuple[TrialId, ...] = ()


class Tail(NamedTuple):
    """Where a journal goes on."""

    number: int
    """Of the next record."""
    check: int
    """Of the last whole line."""
    end: int
    """Bytes up to there; what follows is a torn line."""
    newline: bool
    """Whether the last whole line has its end of line."""


class Journal:
    """Appends records to an open binary file."""

    def __init__(self, file: BinaryIO, run: dict[str, Any], maximum: int) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._number = 0
        self._check = 0
        self._write(Header(FORMAT, run, maximum))

    @classmethod
    def reopen(cls, file: BinaryIO, tail: Tail) -> "Journal":
        """Go on with a journal that was read; a torn last line is cut off.

        Args:
            file: the same file, open for reading and writing.
            tail: what `read_tail` gave.
        """
        journal = cls.__new__(cls)
        journal._file = file
        journal._encoder = msgspec.json.Encoder()
        journal._number, journal._check = tail.number, tail.check
        file.truncate(tail.end)
        file.seek(tail.end)
        if not tail.newline:
            file.write(b"\n")
        return journal

    def _write(self, record: Header | Record) -> None:
        body = self._encoder.encode(record)[:-1]
        self._check = zlib.crc32(body, self._check)
        self._file.write(body + _CHECK % self._check + b"\n")

    def append(
        self,
        event: Event,
        decision: Decision | None,
        abandoned: tuple[TrialId, ...],
        commands: list[Command],
    ) -> None:
        """Write one record."""
        self._write(Record(self._number, event, commands, decision, abandoned))
        self._number += 1

    def sync(self) -> None:
        """Wait until the disk has everything. Raises OSError."""
        self._file.flush()
        os.fsync(self._file.fileno())


class _Reader:
    """Checks line after line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self.check = 0
        self._decoder = msgspec.json.Decoder(Header | Record)

    def is_whole(self, text: bytes) -> bool:
        """Tell whether a line, without its end, is as it was written."""
        body = text[:-_CHECK_LENGTH]
        return bool(body) and text == body + _CHECK % zlib.crc32(body, self.check)

    def read(self, text: bytes) -> Header | Record:
        """Return the record of a line. Raises SimschedError."""
        self.lines += 1
        if not self.is_whole(text):
            raise self.damage("its check does not fit: the line, or one before it, was changed")
        body = text[:-_CHECK_LENGTH]
        self.check = zlib.crc32(body, self.check)
        try:
            record: Header | Record = self._decoder.decode(body + b"}")
        except msgspec.DecodeError as error:
            raise self.damage(f"not a journal record: {error}") from None
        if isinstance(record, Header) and record.format != FORMAT:
            raise self.damage(
                f"journal format {record.format}, not {FORMAT}: "
                "written by another version of simsched"
            )
        if isinstance(record, Header) != (self.lines == 1) or (
            isinstance(record, Record) and record.number != self.lines - 2
        ):
            raise self.damage("records are out of order")
        return record

    def damage(self, reason: str) -> SimschedError:
        return SimschedError(f"{self.path}: line {self.lines}: {reason}")


def read_journal(path: Path) -> Iterator[Header | Record]:
    """Yield the header, then the records. A torn last line is left out.

    Raises:
        SimschedError: a line that was changed or is no record, records out of order, or no line.
    """
    yield from _read(path, _Reader(path))


def _read(path: Path, reader: _Reader) -> Iterator[Header | Record]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield reader.read(line[:-1])
            elif reader.is_whole(line):
                yield reader.read(line)
            elif reader.is_whole(line[:-1]):
                reader.lines += 1
                raise reader.damage("its end of line was changed")
    if reader.lines == 0:
        raise SimschedError(f"{path}: the journal is empty; its first line must be a header")


def read_tail(path: Path) -> tuple[list[Header | Record], Tail]:
    """Return header and records, and where the journal goes on. Raises as `read_journal` does."""
    reader = _Reader(path)
    records = list(_read(path, reader))
    end, newline = 0, True
    with path.open("rb") as file:
        for _ in range(reader.lines):
            line = file.readline()
            end += len(line)
            newline = line.endswith(b"\n")
    return records, Tail(reader.lines - 1, reader.check, end, newline)


def replay_ledger(path: Path) -> Ledger:
    """Keep the books again from a journal. Raises SimschedError as `read_journal` does."""
    ledger = Ledger(0)
    for record in read_journal(path):
        if isinstance(record, Header):
            ledger.maximum = record.maximum
        else:
            ledger.observe(record.event, record.decision, record.abandoned, record.commands)
    return ledger
