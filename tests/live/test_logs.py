"""The logs of a run: whole lines of many processes in one file, and in one for each trial."""

import logging
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest

from simsched.live.log_files import MISSING, LogFiles
from simsched.live.logs import Channel, RunLog, log_through

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4} "
    r"(?P<level>[A-Z]+) +node=(?P<node>\d+|-) trial=(?P<trial>\d+|-) attempt=(?P<attempt>\d+|-) "
    r"(?P<text>[^\n]*)\n"
)
MANY = 300

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def read(path: Path) -> list[tuple[str, ...]]:
    """The lines of a file: level, node, trial, attempt, text. Each must be a whole one."""
    with path.open(newline="\n") as file:
        matches = [LINE.fullmatch(line) for line in file]
    found = [match.groups() for match in matches if match is not None]
    assert len(found) == len(matches), [k for k, match in enumerate(matches) if match is None]
    return found


def run_log(folder: Path) -> list[tuple[str, ...]]:
    return read(folder / "run.log")


def worker_log(folder: Path, trial: int) -> list[tuple[str, ...]]:
    return read(folder / "trials" / f"{trial:04d}" / "worker.log")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RunLog]:
    with RunLog(tmp_path) as log:
        yield log


def test_every_line_says_what_it_is_about(log: RunLog, tmp_path: Path) -> None:
    log.worker_line(0, 3, 7, "episode 1: 12.5")
    log.event(logging.WARNING, "100 % silent", node=0, trial=3, attempt=7)
    log.event(logging.INFO, "search begins")
    log.event(logging.ERROR, "out of service", node=1)
    logging.getLogger("simsched.live.launch").info("%d of %d", 1, 2, extra={"trial": 3})
    assert run_log(tmp_path) == [
        ("OUTPUT", "0", "3", "7", "episode 1: 12.5"),
        ("WARNING", "0", "3", "7", "100 % silent"),
        ("INFO", "-", "-", "-", "search begins"),
        ("ERROR", "1", "-", "-", "out of service"),
        ("INFO", "-", "3", "-", "1 of 2"),
    ]
    assert worker_log(tmp_path, 3) == [
        ("OUTPUT", "0", "3", "7", "episode 1: 12.5"),
        ("WARNING", "0", "3", "7", "100 % silent"),
        ("INFO", "-", "3", "-", "1 of 2"),
    ]


def test_the_time_is_right(log: RunLog, tmp_path: Path) -> None:
    from datetime import datetime

    before = time.time()
    log.event(logging.INFO, "now")
    stamp = (tmp_path / "run.log").read_text().split()[0]
    assert before - 0.002 <= datetime.fromisoformat(stamp).timestamp() <= time.time()


def test_lines_of_all_loggers_and_their_tracebacks_are_whole(log: RunLog, tmp_path: Path) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("asyncio").exception("not retrieved")
    logging.getLogger("simsched.x").debug("not this")
    logging.getLogger("another").info("nor this")
    lines = run_log(tmp_path)
    assert {line[0] for line in lines} == {"ERROR"}
    texts = [line[-1] for line in lines]
    assert texts[:2] == ["not retrieved", "Traceback (most recent call last):"]
    assert texts[-2:] == ["ValueError: two", "lines"]


def test_a_record_whose_arguments_do_not_fit_is_not_lost(tmp_path: Path) -> None:
    files = LogFiles(tmp_path, 1000)
    files.handle(logging.LogRecord("x", logging.INFO, "", 0, "%s and %s", ("one",), None))
    files.finish()
    (line,) = run_log(tmp_path)
    assert (
        line[-1] == "'%s and %s' (its arguments do not fit: not enough arguments for format string)"
    )


def test_what_a_worker_prints_can_neither_break_lines_nor_command_a_terminal(
    log: RunLog, tmp_path: Path
) -> None:
    log.worker_line(0, 0, 1, "\x1b[2Jtab\there\r\x00\x85\u2028end \ud800 é€")
    log.event(logging.INFO, "")
    (output, empty) = run_log(tmp_path)
    assert output[-1] == "\\x1b[2Jtab\there\\x0d\\x00\\x85\\u2028end \\ud800 é€"
    assert empty[-1] == ""


def test_outside_of_the_context_nothing_is_taken(tmp_path: Path) -> None:
    logger = logging.getLogger("simsched")
    before = logger.level, list(logging.getLogger().handlers)
    log = RunLog(tmp_path)
    with pytest.raises(RuntimeError, match="use the log as a context"):
        _ = log.channel
    with log:
        assert logger.isEnabledFor(logging.INFO)
    assert (logger.level, logging.getLogger().handlers) == before
    logging.getLogger("simsched.x").error("after the end")
    assert not log.worker_line(0, 0, 0, "after the end")
    log.event(logging.INFO, "after the end", trial=1)
    assert run_log(tmp_path) == []
    assert not (tmp_path / "trials" / "0001").exists()
    log.close()


def test_output_is_bounded_for_each_trial_and_stays_so_after_a_restart(tmp_path: Path) -> None:
    line = "x" * 900
    with RunLog(tmp_path, output_bytes=100_000) as log:
        answers = [log.worker_line(0, 1, attempt, line) for attempt in range(300)]
        written = answers.index(False) + 1
        assert not any(answers[written:])
        assert log.worker_line(1, 2, 301, "another trial is heard")
        log.event(logging.ERROR, "and what simsched says of it", trial=1)
    with RunLog(tmp_path, output_bytes=100_000) as log:
        assert not log.worker_line(0, 1, 400, line)
    lines = worker_log(tmp_path, 1)
    assert [text for *_, text in lines[:written]] == [line] * written
    assert [text for *_, text in lines[written:]] == [
        "This trial has printed 0.0954 MiB; the rest of its output is dropped.",
        "and what simsched says of it",
    ]
    assert 100_000 <= (tmp_path / "trials/0001/worker.log").stat().st_size < 102_000
    assert Counter(trial for _, _, trial, _, _ in run_log(tmp_path)) == {"1": written + 2, "2": 1}


def test_more_trials_than_files_can_be_open(
    log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simsched.live.log_files.OPEN_FILES", 4)
    before = len(os.listdir("/proc/self/fd"))
    for turn in range(2):
        for trial in range(20):
            log.worker_line(0, trial, turn, f"turn {turn}")
    assert len(os.listdir("/proc/self/fd")) <= before + 4
    for trial in range(20):
        assert [text for *_, text in worker_log(tmp_path, trial)] == ["turn 0", "turn 1"]


def test_a_line_that_a_death_cut_off_is_ended(tmp_path: Path) -> None:
    with RunLog(tmp_path) as log:
        log.event(logging.INFO, "first")
    with (tmp_path / "run.log").open("a") as file:
        file.write("2026-11-21T17:12:03.123+0100 INFO    node=- trial=- attempt=- sec")
    with RunLog(tmp_path) as log:
        log.event(logging.INFO, "third")
    assert [text for *_, text in run_log(tmp_path)] == ["first", "sec [cut off]", "third"]


def test_a_full_disk_loses_lines_but_stops_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk; lines are not torn by it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with RunLog(tmp_path) as log:
            log.event(logging.INFO, "before")
            resource.setrlimit(resource.RLIMIT_FSIZE, (400, limits[1]))
            for _ in range(10):
                log.worker_line(0, 0, 0, "x" * 100)
            log.event(logging.INFO, "lost\ntoo")
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            log.event(logging.INFO, "after", trial=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    texts = [text for *_, text in run_log(tmp_path)]
    kept = texts.count("x" * 100)
    assert texts == [
        "before", *["x" * 100] * kept, MISSING.format(12 - kept, "File too large"), "after",
    ]  # fmt: skip
    assert kept == 2
    assert [text for *_, text in worker_log(tmp_path, 0)][-1] == "after"


def test_a_trial_s_folder_that_cannot_be_made(log: RunLog, tmp_path: Path) -> None:
    (tmp_path / "trials").write_text("in the way")
    assert log.worker_line(0, 0, 0, "still in the run's")
    assert run_log(tmp_path)[0][-1] == "still in the run's"


def talk(name: str) -> None:
    """Log many lines, some of them long, as fast as possible."""
    logger = logging.getLogger("simsched.test")
    for number in range(MANY):
        text = f"{name} {number} {'long ' * 2000 if number % 50 == 0 else ''}."
        logger.info(text, extra={"node": 1, "trial": 2, "attempt": 3})


def talk_through(channel: Channel, name: str) -> None:
    with log_through(channel):
        talk(name)


def until_it_has(path: Path, lines: int) -> None:
    """Wait until so many lines are in a file: a busy machine takes its time."""
    deadline_s = time.monotonic() + 300
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def check_all_said(lines: list[tuple[str, ...]], names: list[str]) -> None:
    """Every line of every speaker is there, once, in its order."""
    said: dict[str, list[int]] = {name: [] for name in names}
    for *_, text in lines:
        name, number, *_, end = text.split()
        assert end == "."
        said[name].append(int(number))
    assert said == {name: list(range(MANY)) for name in names}


def test_children_of_both_kinds_write_whole_lines_at_once(tmp_path: Path) -> None:
    fork: BaseContext = multiprocessing.get_context("fork")
    spawn: BaseContext = multiprocessing.get_context("spawn")
    with RunLog(tmp_path) as log:
        children = [
            *(fork.Process(target=talk, args=(f"forked-{k}",)) for k in range(2)),  # type: ignore[attr-defined]
            *(
                spawn.Process(target=talk_through, args=(log.channel, f"spawned-{k}"))  # type: ignore[attr-defined]
                for k in range(2)
            ),
        ]
        for child in children:
            child.start()
        talk("coordinator")
        for number in range(MANY):
            log.worker_line(1, 2, 3, f"worker {number} .")
        for child in children:
            child.join(300)
            assert child.exitcode == 0
        until_it_has(tmp_path / "run.log", 6 * MANY)  # to close it would not wait for ever
    names = ["coordinator", "worker", "forked-0", "forked-1", "spawned-0", "spawned-1"]
    check_all_said(run_log(tmp_path), names)
    check_all_said(worker_log(tmp_path, 2), names)
    assert {line[1:4] for line in run_log(tmp_path)} == {("1", "2", "3")}


def test_two_processes_with_a_log_each_on_one_folder_write_whole_lines(tmp_path: Path) -> None:
    """Not how it is meant, but a coordinator may die slowly while the next one begins."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom simsched.live.logs import RunLog\n"
        "with RunLog(Path(sys.argv[1])) as log:\n"
        f"    for number in range({MANY}):\n"
        "        log.worker_line(1, 2, 3, f'{sys.argv[2]} {number} {\"long \" * 3000} .')\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-P", "-c", code, str(tmp_path), name])
        for name in ("one", "two")
    ]
    assert [process.wait(300) for process in processes] == [0, 0]
    check_all_said(run_log(tmp_path), ["one", "two"])


def speak_and_stay() -> None:
    logging.getLogger("simsched.test").info("heard")
    time.sleep(600)


def test_a_killed_child_does_not_keep_the_log_from_closing(tmp_path: Path) -> None:
    with RunLog(tmp_path) as log:
        child = multiprocessing.get_context("fork").Process(target=speak_and_stay)
        child.start()
        until_it_has(tmp_path / "run.log", 1)
        child.kill()
        child.join()
        log.event(logging.INFO, "after it")
        begun = time.monotonic()
    assert child.exitcode == -signal.SIGKILL
    assert time.monotonic() - begun < 60
    assert sorted(text for *_, text in run_log(tmp_path)) == ["after it", "heard"]


def test_own_lines_are_in_the_file_at_once(tmp_path: Path) -> None:
    """Nothing is buffered: what was logged is there after a kill."""
    code = (
        "import logging, os, sys\nfrom pathlib import Path\nfrom simsched.live.logs import RunLog\n"
        "with RunLog(Path(sys.argv[1])) as log:\n"
        "    logging.getLogger('simsched.x').warning('last')\n"
        "    log.worker_line(0, 1, 2, 'words')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [text for *_, text in run_log(tmp_path)] == ["last", "words"]


def test_lines_are_written_fast_enough(tmp_path: Path) -> None:
    """64 workers may print 100 lines a second each for a tenth of a core."""
    files = LogFiles(tmp_path, 1 << 30)
    spent_s = []  # others on the core cost processor time, too: the least of many counts
    for _ in range(10):
        begun = time.thread_time()
        for number in range(512):
            files.output(number % 64, number % 64, 1, "a line of an ordinary length, as they are")
        spent_s.append(time.thread_time() - begun)
    files.finish()
    assert min(spent_s) / 512 < 100e-6
