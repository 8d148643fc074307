"""A disk that is full, or fails, ends a search in one line; then it can go on."""

import errno
import os
import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("psutil")
from fast_checks import goes_on, read
from fast_runs import (
    Says,
    Server,
    make_settings,
    processes_of,
    run_of,
    search_here,
    small_disk,
    until,
    worker,
)

from simsched.events import Failed
from simsched.journal import Journal
from simsched.live import workshop
from simsched.live.curves import RowTuple, TrialCurve
from simsched.live.errors import LiveError
from simsched.live.storage import Store
from simsched.messages import Checkpoint


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


SETTINGS = make_settings(worker("--pace", "0.003"), scheduler="random", workers=4)


def fill(file: Path) -> None:
    """Write until the disk is full, and stays so though others delete their files."""
    with file.open("wb", buffering=0) as ballast:
        while shutil.disk_usage(file.parent).free >= 4096:
            with suppress(OSError):
                while True:
                    ballast.write(b"x" * 512)


def test_a_full_disk_ends_it_in_one_line(server: Server, tmp_path: Path) -> None:
    small, marks = tmp_path / "small", tmp_path / "marks"
    marks.mkdir()
    faults = ["note,trial=1,step=4,times=1", "gate,trial=1,step=4"]
    settings = make_settings(worker(faults=faults, marks=marks), scheduler="random", workers=4)
    with small_disk(small, "size=400k"):
        folder = small / "run"
        ballast = small / "ballast"
        coordinator = server.start(folder, settings, 1, resume=False)
        until(lambda: (marks / "0-1-0").exists() or coordinator.is_over())
        fill(ballast)
        (marks / "open").touch()
        assert coordinator.wait() == 2, coordinator.output
        last = coordinator.output.splitlines()[-1]
        assert re.fullmatch(
            rf"error: {small}.*: No space left on device; once that is mended, go on with: "
            rf"simsched live --resume {folder}", last,
        )  # fmt: skip
        assert processes_of(run_of(folder)) == []
        ballast.unlink()
        goes_on(server, folder, settings)


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
    goes_on(server, folder, SETTINGS)


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
    goes_on(server, folder, SETTINGS)


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


def test_the_size_is_told_while_workers_save_and_checkpoints_go(tmp_path: Path) -> None:
    """The view asks for it while others write: what vanishes on the way is left out."""
    store, over = Store(tmp_path), threading.Event()
    kept = store.scratch(7)
    kept.write_bytes(bytes(1000))

    def others() -> None:
        while not over.is_set():
            data = store.scratch(1)
            data.mkdir()
            (data / "weights").write_bytes(bytes(10))
            shutil.rmtree(data.parent)

    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(others)
        try:
            sizes = {store.size_bytes() for _ in range(3000)}
        finally:
            over.set()
        told.result()
    assert sizes <= {1000, 1010}
    assert store.size_bytes() == 1000
