"""Ctrl-C, once and twice, and other ways to disturb a coordinator: nothing is lost by them."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("psutil")
from fast_checks import Naive, check_end, goes_on
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
    until,
    worker,
)

from simsched.events import Failed, Interrupted, Parked
from simsched.live.search import read_settings
from simsched.live.settings import LiveSettings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


SETTINGS = make_settings(worker("--pace", "0.003"), scheduler="random", workers=4)


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
