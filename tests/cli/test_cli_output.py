"""Where results go: new or empty folders and JSON files; nothing is overwritten or half done."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_curves import ladder
from cli_outcome import PATIENCE_S, Outcome, tree
from cli_process import start

Run = Callable[..., Outcome]
RUN = ("simulate", "--traces", "a.csv", "--scheduler", "random")
ENDLESS = (*RUN, "--resample", "--workers", 100_000, "--replications", 100_000)
"""Would take days: what is refused at once was looked at before anything was simulated."""
FILES = ["journals", "report.html", "results.json", "settings.json"]


@pytest.fixture(autouse=True)
def curves(here: Path) -> None:
    ladder("a.csv")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused_at_once(simsched: Run, here: Path, *options: str) -> str:
    """The reason; nothing in the working folder has changed."""
    before, started_s = tree(here), time.monotonic()
    said = simsched(*ENDLESS, *options).refusal
    assert time.monotonic() - started_s < 60  # simulated, it would take hours
    assert tree(here) == before
    return said


def test_a_folder_that_holds_another_run(simsched: Run, here: Path) -> None:
    assert simsched(*RUN, "--out", "r").code == 0
    assert refused_at_once(simsched, here, "--out", "r", "--seed", "3") == (
        "--out r: the folder is not empty; name a new one, nothing is overwritten"
    )


def test_a_hidden_file_is_something_too(simsched: Run, here: Path) -> None:
    (here / "r").mkdir()
    (here / "r" / ".notes").write_text("mine")
    assert "is not empty" in refused_at_once(simsched, here, "--out", "r")


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("a.csv", "--out a.csv: it is a file; name a new folder"),
        ("a.csv/r", "--out a.csv/r: the folder cannot be made: a.csv: File exists"),
        (
            "/proc/nobody/r",
            "--out /proc/nobody/r: the folder cannot be made: /proc/nobody: ",
        ),
        ("/dev/null", "--out /dev/null: it is a file; name a new folder"),
        (".", "--out .: the folder is not empty; name a new one, nothing is overwritten"),
        ("x" * 300, "x" * 300 + ": File name too long"),
    ],
)
def test_folders_that_cannot_be(simsched: Run, here: Path, out: str, said: str) -> None:
    assert refused_at_once(simsched, here, "--out", out).startswith(said)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(simsched: Run, here: Path) -> None:
    (here / "locked").mkdir(mode=0o500)
    assert "Permission denied" in refused_at_once(simsched, here, "--out", "locked/r")


def test_runs_that_is_a_file(simsched: Run, here: Path) -> None:
    (here / "runs").write_text("mine")
    said = refused_at_once(simsched, here)
    assert said == "runs: the folder cannot be made: runs: File exists"


def test_an_empty_folder_is_filled_in_place(simsched: Run, here: Path) -> None:
    """It may be a mount point or somebody's working folder, so it is not replaced."""
    (here / "empty").mkdir(mode=0o700)
    (here / "link").symlink_to("empty")
    before = (here / "empty").stat()
    assert simsched(*RUN, "--out", "link").code == 0
    after = (here / "empty").stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert names(here / "empty") == FILES
    assert (here / "link").is_symlink()


def test_an_empty_working_folder(
    simsched: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "empty").mkdir()
    monkeypatch.chdir(here / "empty")
    run = ("simulate", "--traces", "../a.csv", "--scheduler", "random", "--out", ".")
    assert simsched(*run).table[0]["scheduler"] == "random"
    assert names(here / "empty") == FILES


def test_what_is_written_others_may_read_as_the_umask_says(simsched: Run, here: Path) -> None:
    before = os.umask(0o027)
    try:
        assert simsched(*RUN, "--out", "r", "--json", "r.json").code == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (here / "r").iterdir()}
    assert (modes["results.json"], modes["journals"]) == (0o640, 0o750)
    assert (here / "r.json").stat().st_mode & 0o777 == 0o640
    assert (here / "r").stat().st_mode & 0o777 == 0o750


def test_runs_at_the_same_time_get_folders_of_their_own(here: Path) -> None:
    together = [start(*RUN) for _ in range(3)]
    ends = [process.communicate(timeout=PATIENCE_S) for process in together]
    assert [process.returncode for process in together] == [0, 0, 0]
    told = sorted(out.splitlines()[-1] for out, _ in ends)
    assert told == [f"report: runs/simulate-{n}/report.html" for n in (1, 2, 3)]
    assert [names(here / "runs" / name) for name in names(here / "runs")] == [FILES] * 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing/r.json", "--json missing/r.json: there is no folder missing"),
        (".", "--json .: it is a folder; name a file"),
        ("a.csv/r.json", "--json a.csv/r.json: there is no folder a.csv"),
        ("/proc/r.json", "--json /proc/r.json: it cannot be written: "),
    ],
)
def test_json_files_that_cannot_be(simsched: Run, here: Path, name: str, said: str) -> None:
    assert refused_at_once(simsched, here, "--json", name).startswith(said)


def test_json_into_the_folder_of_the_run(simsched: Run, here: Path) -> None:
    assert simsched(*RUN, "--out", "r", "--json", "r/again.json").code == 0
    assert names(here / "r") == ["again.json", *FILES]
    found = tree(here / "r")
    assert found["again.json"] == found["results.json"]


def test_a_json_file_is_replaced_whole_and_only_when_all_went_well(
    simsched: Run, here: Path
) -> None:
    (here / "r.json").write_text("earlier")
    (here / "link.json").symlink_to("r.json")
    run = (*RUN, "--json", "link.json")
    assert "recorded trial 0" in simsched(*run, "--phases", 5, "--phase-length", 900).refusal
    assert (here / "r.json").read_text() == "earlier"
    assert simsched(*run, "--out", "r").code == 0
    assert (here / "link.json").is_symlink()
    assert (here / "r.json").read_bytes() == (here / "r" / "results.json").read_bytes()
    assert names(here) == ["a.csv", "link.json", "r", "r.json"]


def test_a_device_stays_a_device(simsched: Run) -> None:
    assert simsched(*RUN, "--json", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_a_named_pipe_gets_the_json(simsched: Run, here: Path) -> None:
    os.mkfifo(here / "pipe")
    heard: list[bytes] = []
    listen = lambda: heard.append((here / "pipe").read_bytes())  # noqa: E731
    listener = threading.Thread(target=listen, daemon=True)  # waits for ever if nobody writes
    listener.start()
    assert simsched(*RUN, "--out", "r", "--json", "pipe").code == 0
    listener.join(timeout=PATIENCE_S)
    assert heard == [(here / "r" / "results.json").read_bytes()]
    assert (here / "pipe").is_fifo()
