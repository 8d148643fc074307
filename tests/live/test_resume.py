"""A search that was ended, in any way, goes on; what does not fit is refused, and left alone."""

import errno
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")
from fast_checks import Naive, check_end, read
from fast_runs import (
    SPACE,
    Coordinator,
    Says,
    Server,
    make_nodes,
    make_settings,
    processes_of,
    run_of,
    worker,
)

from simsched.events import Failed, Interrupted, Parked, Start
from simsched.journal import Journal
from simsched.live import search
from simsched.live.errors import LiveError
from simsched.live.search import read_settings, run_search
from simsched.live.settings import LiveSettings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


SETTINGS = make_settings(worker("--pace", "0.003"), scheduler="random", workers=4)


def lines(folder: Path) -> int:
    try:
        return (folder / "journal.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.003)


@pytest.fixture
def killed(server: Server, tmp_path: Path) -> Path:
    """The folder of a search whose coordinator was killed half-way."""
    folder = tmp_path / "run"
    coordinator = server.start(folder, SETTINGS, 1, resume=False)
    until(lambda: lines(folder) >= 12)
    coordinator.signal(signal.SIGKILL)
    assert coordinator.wait() == -signal.SIGKILL
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of every file, but the lock."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def refused(server: Server, folder: Path, settings: LiveSettings = SETTINGS) -> str:
    """Try to resume; return the one line of the refusal. Nothing must be changed."""
    until(lambda: processes_of(run) == []) if (run := known_run(folder)) else None
    before = contents(folder)
    coordinator = server.start(folder, settings, 1, resume=True)
    assert coordinator.wait() == 2
    (line,) = coordinator.output.splitlines()
    assert contents(folder) == before
    return line.removeprefix("error: ")


def known_run(folder: Path) -> str | None:
    try:
        return run_of(folder)
    except (ValueError, KeyError, OSError):
        return None


def goes_on(server: Server, folder: Path, settings: LiveSettings = SETTINGS) -> None:
    """Resume, and compare with what should have come of it."""
    coordinator = server.start(folder, settings, 1, resume=True)
    assert coordinator.wait() == 0, coordinator.output
    assert check_end(folder, settings).courses == Naive(settings).courses()


def test_a_torn_last_line_is_cut_off(server: Server, killed: Path) -> None:
    """Of the journal, and of a trial's curve."""
    whole = (killed / "journal.jsonl").read_bytes()
    with (killed / "journal.jsonl").open("ab") as file:
        file.write(whole.splitlines()[-1][:-9])
    with (killed / "trials" / "0000" / "rows.jsonl").open("ab") as file:
        file.write(b'{"row":[0.1')
    goes_on(server, killed)
    assert (killed / "journal.jsonl").read_bytes().startswith(whole)


def test_a_flipped_byte_is_refused_with_its_line(server: Server, killed: Path) -> None:
    journal = killed / "journal.jsonl"
    whole = journal.read_bytes()
    parts = whole.splitlines(keepends=True)
    for number in (1, 5, len(parts)):
        begin = sum(map(len, parts[: number - 1]))
        place = begin + len(parts[number - 1]) // 2
        journal.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        line = refused(server, killed)
        assert line.startswith(f"{journal}: line {number}: its check does not fit")
    journal.write_bytes(whole)
    goes_on(server, killed)


def test_a_line_that_is_gone_is_refused(server: Server, killed: Path) -> None:
    journal = killed / "journal.jsonl"
    parts = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(parts[:4] + parts[5:]))
    assert refused(server, killed).startswith(f"{journal}: line 5: its check does not fit")
    journal.unlink()
    assert refused(server, killed).endswith(f"No such file or directory: '{journal}'")


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
    line = refused(server, killed, read_settings(killed))
    assert re.search(said, line), line


def test_other_code_is_refused(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "code_digest", lambda: "0123456789abcdef")
    before = contents(killed)
    with pytest.raises(LiveError, match="begun by other code .*; resume it with that"):
        run_search(SETTINGS, make_nodes(1), killed, resume=True, show=Says())
    assert contents(killed) == before


def test_a_second_coordinator_is_refused(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = server.start(folder, SETTINGS, 1, resume=False)
    until(lambda: lines(folder) >= 5)
    second = server.start(folder, SETTINGS, 1, resume=True)
    assert second.wait() == 2
    assert second.output == f"error: {folder}: another simsched live runs this search\n"
    assert first.wait() == 0
    assert check_end(folder, SETTINGS).courses == Naive(SETTINGS).courses()


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
        (folder / "journal.jsonl").unlink()
        (folder / "attempts.jsonl").unlink(missing_ok=True)
    goes_on(server, folder)


def test_a_finished_search_stays_as_it_is(server: Server, killed: Path) -> None:
    goes_on(server, killed)
    journal = (killed / "journal.jsonl").read_bytes()
    goes_on(server, killed)
    assert (killed / "journal.jsonl").read_bytes() == journal


# Ctrl-C.


@pytest.mark.parametrize("scheduler", ["random", "successive-halving", "pbt", "asha"])
def test_interrupted_again_and_again(server: Server, tmp_path: Path, scheduler: str) -> None:
    """Nothing is trained twice, nothing counts as a failure, no decision changes."""
    folder = tmp_path / "run"
    marks = tmp_path / "marks"
    marks.mkdir()
    command = worker("--pace", 0.02, faults=["note,step=4,times=1"], marks=marks)
    settings = make_settings(command, scheduler=scheduler, workers=5, retries=0)
    coordinator = server.start(folder, settings, 1, resume=False)
    for trial in range(4):
        until((marks / f"0-{trial}-0").exists)
        coordinator.signal(signal.SIGINT)
        assert coordinator.wait() in (130, 0), coordinator.output
        coordinator = server.start(folder, settings, 1, resume=True)
    assert coordinator.wait() == 0, coordinator.output
    past = check_end(folder, settings)
    assert past.events(Interrupted)
    assert len([event for event in past.events(Parked) if event.step > 0]) > 1
    assert past.events(Failed) == []
    assert past.courses == Naive(settings).courses()
    assert past.ledger.node_us["redo"] == 0


def command_line(folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "simsched", "live", *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def begin(folder: Path, command: str) -> "subprocess.Popen[str]":
    """Start `simsched live` on one node, and wait until it is half-way."""
    (folder / "space.json").write_text(json.dumps(SPACE))
    process = command_line(
        folder, "--command", command, "--search-space", "space.json", "--nodes", "1",
        "--workers", "3", "--phases", "3", "--phase-length", "10", "--unit", "steps",
        "--scheduler", "random", "--out", "run",
    )  # fmt: skip
    until(lambda: lines(folder / "run") >= 8 or process.poll() is not None)
    return process


def resumed(folder: Path, stderr: str) -> LiveSettings:
    """Resume as the last line says, to the end."""
    told = "Interrupted and saved; go on with: simsched live --resume run"
    assert stderr.splitlines()[-1] == told
    _, *words = shlex.split(told.partition("with: ")[2])
    process = command_line(folder, *words[1:])
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return read_settings(folder / "run")


def test_ctrl_c_once_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    faults = ["note,trial=1,step=14,times=1"]
    process = begin(tmp_path, worker("--pace", "0.05", faults=faults, marks=marks))
    until((marks / "0-1-0").exists)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted: saving, then stopping. Once more stops at once." in errors
    assert processes_of(run_of(tmp_path / "run")) == []
    settings = resumed(tmp_path, errors)
    past = check_end(tmp_path / "run", settings)
    (parked,) = past.events(Parked)
    assert 14 <= parked.step < 20
    assert past.events(Failed) == []
    assert past.courses == Naive(settings).courses()


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    """A worker that neither saves nor goes when it is asked to holds nobody up."""
    marks = tmp_path / "marks"
    marks.mkdir()
    faults = ["hang-save,trial=1,step=11,times=1", "stubborn,trial=1,times=1"]
    process = begin(tmp_path, worker("--pace", "0.01", faults=faults, marks=marks))
    until(lambda: (marks / "0-1-0").exists())  # it is told to save at its first milestone
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    began_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began_s < 8  # the graces would be 20 s
    assert process.returncode == 130
    assert processes_of(run_of(tmp_path / "run")) == []
    settings = resumed(tmp_path, errors)
    assert check_end(tmp_path / "run", settings).courses == Naive(settings).courses()


# The disk.


def test_a_full_disk_ends_it_in_one_line(server: Server, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a small file system")
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no small file system can be made here")
    try:
        folder = small / "run"
        ballast = small / "ballast"
        coordinator = server.start(folder, SETTINGS, 1, resume=False)
        until(lambda: lines(folder) >= 8)
        with pytest.raises(OSError, match="No space"), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        assert coordinator.wait() == 2, coordinator.output
        last = coordinator.output.splitlines()[-1]
        assert re.fullmatch(
            rf"error: {small}.*: No space left on device; once that is mended, go on with: "
            rf"simsched live --resume {folder}", last,
        )  # fmt: skip
        assert processes_of(run_of(folder)) == []
        ballast.unlink()
        goes_on(server, folder)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_where_the_journal_cannot_be_written_nothing_more_is_done(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    real, calls = Journal.sync, []

    def sync(journal: Journal) -> None:
        calls.append(journal)
        if len(calls) == 9:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(journal)

    monkeypatch.setattr(Journal, "sync", sync)
    with pytest.raises(LiveError, match="Input/output error; once that is mended, go on with: "):
        run_search(SETTINGS, make_nodes(1), folder, resume=False, show=Says())
    assert len(calls) == 9
    assert processes_of(run_of(folder)) == []
    goes_on(server, folder)
