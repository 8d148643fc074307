"""Workers that outlived their coordinator: killed if they are provably ours, and only then."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from worker_programs import (
    FORKS_A_CHILD,
    IGNORES_SIGTERM,
    PATIENCE_S,
    RUN_ID,
    SLEEPS,
    gone,
    lives,
    python,
)

from simsched.live import process_groups
from simsched.live.errors import LiveError
from simsched.live.launch import kill_leftover, kill_run
from simsched.live.process_groups import RUN

COORDINATOR = """
import asyncio, json, os, sys
from simsched.live.launch import WorkerProcess, adopt_orphans
from simsched.live.nodes import Node

async def run():
    adopt_orphans()
    core = min(os.sched_getaffinity(0))
    node = Node(number=0, name="core", cores=(core,))
    lines = []
    process = WorkerProcess(sys.argv[1:], node, run=os.environ["TEST_RUN"], attempt=1,
                            environment={}, hear=lines.append)
    while len(lines) < 1: await asyncio.sleep(0.01)
    print(json.dumps([process.pid, process.created, process.group, lines[0]]), flush=True)
    await asyncio.sleep(600)

asyncio.run(run())
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_groups, "LEFTOVER_PATIENCE_S", PATIENCE_S)


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes of a test, which it may kill itself."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.stdout is not None:
            process.stdout.close()
        process.kill()
        process.wait()


def start(
    started: list["subprocess.Popen[str]"], code: str, run: str | None = RUN_ID, **options: Any
) -> tuple["subprocess.Popen[str]", str]:
    """Start a leader of a session; returns it and the first line it printed."""
    environment = {name: value for name, value in os.environ.items() if name != RUN}
    process = subprocess.Popen(
        python(code), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        start_new_session=True, env=environment if run is None else {**environment, RUN: run},
        **options,
    )  # fmt: skip
    started.append(process)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def created(pid: int) -> float:
    return float(psutil.Process(pid).create_time())


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_of_a_killed_coordinator(
    started: list["subprocess.Popen[str]"], tmp_path: Path
) -> None:
    script = tmp_path / "coordinator.py"
    script.write_text(COORDINATOR)
    worker = python(
        IGNORES_SIGTERM + FORKS_A_CHILD
        + "print(child(lambda: time.sleep(120)), flush=True)\n" + SLEEPS
    )  # fmt: skip
    coordinator = subprocess.Popen(
        [sys.executable, "-P", str(script), *worker], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TEST_RUN": RUN_ID},
    )  # fmt: skip
    started.append(coordinator)
    assert coordinator.stdout is not None
    pid, when, group, child = json.loads(coordinator.stdout.readline())
    coordinator.kill()
    coordinator.wait()
    assert lives(pid)
    assert lives(int(child))
    assert kill_leftover(pid, when, group, RUN_ID) == sorted([pid, int(child)])
    assert not lives(pid)
    assert not lives(int(child))
    assert kill_leftover(pid, when, group, RUN_ID) == []


def test_a_worker_without_any_mark_is_known_by_its_creation(
    started: list["subprocess.Popen[str]"],
) -> None:
    worker, _ = start(started, "print('ready', flush=True)\n" + SLEEPS, run=None)
    when = created(worker.pid)
    assert kill_leftover(worker.pid, when + 0.9, worker.pid, RUN_ID) == [worker.pid]
    assert gone(worker.pid)


def test_another_process_that_has_the_number_now_is_spared(
    started: list["subprocess.Popen[str]"],
) -> None:
    for run in (None, "another-run"):
        other, _ = start(started, "print('ready', flush=True)\n" + SLEEPS, run)
        when = created(other.pid)
        assert kill_leftover(other.pid, when - 100, other.pid, RUN_ID) == []
        # The process is the one, but in another group: whoever wrote that down was mistaken.
        assert kill_leftover(other.pid, when, os.getpgrp(), RUN_ID) == []
        assert lives(other.pid)


def test_children_whose_leader_is_gone_are_known_by_the_run(
    started: list["subprocess.Popen[str]"],
) -> None:
    for run, ours in ((RUN_ID, True), ("another-run", False), (None, False)):
        leader, text = start(
            started,
            FORKS_A_CHILD + "print(child(lambda: time.sleep(120)), flush=True)\nos._exit(0)",
            run,
        )
        child = int(text)
        when = created(leader.pid)
        leader.wait()
        assert kill_leftover(leader.pid, when, leader.pid, RUN_ID) == ([child] if ours else [])
        assert lives(child) != ours
        if not ours:
            os.kill(child, signal.SIGKILL)
            wait_until_gone(child)


def test_of_a_group_only_marked_members_are_killed_when_the_leader_is_gone(
    started: list["subprocess.Popen[str]"],
) -> None:
    """One of the children was started without the environment: it proves nothing."""
    leader, text = start(
        started,
        "import os, subprocess\n"
        "marked = subprocess.Popen(['sleep', '120'])\n"
        "bare = subprocess.Popen(['sleep', '120'], env={'PATH': os.environ['PATH']})\n"
        "print(marked.pid, bare.pid, flush=True)\nos._exit(0)",
    )
    marked, bare = map(int, text.split())
    leader.wait()
    assert kill_leftover(leader.pid, 0.0, leader.pid, RUN_ID) == [marked]
    assert lives(bare)
    os.kill(bare, signal.SIGKILL)
    wait_until_gone(bare)


def test_all_of_a_run_is_found_wherever_it_went(started: list["subprocess.Popen[str]"]) -> None:
    run = f"all-of-{RUN_ID}"
    leader, text = start(
        started,
        FORKS_A_CHILD
        + "print(child(lambda: (os.setsid(), time.sleep(120))), flush=True)\n" + SLEEPS,
        run,
    )  # fmt: skip
    other, _ = start(started, "print('ready', flush=True)\n" + SLEEPS, "another-run")
    assert kill_run(run) == sorted([leader.pid, int(text)])
    assert lives(other.pid)
    assert kill_run(run) == []


def test_this_process_and_its_parents_are_spared(started: list["subprocess.Popen[str]"]) -> None:
    """A coordinator that was started with its own run's mark, by a process that has it too."""
    nested = f"nested-{RUN_ID}"
    code = (
        "import subprocess, sys\n"
        "print('ready', flush=True)\n"
        "sys.exit(subprocess.run([sys.executable, '-P', '-c', "
        f"'from simsched.live.launch import kill_run; print(kill_run(\"{nested}\"))']).returncode)"
    )
    leader, _ = start(started, code, nested)
    assert leader.stdout is not None
    assert leader.stdout.read().strip() == "[]"
    assert leader.wait() == 0


def test_what_cannot_be_killed_is_told(
    started: list["subprocess.Popen[str]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_groups, "LEFTOVER_PATIENCE_S", 0.1)
    monkeypatch.setattr(process_groups, "_kill", lambda pid, prove: False)
    worker, _ = start(started, "print('ready', flush=True)\n" + SLEEPS)
    with pytest.raises(LiveError, match=f"processes {worker.pid} of an earlier run cannot be"):
        kill_leftover(worker.pid, 0.0, worker.pid, RUN_ID)


def test_without_pidfd_too(
    started: list["subprocess.Popen[str]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    worker, _ = start(started, "print('ready', flush=True)\n" + SLEEPS)
    assert kill_leftover(worker.pid, 0.0, worker.pid, RUN_ID) == [worker.pid]
