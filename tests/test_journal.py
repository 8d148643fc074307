"""The journal holds all: timeline and trials come out of it as they came out of the run."""

from pathlib import Path

import msgspec
import pytest
from worlds import ALL, traces

from simsched import simulate
from simsched.coordinator import Coordinator
from simsched.errors import SimschedError
from simsched.events import End, NodeUp, Reported, Start
from simsched.journal import Header, Journal, Record, read_journal, read_tail, replay_ledger
from simsched.messages import Decision, Stop
from simsched.schedulers import Plan, build
from simsched.searchers import Given
from simsched.space import PUBLISHED_GA3C

RECORDED = traces(16, 40, ends=("complete", "complete", "censored", "diverged"))


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journals")
    simulate(RECORDED, schedulers=ALL, phases=6, save_s=0.5, load_s=0.5, journals=folder)
    return folder


@pytest.mark.parametrize("scheduler", ALL)
def test_timeline_and_trials_from_the_journal_alone(scheduler: str, tmp_path: Path) -> None:
    options = {"schedulers": [scheduler], "phases": 6, "save_s": 0.5, "load_s": 0.5}
    run = simulate(RECORDED, journals=tmp_path, **options).runs[0]
    (file,) = tmp_path.iterdir()
    ledger = replay_ledger(file)
    assert ledger.close(run.timeline.end_us) == run.timeline
    assert {trial: record.fate for trial, record in ledger.trials.items()} == {
        trial.trial: trial.fate for trial in run.trials
    }
    assert (ledger.saves, ledger.loads) == (run.saves, run.loads)


@pytest.mark.parametrize("scheduler", ALL)
def test_a_fresh_scheduler_fed_the_journal_gives_the_same_answers(
    journals: Path, scheduler: str
) -> None:
    file = journals / f"{scheduler}.nodes-6.workers-16.replication-0.jsonl"
    header, *records = read_journal(file)
    assert isinstance(header, Header)
    assert header.run["scheduler"] == scheduler
    searcher = Given([trace.hparams for trace in RECORDED.traces], PUBLISHED_GA3C, 0)
    plan = Plan(16, 6, header.maximum // 6)
    coordinator = Coordinator(build(scheduler, plan, searcher))
    for record in records:
        assert isinstance(record, Record)
        assert coordinator.handle(record.event) == record.commands
        assert coordinator.decision == record.decision
        assert coordinator.abandoned == record.abandoned
    assert coordinator.finished


def test_a_changed_line_is_named_and_a_torn_one_left_out(journals: Path, tmp_path: Path) -> None:
    source = next(iter(sorted(journals.iterdir())))
    lines = source.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    assert list(read_journal(torn)) == list(read_journal(source))[:5]
    gap = tmp_path / "gap.jsonl"
    gap.write_bytes(b"".join(lines[:5] + lines[6:]))
    with pytest.raises(SimschedError, match=r"gap\.jsonl: line 6: its check does not fit"):
        list(read_journal(gap))


def test_a_journal_cut_at_any_byte_goes_on_from_its_last_whole_line(tmp_path: Path) -> None:
    whole, records = _short_journal(tmp_path)
    for length in range(len(whole)):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(whole[:length])
        lines = whole[:length].count(b"\n") + (whole[length : length + 1] == b"\n")
        if lines == 0:
            with pytest.raises(SimschedError, match="is empty"):
                read_tail(path)
            continue
        found, tail = read_tail(path)
        assert found == records[:lines]
        with path.open("r+b") as file:
            journal = Journal.reopen(file, tail)
            for record in records[lines:]:
                assert isinstance(record, Record)
                journal.append(record.event, record.decision, record.abandoned, record.commands)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("change", [1, 32, 255])
def test_a_flipped_byte_is_never_silent(tmp_path: Path, change: int) -> None:
    whole, _ = _short_journal(tmp_path)
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= change
        path = tmp_path / "flipped.jsonl"
        path.write_bytes(flipped)
        with pytest.raises(SimschedError, match=r"flipped\.jsonl: line \d+: "):
            read_tail(path)


def _short_journal(folder: Path) -> tuple[bytes, list[Header | Record]]:
    source = folder / "short.jsonl"
    records: list[Header | Record] = [
        Record(0, NodeUp(0, 0), [Start(0, 1, 0, {"rate": 0.5}, 1, None)]),
        Record(1, Reported(7, 0, 1, 1, 2.5, 1, 0, 0), [End(0, 1)], Decision(Stop())),
    ]
    with source.open("wb") as file:
        journal = Journal(file, {"scheduler": "random"}, 1)
        for record in records:
            assert isinstance(record, Record)
            journal.append(record.event, record.decision, record.abandoned, record.commands)
    return source.read_bytes(), [Header(2, {"scheduler": "random"}, 1), *records]


def test_records_are_plain_json(journals: Path) -> None:
    file = journals / "hypertrick.nodes-6.workers-16.replication-0.jsonl"
    first = msgspec.json.decode(file.read_bytes().splitlines()[1])
    assert first["event"] == {"type": "node_up", "at": 0, "node": 0}
    assert first["commands"][0]["type"] == "start"
