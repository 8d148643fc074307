"""Nothing is let in: who may speak to a coordinator, and what may come from a folder."""

import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")
import msgspec
import psutil
from fast_checks import read
from fast_runs import (
    Coordinator,
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

from simsched.errors import SimschedError
from simsched.events import Failed, Reported
from simsched.journal import Journal
from simsched.live.curves import TrialCurve
from simsched.live.errors import LiveError
from simsched.live.protocol import Source
from simsched.live.search import read_settings
from simsched.live.storage import DamagedError, Store
from simsched.messages import Checkpoint

NOBODY = 65534
KNOCK = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
line.settimeout(120)
try:
    line.connect(sys.argv[1])
    line.sendall(sys.argv[2].encode())
    print(repr(line.recv(100)))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


class Besieged:
    """A search whose second worker never says hello, so that others can try to."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.folder = folder
        marks = folder.with_name("marks")
        marks.mkdir()
        command = worker(faults=["mute,trial=1,times=1"], marks=marks)
        self.settings = make_settings(command, workers=3, scheduler="random", backoff_s=0.5)
        self.coordinator: Coordinator = server.start(folder, self.settings, 1, resume=False)
        until((marks / "0-1-0").exists)
        self.run = run_of(folder)
        (pid,) = processes_of(self.run)
        self.worker = psutil.Process(pid)
        environment = self.worker.environ()
        self.path = Path(environment["SIMSCHED_SOCKET"])
        self.token = environment["SIMSCHED_TOKEN"]

    def hello(self, token: str | None = None) -> bytes:
        message = {"type": "hello", "protocol": 1, "token": self.token if token is None else token}
        return json.dumps(message).encode() + b"\n"

    def connect(self, first: bytes) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(120)
            line.connect(str(self.path))
            line.sendall(first)
        except OSError:
            line.close()
            raise
        return line

    def answer(self, first: bytes) -> bytes:
        """Return what is answered to somebody's first words; nothing, if he is sent away."""
        try:
            with self.connect(first) as line:
                return line.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return b""

    def end(self) -> None:
        """Let it come to its end."""
        with suppress(psutil.NoSuchProcess):
            self.worker.kill()
        assert self.coordinator.wait() == 0, self.coordinator.output
        courses = read(self.folder, self.settings).courses
        assert {course.fate for course in courses.values()} == {"finished"}


@pytest.fixture
def besieged(server: Server, tmp_path: Path) -> Besieged:
    return Besieged(server, tmp_path / "run")


def test_who_has_not_the_token_is_sent_away(besieged: Besieged) -> None:
    assert besieged.answer(besieged.hello("0" * 32)) == b""
    assert besieged.answer(besieged.hello("")) == b""
    assert besieged.answer(b'{"type":"beat"}\n') == b""
    assert besieged.answer(b"GET / HTTP/1.1\r\n\r\n") == b""
    assert besieged.answer(b"x" * (2 << 20)) == b""
    with besieged.connect(besieged.hello()) as line:
        assert json.loads(line.recv(65536))["type"] == "welcome"
        assert besieged.answer(besieged.hello()) == b""  # it has been used
    besieged.end()


def test_a_token_ends_with_its_attempt(besieged: Besieged) -> None:
    besieged.worker.kill()
    until(lambda: b'{"type":"failed"' in journal(besieged.folder))
    assert besieged.answer(besieged.hello()) == b""
    besieged.end()


def test_the_token_is_told_to_nobody_else(besieged: Besieged) -> None:
    for path in besieged.folder.rglob("*"):
        if path.is_file():
            assert besieged.token.encode() not in path.read_bytes(), path
    assert besieged.token not in " ".join(besieged.worker.cmdline())
    besieged.end()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_cannot_connect(besieged: Besieged) -> None:
    """Not through the folder; nor past it, with the right token."""
    folder = besieged.path.parent
    assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, os.getuid())
    words = [sys.executable, "-S", "-E", "-c", KNOCK, besieged.path, besieged.hello()]

    def knock() -> str:
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert knock() == "PermissionError"
    folder.chmod(0o755)
    besieged.path.chmod(0o777)
    assert knock() in ("b''", "ConnectionResetError", "BrokenPipeError")
    with besieged.connect(besieged.hello()) as line:  # and it has not been used up
        assert json.loads(line.recv(65536))["type"] == "welcome"
    besieged.end()


def test_what_an_older_attempt_says_is_dropped(besieged: Besieged) -> None:
    """The worker is gone, and its trial begun anew; something still speaks for it."""
    with besieged.connect(besieged.hello()) as line:
        welcome = json.loads(line.recv(65536))
        line.sendall(b'{"type":"training"}\n')
        besieged.worker.kill()
        until(lambda: b'{"type":"failed"' in journal(besieged.folder))
        report = {"type": "report", "step": welcome["until"], "score": 99.0, "reached": 12}
        with suppress(OSError):  # its connection is closed, sooner or later
            while True:
                line.sendall(json.dumps(report).encode() + b"\n")
    besieged.end()
    past = read(besieged.folder, besieged.settings)
    attempt = welcome["attempt"]
    assert [event.attempt for event in past.events(Failed)] == [attempt]
    assert all(event.attempt != attempt for event in past.events(Reported))
    assert all(score != 99.0 for _, score in past.courses[1].milestones)


# What comes from elsewhere.


class Evil:
    """Executes code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (TRAP,)


TRAP = "simsched-was-trapped"
DANGEROUS = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")
_heard: list[str] = []
_listens = False


def _listen(event: str, arguments: object) -> None:
    if _listens and event in DANGEROUS:
        _heard.append(event)


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing is unpickled or executed meanwhile."""
    monkeypatch.chdir(tmp_path)
    sys.addaudithook(_listen)
    _heard.clear()
    monkeypatch.setattr(sys.modules[__name__], "_listens", True)
    yield
    assert _heard == []
    assert not Path(TRAP).exists()


def test_the_trap_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Evil()))  # noqa: S301 - it is ours
    assert Path(TRAP).exists()


@pytest.mark.usefixtures("nothing_runs")
def test_files_of_a_run_cannot_execute_code(tmp_path: Path) -> None:
    """Each file in turn is a pickle that would, and is refused in one line, or left alone."""
    evil = pickle.dumps(Evil())
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "settings.json").write_bytes(evil)
    with pytest.raises(LiveError, match=r"settings.json: these are no settings of a live search"):
        read_settings(folder)
    (folder / "journal.jsonl").write_bytes(evil)
    with pytest.raises(SimschedError, match=r"journal.jsonl: the journal is empty; its first"):
        search_here(folder, make_settings("true"), resume=True, show=Says())
    assert (folder / "journal.jsonl").read_bytes() == evil
    (folder / "rows.jsonl").write_bytes(evil)
    curve = TrialCurve(folder / "rows.jsonl")
    assert curve.rows == []


@pytest.mark.usefixtures("nothing_runs")
def test_a_checkpoint_cannot_execute_code_or_reach_outside(tmp_path: Path) -> None:
    store = Store(tmp_path / "checkpoints")
    kept = Checkpoint(3, 20)
    data = store.scratch(1)
    data.write_bytes(pickle.dumps(Evil()))
    store.commit(1, kept, {"steps": 20})
    folder = store.path(kept)
    assert store.open(kept) == Source(str(folder / "data"), 3, 20, {"steps": 20})  # only summed
    manifest = folder / "manifest.json"
    good = json.loads(manifest.read_bytes())
    for bad in (
        {**good, "sha256": {"../../../../etc/passwd": "0" * 64}},
        {**good, "sha256": {}},
        {**good, "trial": 4},
        {**good, "state": None},
        [good],
    ):
        manifest.write_text(json.dumps(bad))
        with pytest.raises(DamagedError):
            store.open(kept)
    manifest.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DamagedError, match=r"manifest.json: cannot be read: "):
        store.open(kept)
    manifest.write_text(json.dumps(good))
    (folder / "data").unlink()
    (folder / "data").symlink_to("/etc/passwd")
    with pytest.raises(DamagedError, match="made of files and folders alone"):
        store.open(kept)


def test_an_id_cannot_become_a_path(server: Server, tmp_path: Path) -> None:
    """The run's id names a folder that is emptied: it must not lead anywhere."""
    folder, precious = tmp_path / "run", tmp_path / "precious"
    folder.mkdir()
    precious.mkdir()
    settings = make_settings("true")
    about = {"run": f"/../..{precious}", "settings": msgspec.to_builtins(settings)}
    with (folder / "journal.jsonl").open("wb") as file:
        Journal(file, about, settings.plan.maximum).sync()
    coordinator = server.start(folder, settings, 1, resume=True)
    assert coordinator.wait() == 2
    assert coordinator.output.endswith("is no run's id\n")
    assert precious.exists()
