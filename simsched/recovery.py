"""Going on after the coordinator's death: a fresh one is fed the journal, every answer checked."""

from pathlib import Path

from simsched.coordinator import Coordinator
from simsched.errors import SimschedError
from simsched.journal import Header, Record, Tail, read_tail
from simsched.ledger import Ledger


def replay(path: Path, coordinator: Coordinator, ledger: Ledger) -> tuple[Header, int, Tail]:
    """Feed a journal to a fresh coordinator and ledger, and compare every answer.

    Returns its header, the time of its last event in µs, and where it goes on.

    Raises:
        SimschedError: the journal is damaged, or an answer is not the one that it holds.
    """
    records, tail = read_tail(path)
    header, at = records[0], 0
    assert isinstance(header, Header)  # noqa: S101 - read_tail has seen to it
    for line, record in enumerate(records[1:], 2):
        assert isinstance(record, Record)  # noqa: S101
        commands = coordinator.handle(record.event)
        answers = (coordinator.decision, coordinator.abandoned, commands)
        if answers != (record.decision, record.abandoned, record.commands):
            raise SimschedError(
                f"{path}: line {line}: the scheduler answers {coordinator.decision}, "
                f"{commands}; the journal has {record.decision}, {record.commands}: "
                "it was made by other code or settings"
            )
        ledger.observe(record.event, record.decision, record.abandoned, record.commands)
        at = record.event.at
    return header, at, tail
