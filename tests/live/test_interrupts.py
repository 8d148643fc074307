"""Ctrl-C, once and twice, and other ways to disturb a coordinator: nothing is lost by them."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from standing_still import STANDS_STILL

pytest.importorskip("psutil")
from fast_checks import Naive, check_end, goes_on
from fast_runs import (
    PATIENCE_S,
    SPACE,
    Says,
    Server,
    journal,
    make_settings,
    processes_of,
    run_of,
    search_here,
    until,
    worker,
)

import simsched
from simsched.events import Failed, Interrupted, Parked
from simsched.live.process_groups import kill_run
from simsched.live.search import read_settings
from simsched.live.settings import LiveSettings
from simsched.live.watch import ALIVE


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
    holds = [f"hold,trial={trial},step=4,times=1" for trial in range(4)]
    command = worker(faults=holds, marks=marks)
    settings = make_settings(command, scheduler=scheduler, workers=5, retries=0)
    coordinator = server.start(folder, settings, 1, resume=False)
    for trial in range(4):
        until((marks / f"{trial}-{trial}-0").exists)
        coordinator.signal(signal.SIGINT)
        assert coordinator.wait() == 130, coordinator.output
        coordinator = server.start(folder, settings, 1, resume=True)
    assert coordinator.wait() == 0, coordinator.output
    past = check_end(folder, settings)
    assert len(past.events(Interrupted)) == 4
    assert [event.step for event in past.events(Parked)] == [4] * 4
    assert past.events(Failed) == []
    assert past.courses == Naive(settings).courses()
    assert past.ledger.node_us["redo"] == 0


class CommandLine:
    """Runs `simsched live` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *options: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "simsched", "live", *options],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def begin(self, command: str, *more: str) -> "subprocess.Popen[str]":
        """Start it on one node."""
        (self.folder / "space.json").write_text(json.dumps(SPACE))
        return self.start(
            "--command", command, "--search-space", "space.json", "--nodes", "1",
            "--workers", "3", "--phases", "3", "--phase-length", "10", "--unit", "steps",
            "--scheduler", "random", "--out", "run", *more,
        )  # fmt: skip

    def end(self) -> None:
        """End what a test that failed has left."""
        for process in self.started:
            process.kill()
            process.communicate()
        if (self.folder / "run" / "journal.jsonl").exists():
            kill_run(run_of(self.folder / "run"))


@pytest.fixture
def command_line(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    yield command_line
    command_line.end()


def heard(folder: Path, count: int = 1) -> bool:
    """Whether a search has heard a Ctrl-C: two that come at once are one to a process."""
    log = folder / "run.log"
    return log.exists() and log.read_bytes().count(b"Interrupted: saving") >= count


def resumed(command_line: CommandLine, stderr: str) -> LiveSettings:
    """Resume as the last line says, to the end."""
    told = "Interrupted and saved; go on with: simsched live --resume run"
    assert stderr.splitlines()[-1] == told
    _, *words = shlex.split(told.partition("with: ")[2])
    process = command_line.start(*words[1:])
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return read_settings(command_line.folder / "run")


def test_ctrl_c_once_saves_and_says_how_to_go_on(tmp_path: Path, command_line: CommandLine) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    faults = ["hold,trial=1,step=14,times=1"]
    process = command_line.begin(worker(faults=faults, marks=marks))
    until(lambda: (marks / "0-1-0").exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Interrupted: saving, then stopping. Once more stops at once." in errors
    assert processes_of(run_of(tmp_path / "run")) == []
    settings = resumed(command_line, errors)
    past = check_end(tmp_path / "run", settings)
    (parked,) = past.events(Parked)
    assert parked.step == 14
    assert past.events(Failed) == []
    assert past.courses == Naive(settings).courses()


def test_a_trial_that_is_stopped_while_it_parks(tmp_path: Path, server: Server) -> None:
    """Its last report and that it is saved come at once: by then nobody waits for the save."""
    marks = tmp_path / "marks"
    marks.mkdir()
    settings = make_settings(
        worker(faults=["late-report,step=20,times=1"], marks=marks), scheduler="random",
        workers=2, nodes=2, phases=1, phase_length=20, checkpoints="scheduler",
    )  # fmt: skip
    folder = tmp_path / "run"
    coordinator = server.start(folder, settings, 2, resume=False)
    both = [marks / "0-0-0", marks / "0-1-0"]
    until(lambda: all(mark.exists() for mark in both) or coordinator.is_over())
    coordinator.signal(signal.SIGINT)
    assert coordinator.wait() == 0, coordinator.output  # there is nothing left to go on with
    past = check_end(folder, settings)
    assert past.courses == Naive(settings).courses()
    assert past.events(Interrupted)
    assert not past.events(Parked) + past.events(Failed)


def test_ctrl_c_twice_stops_at_once(tmp_path: Path, command_line: CommandLine) -> None:
    """A worker that neither saves nor goes when it is asked to holds nobody up."""
    folder = tmp_path / "run"
    folder.mkdir()
    marks = tmp_path / "marks"
    marks.mkdir()
    faults = ["hang-save,trial=1,step=11,times=1", "stubborn,trial=1,times=1"]
    made = make_settings(
        worker(faults=faults, marks=marks), scheduler="random", workers=3,
        version=simsched.__version__, grace_s=10 * PATIENCE_S,
    )  # fmt: skip
    (folder / "settings.json").write_bytes(msgspec.json.encode(made))
    process = command_line.start("--resume", "run")
    # It is told to save at its first milestone.
    until(lambda: (marks / "0-1-0").exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    until(lambda: heard(folder) or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)  # within its graces
    assert process.returncode == 130
    assert processes_of(run_of(folder)) == []
    settings = resumed(command_line, errors)
    assert check_end(folder, settings).courses == Naive(settings).courses()


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
    settings = make_settings(command, scheduler="random", workers=2, grace_s=10 * PATIENCE_S)
    coordinator = server.start(folder, settings, 1, resume=False)
    until(lambda: b'"trial":1' in journal(folder))
    (stubborn,) = processes_of(run_of(folder))
    coordinator.signal(signal.SIGINT)
    until(lambda: heard(folder) or coordinator.is_over())
    assert not coordinator.is_over(0.5)
    assert processes_of(run_of(folder)) == [stubborn]
    if twice:
        coordinator.signal(signal.SIGINT)
    else:
        os.kill(stubborn, signal.SIGKILL)  # as at the end of its grace
    assert coordinator.wait() == 130, coordinator.output  # within the grace
    assert processes_of(run_of(folder)) == []
    goes_on(server, folder, settings)


def test_a_coordinator_that_stood_still_does_not_blame_its_workers(
    server: Server, tmp_path: Path
) -> None:
    """As when somebody stops it, or closes the laptop: nobody was silent, nobody listened.

    Its clock goes on by an hour at once, so that no real silence can be as long.
    """
    folder, marks = tmp_path / "run", tmp_path / "marks"
    marks.mkdir()
    command = worker(faults=["note,step=4,times=1", "gate,step=4"], marks=marks)
    settings = make_settings(command, scheduler="random", workers=2, silent_after_s=PATIENCE_S)
    coordinator = server.start(folder, settings, 1, resume=False)
    until((marks / "0-0-0").exists)  # it trains
    coordinator.signal(STANDS_STILL)
    alive = folder / ALIVE
    until(lambda: alive.exists() and json.loads(alive.read_bytes())["at_us"] > 3600e6)
    (marks / "open").touch()
    assert coordinator.wait() == 0, coordinator.output
    past = check_end(folder, settings)
    assert past.events(Failed) == []
    assert past.records[-1].event.at > 3600e6
