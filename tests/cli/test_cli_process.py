"""The installed script as a process: pipes, signals, several cores."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from cli_curves import ladder
from cli_outcome import PATIENCE_S, SCRIPT, Outcome, in_process_of_its_own, results, tree
from cli_process import (
    LONG,
    children,
    processor_time_s,
    start,
    wait_until,
    wait_until_it_simulates,
)

from simsched.cli.output import undone_when_killed

SHORT = ("simulate", "--traces", "a.csv", "--scheduler", "random", "--nodes", "2")


def lives(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_good_run_and_a_bad_one(here: Path) -> None:
    ladder("a.csv")
    good = in_process_of_its_own(*SHORT)
    assert good.table[0]["wall time"] == "1 m 20 s"
    bad = in_process_of_its_own(*SHORT, "--phases", "5000")
    assert bad.refusal == (
        "recorded trial 0 of a.csv has 400 steps, fewer than the 5,000 that 5,000 phases of 1 "
        "need; ask for fewer phases"
    )
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["simulate-1"]


def test_the_defaults_replay_ms_pacman_within_seconds(here: Path) -> None:
    with Path("out").open("w") as out, Path("err").open("w") as err:
        process = start("simulate", stdout=out, stderr=err)
    assert processor_time_s(process) < 15  # 1.3 s, or more beside busy neighbours
    outcome = Outcome(process.returncode, Path("out").read_text(), Path("err").read_text())
    assert [row["scheduler"].rstrip("*†") for row in outcome.table] == [
        "successive-halving", "hyperband", "hypertrick", "pbt"
    ]  # fmt: skip
    preemptions = {row["scheduler"].rstrip("*†"): int(row["preemptions"]) for row in outcome.table}
    assert preemptions["hypertrick"] == 0
    assert preemptions["successive-halving"] > 0
    settings = results(here / "runs" / "simulate-1")["settings"]
    assert (settings["game"], settings["nodes"], settings["workers"]) == ("MsPacman", [6], [16])
    assert (settings["phases"], settings["synthetic"]) == (4, False)


def test_the_same_bytes_in_two_processes_with_one_core_or_two(here: Path) -> None:
    ladder("a.csv", trials=9, ends=("complete", "diverged", "complete"))
    options = ("simulate", "--traces", "a.csv", "--replications", "3", "--preemption-cost", "2")
    for out, jobs, hashes in (("x", "1", "0"), ("y", "2", "1")):
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        outcome = in_process_of_its_own(
            *options, "--jobs", jobs, "--out", out, "--json", f"{out}.json", env=environment
        )
        assert (outcome.code, outcome.err) == (0, "")
    assert tree(here / "x") == tree(here / "y")
    assert (here / "x.json").read_bytes() == (here / "y.json").read_bytes()
    assert len(json.loads((here / "x.json").read_text())["runs"]) == 12


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "--traces", "a.csv", "--out", "r"),
        ("simulate", "--traces", "a.csv", "--out", "r", "--json", "-"),
        ("simulate", "--help"),
        ("schedulers",),
        ("schedulers", "hypertrick"),
        ("schedulers", "--json"),
    ],
    ids=" ".join,
)
def test_output_that_nobody_reads(here: Path, arguments: tuple[str, ...]) -> None:
    """As in `simsched … | head -0`: no traceback, and the run's folder is whole."""
    ladder("a.csv")
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*arguments, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1)
    assert err == ""
    if "--out" in arguments:
        files = sorted(path.name for path in (here / "r").iterdir())
        assert files == ["journals", "report.html", "results.json", "settings.json"]


def test_head_gets_its_line(here: Path) -> None:
    ladder("a.csv")
    command = f"{SCRIPT} simulate --traces a.csv | head -1"
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.startswith("scheduler  ")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_full_disk_behind_standard_output(here: Path) -> None:
    ladder("a.csv")
    with Path("/dev/full").open("w") as full:
        process = start(*SHORT, "--out", "r", stdout=full)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (2, "error: No space left on device\n")
    assert (here / "r" / "report.html").exists()


def test_a_closed_standard_output(here: Path) -> None:
    ladder("a.csv")
    command = f"{SCRIPT} simulate --traces a.csv --out r >&-"
    done = subprocess.run(
        ["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (here / "r" / "report.html").exists()


def test_an_output_that_knows_no_greek(here: Path) -> None:
    ladder("a.csv")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    outcome = in_process_of_its_own(*SHORT, env=environment)
    assert (outcome.code, outcome.err) == (0, "")
    assert " ? %  best score" in outcome.out


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_undoes_what_is_half_done(here: Path, jobs: str) -> None:
    """The terminal sends SIGINT to the whole group, children included."""
    ladder("a.parquet", trials=64, rows=100)
    (here / "r.json").write_text("earlier")
    (here / "new").mkdir()
    (here / "new" / "kept.txt").write_text("earlier")
    before = tree(here)
    process = start(*LONG, "--jobs", jobs)
    wait_until_it_simulates(here, process)
    group = [process.pid, *children(process.pid)]
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert tree(here) == before
    # The resource tracker of multiprocessing goes a moment later.
    wait_until(lambda: not any(map(lives, group)), f"some of {group} live on")


@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGTERM, "2"), (signal.SIGHUP, "1")])
def test_being_told_to_end_undoes_it_too(here: Path, number: signal.Signals, jobs: str) -> None:
    ladder("a.parquet", trials=64, rows=100)
    before = tree(here)
    process = start(*LONG, "--jobs", jobs)
    wait_until_it_simulates(here, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (128 + number, "", "")
    assert tree(here) == before


@pytest.mark.parametrize("ignored", [True, False])
def test_a_closed_terminal_undoes_nothing_under_nohup(ignored: bool) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        undone = pytest.raises(SystemExit, match=r"^129$")
        with contextlib.nullcontext() if ignored else undone, undone_when_killed():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_process_that_is_killed_is_told(here: Path) -> None:
    """As by a machine that is out of memory."""
    ladder("a.parquet", trials=64, rows=100)
    before = tree(here)
    process = start(*LONG, "--jobs", "2")
    wait_until_it_simulates(here, process)
    (worker, *_) = [
        child
        for child in children(process.pid)
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (2, "")
    assert err == (
        f"error: process {worker} ended (exit code -9) before its run was simulated; "
        "it was killed; if memory was short, fewer jobs need less\n"
    )
    assert tree(here) == before


@pytest.mark.parametrize("forced", [{}, {"FORCE_COLOR": "1"}])
def test_no_bar_and_no_colour_without_a_terminal(here: Path, forced: dict[str, str]) -> None:
    ladder("a.csv")
    outcome = in_process_of_its_own(*SHORT, env={**os.environ, **forced})
    assert (outcome.code, outcome.err) == (0, "")
    assert "\x1b" not in outcome.out
