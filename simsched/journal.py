"""The journal: every event with what the scheduler answered and the coordinator commanded.

One JSON object a line. The first says what is run (`Header`), each further one is a
`Record`. A record is written before its commands are carried out, so whoever reads the
journal knows all that was ever told or decided.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from simsched.errors import SimschedError
from simsched.events import Command, Event
from simsched.ledger import Ledger
from simsched.messages import Decision, TrialId

FORMAT = 1


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


class Journal:
    """Appends records to an open binary file."""

    def __init__(self, file: BinaryIO, run: dict[str, Any], maximum: int) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._number = 0
        self._file.write(self._encoder.encode(Header(FORMAT, run, maximum)) + b"\n")

    def append(
        self,
        event: Event,
        decision: Decision | None,
        abandoned: tuple[TrialId, ...],
        commands: list[Command],
    ) -> None:
        """Write one record."""
        record = Record(self._number, event, commands, decision, abandoned)
        self._number += 1
        self._file.write(self._encoder.encode(record) + b"\n")


def read_journal(path: Path) -> Iterator[Header | Record]:
    """Yield the header, then the records.

    Raises:
        SimschedError: a line that is not a record, or records out of order.
    """
    line = 0
    decoder = msgspec.json.Decoder(Header | Record)
    with path.open("rb") as file:
        for line, text in enumerate(file, 1):
            try:
                record = decoder.decode(text)
            except msgspec.DecodeError as error:
                raise SimschedError(f"{path}: line {line}: not a journal record: {error}") from None
            expected = line - 2
            if isinstance(record, Header) and record.format != FORMAT:
                raise SimschedError(
                    f"{path}: line {line}: journal format {record.format}, not {FORMAT}: "
                    "written by another version of simsched"
                )
            if isinstance(record, Header) != (line == 1) or (
                isinstance(record, Record) and record.number != expected
            ):
                raise SimschedError(f"{path}: line {line}: records are out of order")
            yield record
    if line == 0:
        raise SimschedError(f"{path}: the journal is empty; its first line must be a header")


def replay_ledger(path: Path) -> Ledger:
    """Keep the books again from a journal. Raises SimschedError as `read_journal` does."""
    ledger = Ledger(0)
    for record in read_journal(path):
        if isinstance(record, Header):
            ledger.maximum = record.maximum
        else:
            ledger.observe(record.event, record.decision, record.abandoned, record.commands)
    return ledger
