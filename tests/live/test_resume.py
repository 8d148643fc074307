"""A search that was ended, in any way, goes on; what does not fit is refused, and left alone."""

import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("psutil")
from fast_checks import Naive, check_end, read
from fast_runs import (
    SPACE,
    Says,
    Server,
    journal,
    lines,
    make_settings,
    processes_of,
    run_of,
    search_here,
    small_disk,
    until,
    worker,
)

from simsched.events import Failed, Interrupted, Parked
from simsched.journal import Journal
from simsched.live import search, workshop
from simsched.live.curves import RowTuple, TrialCurve
from simsched.live.errors import LiveError
from simsched.live.protocol import Counters
from simsched.live.search import read_settings
from simsched.live.settings import LiveSettings
from simsched.live.storage import Store
from simsched.live.window import Reached, Score, Window
from simsched.live.world import socket_folder
from simsched.messages import Checkpoint


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


SETTINGS = make_settings(worker("--pace", "0.003"), scheduler="random", workers=4)


@pytest.fixture
def killed(server: Server, tmp_path: Path) -> Iterator[Path]:
    """The folder of a search whose coordinator was killed half-way."""
    folder = tmp_path / "run"
    coordinator = server.start(folder, SETTINGS, 1, resume=False)
    until(lambda: lines(folder) >= 12)
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
    goes_on(server, killed)


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
    line = refused(server, killed, read_settings(killed))
    assert re.search(said, line), line


def test_other_code_is_refused(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "code_digest", lambda: "0123456789abcdef")
    before = contents(killed)
    with pytest.raises(LiveError, match=r"begun by other code .*; resume it with that"):
        search_here(killed, SETTINGS, resume=True, show=Says())
    assert contents(killed) == before


def test_a_second_coordinator_is_refused(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = make_settings(worker("--pace", 0.1), scheduler="random", workers=2)
    first = server.start(folder, settings, 1, resume=False)
    until(lambda: lines(folder) >= 2)
    second = server.start(folder, settings, 1, resume=True)
    assert second.wait() == 2
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


def test_nohup_is_respected(tmp_path: Path) -> None:
    """A signal that was ignored before stays so: the search outlives its terminal."""

    class HangsUp(Says):
        def line(self, text: str) -> None:
            super().line(text)
            os.kill(os.getpid(), signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        outcome = search_here(tmp_path / "run", SETTINGS, resume=False, show=HangsUp())
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome.ended == "done"


@pytest.mark.parametrize("twice", [False, True])
def test_who_is_just_leaving_is_not_forgotten(
    server: Server, tmp_path: Path, *, twice: bool
) -> None:
    """The next worker waits for its node, where the last one does not want to go."""
    folder = tmp_path / "run"
    command = worker(faults=["stubborn,trial=0"])
    grace_s = 30.0 if twice else 1.0
    settings = make_settings(command, scheduler="random", workers=2, grace_s=grace_s)
    coordinator = server.start(folder, settings, 1, resume=False)
    until(lambda: b'"trial":1' in journal(folder))
    assert len(processes_of(run_of(folder))) == 1
    began_s = time.monotonic()
    coordinator.signal(signal.SIGINT)
    if twice:
        time.sleep(0.3)
        coordinator.signal(signal.SIGINT)
    assert coordinator.wait() == 130, coordinator.output
    assert time.monotonic() - began_s < 20
    assert processes_of(run_of(folder)) == []
    goes_on(server, folder, settings)


# The disk.


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(b"x" * 512)
    assert shutil.disk_usage(file.parent).free < 4096


def test_a_full_disk_ends_it_in_one_line(server: Server, tmp_path: Path) -> None:
    small = tmp_path / "small"
    with small_disk(small, "size=400k"):
        folder = small / "run"
        ballast = small / "ballast"
        coordinator = server.start(folder, SETTINGS, 1, resume=False)
        until(lambda: lines(folder) >= 8)
        fill(ballast)
        assert coordinator.wait() == 2, coordinator.output
        last = coordinator.output.splitlines()[-1]
        assert re.fullmatch(
            rf"error: {small}.*: No space left on device; once that is mended, go on with: "
            rf"simsched live --resume {folder}", last,
        )  # fmt: skip
        assert processes_of(run_of(folder)) == []
        ballast.unlink()
        goes_on(server, folder)


def test_where_the_journal_cannot_be_written_nothing_more_is_done(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    real, calls = Journal.sync, []

    def sync(journal: Journal) -> None:
        calls.append(journal)
        if len(calls) == 9:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(journal)

    monkeypatch.setattr(Journal, "sync", sync)
    with pytest.raises(LiveError, match="Input/output error; once that is mended, go on with: "):
        search_here(folder, SETTINGS, resume=False, show=Says())
    assert len(calls) == 9
    assert processes_of(run_of(folder)) == []
    goes_on(server, folder)


def test_a_curve_that_cannot_be_written_ends_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    real, calls = TrialCurve.add, []

    def add(curve: TrialCurve, rows: list[RowTuple]) -> None:
        calls.append(rows)
        if len(calls) == 9:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "rows.jsonl")
        real(curve, rows)

    monkeypatch.setattr(TrialCurve, "add", add)
    with pytest.raises(LiveError, match=r"rows.jsonl: Disk quota exceeded; once that is mended"):
        search_here(folder, SETTINGS, resume=False, show=Says())
    goes_on(server, folder)


def test_a_worker_that_cannot_save_on_a_full_disk_has_not_failed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trial would be lost after some retries, though nothing is wrong with it."""
    folder, marks = tmp_path / "run", tmp_path / "marks"
    marks.mkdir()
    command = worker(faults=["claim,trial=1,times=1"], marks=marks)
    settings = make_settings(command, scheduler="random", workers=3, retries=0)
    monkeypatch.setattr(workshop, "LEAST_FREE_BYTES", 1 << 60)
    with pytest.raises(LiveError, match="run: No space left on device; once that is mended"):
        search_here(folder, settings, resume=False, show=Says())
    goes_on(server, folder, settings)
    assert read(folder, settings).events(Failed) == []


def test_an_older_checkpoint_stands_until_the_newer_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are of one count; the coordinator dies between taking one away and putting the other."""
    store, checkpoint = Store(tmp_path), Checkpoint(3, 20)

    def save(text: str) -> None:
        store.scratch(1).write_text(text)
        store.commit(1, checkpoint, {"said": text})

    save("old")
    save("newer")
    assert store.open(checkpoint).state == {"said": "newer"}
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path.name == ".attempt-1":
            raise KeyboardInterrupt
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        save("newest")
    Store(tmp_path).sweep(frozenset([checkpoint]))
    assert store.open(checkpoint).state == {"said": "newer"}
    assert [path.name for path in tmp_path.iterdir()] == ["trial-0003-step-20"]
    monkeypatch.undo()
    save("newest")
    (tmp_path / ".older-trial-0003-step-20").mkdir()
    store.sweep(frozenset([checkpoint]))
    assert store.open(checkpoint).state == {"said": "newest"}


def test_a_curve_is_open_only_while_it_grows(tmp_path: Path) -> None:
    """A search can have more trials than a process may have open files."""
    curve = TrialCurve(tmp_path / "rows.jsonl")
    files = len(os.listdir("/proc/self/fd"))
    curve.add([(0.1, 10, 1, 0.5)])
    assert len(os.listdir("/proc/self/fd")) == files + 1
    curve.sync()
    curve.close()
    assert len(os.listdir("/proc/self/fd")) == files
    curve.flush()
    curve.sync()
    curve.add([(0.2, 20, 2, 0.7)])
    curve.close()
    assert TrialCurve(tmp_path / "rows.jsonl").rows == [(0.1, 10, 1, 0.5), (0.2, 20, 2, 0.7)]


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


def test_a_coordinator_that_stood_still_does_not_blame_its_workers(
    server: Server, tmp_path: Path
) -> None:
    """As when somebody stops it, or closes the laptop: nobody was silent, nobody listened."""
    folder = tmp_path / "run"
    settings = make_settings(
        worker("--pace", 0.1), scheduler="random", workers=2, silent_after_s=2.0
    )
    coordinator = server.start(folder, settings, 1, resume=False)
    until(lambda: lines(folder) >= 3)  # it trains
    workers = psutil.Process(coordinator.pid).children(recursive=True)
    coordinator.signal(signal.SIGSTOP)
    for each in workers:
        each.suspend()
    time.sleep(3.5)
    coordinator.signal(signal.SIGCONT)
    time.sleep(0.7)  # it looks after them before they have said anything
    for each in workers:
        each.resume()
    assert coordinator.wait() == 0
    check_end(folder, settings)
    assert b'"type":"failed"' not in (folder / "journal.jsonl").read_bytes()
