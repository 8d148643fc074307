"""A search whose coordinator was killed goes on; what does not fit is refused, and left alone."""

import hashlib
import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")
from fast_checks import Naive, check_end, goes_on
from fast_runs import (
    SPACE,
    Says,
    Server,
    lines,
    make_settings,
    processes_of,
    run_of,
    search_here,
    until,
    worker,
)

from simsched.live import search
from simsched.live.curves import RowTuple, TrialCurve
from simsched.live.errors import LiveError
from simsched.live.protocol import Counters
from simsched.live.search import read_settings
from simsched.live.settings import LiveSettings
from simsched.live.window import Reached, Score, Window
from simsched.live.world import socket_folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


SETTINGS = make_settings(worker("--pace", "0.003"), scheduler="random", workers=4)


@pytest.fixture
def settings(tmp_path: Path) -> LiveSettings:
    """Of a search that stands still half-way until its coordinator was killed."""
    marks = tmp_path / "marks"
    marks.mkdir()
    command = worker(faults=["hold,trial=2,step=14,times=1"], marks=marks)
    return make_settings(command, scheduler="random", workers=4)


@pytest.fixture
def killed(server: Server, tmp_path: Path, settings: LiveSettings) -> Iterator[Path]:
    """The folder of a search whose coordinator was killed half-way."""
    folder = tmp_path / "run"
    coordinator = server.start(folder, settings, 1, resume=False)
    until(lambda: (tmp_path / "marks" / "0-2-0").exists() or coordinator.is_over())
    assert lines(folder) >= 12
    coordinator.signal(signal.SIGKILL)
    assert coordinator.wait() == -signal.SIGKILL
    socket = socket_folder(run_of(folder))
    yield folder
    shutil.rmtree(socket, ignore_errors=True)


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of every file, but the lock."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def refused(server: Server, folder: Path) -> str:
    """Try to resume; return the one line of the refusal. Nothing must be changed."""
    until(lambda: processes_of(run) == []) if (run := known_run(folder)) else None
    before = contents(folder)
    coordinator = server.start(folder, read_settings(folder), 1, resume=True)
    assert coordinator.wait() == 2
    (line,) = coordinator.output.splitlines()
    assert contents(folder) == before
    return line.removeprefix("error: ")


def known_run(folder: Path) -> str | None:
    try:
        return run_of(folder)
    except (ValueError, KeyError, OSError):
        return None


def test_a_torn_last_line_is_cut_off(server: Server, killed: Path) -> None:
    """Of the journal, and of a trial's curve."""
    whole = (killed / "journal.jsonl").read_bytes()
    with (killed / "journal.jsonl").open("ab") as file:
        file.write(whole.splitlines()[-1][:-9])
    with (killed / "trials" / "0000" / "rows.jsonl").open("ab") as file:
        file.write(b'{"row":[0.1')
    goes_on(server, killed, read_settings(killed))
    assert (killed / "journal.jsonl").read_bytes().startswith(whole)


def test_a_flipped_byte_is_refused_with_its_line(server: Server, killed: Path) -> None:
    file = killed / "journal.jsonl"
    whole = file.read_bytes()
    parts = whole.splitlines(keepends=True)
    for number in (1, 5, len(parts)):
        begin = sum(map(len, parts[: number - 1]))
        place = begin + len(parts[number - 1]) // 2
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        line = refused(server, killed)
        assert line.startswith(f"{file}: line {number}: its check does not fit")
    file.write_bytes(whole)
    goes_on(server, killed, read_settings(killed))


def test_a_line_that_is_gone_is_refused(server: Server, killed: Path) -> None:
    file = killed / "journal.jsonl"
    parts = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(parts[:4] + parts[5:]))
    assert refused(server, killed).startswith(f"{file}: line 5: its check does not fit")
    file.unlink()
    assert refused(server, killed).endswith(f"No such file or directory: '{file}'")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("workers", 5, "begun with workers=4, and settings.json says 5; put it back to resume"),
        ("seed", 1, "begun with seed=0, and settings.json says 1; put it back to resume"),
        ("scheduler", "asha", "with scheduler='random', and settings.json says 'asha'; put"),
        ("space", {**SPACE, "rate": {**SPACE["rate"], "low": 0.01}}, "space={'rate': {"),
        ("code", "0123", "with code='.*', and settings.json says '0123'"),
    ],
)
def test_changed_settings_are_refused(
    server: Server, killed: Path, name: str, value: Any, said: str
) -> None:
    path = killed / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    line = refused(server, killed)
    assert re.search(said, line), line


def test_other_code_is_refused(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "code_digest", lambda: "0123456789abcdef")
    before = contents(killed)
    with pytest.raises(LiveError, match=r"begun by other code .*; resume it with that"):
        search_here(killed, read_settings(killed), resume=True, show=Says())
    assert contents(killed) == before


def test_a_second_coordinator_is_refused(server: Server, tmp_path: Path) -> None:
    folder, marks = tmp_path / "run", tmp_path / "marks"
    marks.mkdir()
    settings = make_settings(
        worker(faults=["gate,step=4"], marks=marks), scheduler="random", workers=2
    )
    first = server.start(folder, settings, 1, resume=False)
    until(lambda: lines(folder) >= 2)
    second = server.start(folder, settings, 1, resume=True)
    assert second.wait() == 2
    (marks / "open").touch()
    assert second.output == f"error: {folder}: another simsched live runs this search\n"
    assert first.wait() == 0
    assert check_end(folder, settings).courses == Naive(settings).courses()


def test_one_that_had_not_begun_begins(server: Server, tmp_path: Path) -> None:
    """Killed before the journal's first line was whole: there is nothing to go on with."""
    folder = tmp_path / "run"
    folder.mkdir()
    for begun in (None, b"", b'{"record":"header","fo'):
        if begun is not None:
            (folder / "journal.jsonl").write_bytes(begun)
        coordinator = server.start(folder, SETTINGS, 1, resume=True)
        until(lambda: lines(folder) >= 1)
        coordinator.signal(signal.SIGKILL)
        coordinator.wait()
        shutil.rmtree(socket_folder(run_of(folder)), ignore_errors=True)
        (folder / "journal.jsonl").unlink()
        (folder / "attempts.jsonl").unlink(missing_ok=True)
    goes_on(server, folder, SETTINGS)


def test_a_finished_search_stays_as_it_is(server: Server, killed: Path) -> None:
    goes_on(server, killed, read_settings(killed))
    journal = (killed / "journal.jsonl").read_bytes()
    goes_on(server, killed, read_settings(killed))
    assert (killed / "journal.jsonl").read_bytes() == journal


def test_what_was_lost_stands_where_it_was_not_trained_again(tmp_path: Path) -> None:
    """The search stops a trial that is still on its second way to where it had been."""

    def rows(first: int, last: int, score: float) -> list[RowTuple]:
        return [(k / 10, 3 * k, k, score) for k in range(first, last + 1)]

    path = tmp_path / "rows.jsonl"
    curve = TrialCurve(path)
    curve.started(1, Counters())
    curve.add(rows(1, 8, 1.0))
    curve.started(2, Counters(12, 4, 0.4))
    curve.add(rows(5, 7, 2.0))
    assert curve.rows == rows(1, 4, 1.0) + rows(5, 7, 2.0)
    curve.started(3, Counters(6, 2, 0.2))  # that checkpoint was damaged
    curve.add(rows(3, 3, 3.0))
    curve.close()
    for _ in range(2):
        curve = TrialCurve(path)
        trace = curve.trace(0, {}, "stopped")
        assert trace is not None
        assert trace.score[:-1].tolist() == [1.0] * 8
        assert trace.episodes.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 8]
        curve.close()
    curve.started(4, Counters(6, 2, 0.2))
    curve.add(rows(3, 8, 4.0))  # as far as it had been
    curve.close()
    trace = TrialCurve(path).trace(0, {}, "finished")
    assert trace is not None
    assert trace.score[:-1].tolist() == [1.0] * 2 + [4.0] * 6


def test_a_trial_with_anothers_weights_that_was_parked_counts_all_its_rows() -> None:
    """It begins at its own milestone, with nothing of it in its state, and is parked soon after."""
    window = Window("steps", 30, since=20, count=21.0)
    window.add([Score(0.24, 24, 8, 1.0)])
    assert window.milestone() is None
    again = Window("steps", 30, window.state(), since=20)
    again.add([Score(0.27, 27, 9, 2.0), Score(0.3, 30, 10, 6.0)])
    assert again.milestone() == Reached(3.0, 30.0)
