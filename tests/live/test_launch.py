"""Workers as real processes: started on their node, heard, their exit noticed."""

import asyncio
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest
from worker_programs import (
    CORE,
    NODE,
    PATIENCE_S,
    RUN_ID,
    Heard,
    children,
    gone,
    launch,
    open_files,
    python,
)

from simsched.live import launch as module
from simsched.live.errors import LiveError
from simsched.live.launch import Ending, WorkerProcess, describe_exit
from simsched.live.nodes import Node
from simsched.live.worker_output import CHUNK, READ_BYTES_PER_S


def test_a_worker_runs_where_and_how_it_should(tmp_path: Path) -> None:
    code = """
import os, sys
names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
         "CUDA_VISIBLE_DEVICES", "SIMSCHED_RUN", "SIMSCHED_ATTEMPT", "EXTRA")
for name in names: print(name, repr(os.environ.get(name)))
print("cores", sorted(os.sched_getaffinity(0)))
print("leader", os.getpid() == os.getpgid(0) == os.getsid(0))
print("input", sys.stdin.read() == "")
print("folder", os.getcwd())
print("words", sys.argv[1:])
"""
    heard = Heard()
    before = os.sched_getaffinity(0)

    async def run() -> Ending:
        process = launch(
            [*python(code), "$HOME; echo no shell"], heard, attempt=7,
            environment={"EXTRA": "x"}, folder=tmp_path,
        )  # fmt: skip
        assert os.sched_getaffinity(0) == before
        assert await process.wait() == 0
        assert lines_are_complete()
        return await process.end(1)

    def lines_are_complete() -> bool:
        return len(heard.lines) == 13

    ending = asyncio.run(run())
    assert heard.lines == [
        "OMP_NUM_THREADS '1'", "MKL_NUM_THREADS '1'", "OPENBLAS_NUM_THREADS '1'",
        "NUMEXPR_NUM_THREADS '1'", "CUDA_VISIBLE_DEVICES ''", f"SIMSCHED_RUN '{RUN_ID}'",
        "SIMSCHED_ATTEMPT '7'", "EXTRA 'x'", f"cores [{CORE}]", "leader True", "input True",
        f"folder {tmp_path}", "words ['$HOME; echo no shell']",
    ]  # fmt: skip
    assert (ending.exit_code, ending.terminated, ending.killed) == (0, False, False)
    assert heard.exits == [0]


def test_a_worker_on_a_gpu_sees_that_gpu_alone() -> None:
    node = Node(number=1, name="GPU 1", cores=(CORE,), gpu=1, gpu_uuid="GPU-1-2-3")
    assert module.environment_of(node)["CUDA_VISIBLE_DEVICES"] == "GPU-1-2-3"


@pytest.mark.parametrize("by_pidfd", [True, False])
@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [
        ("print('last words', end='')", 0, "it ended with exit code 0"),
        ("print('last words'); raise SystemExit(3)", 3, "it ended with exit code 3"),
        (
            "import os; print('last words', flush=True); os.kill(os.getpid(), 9)",
            -9,
            "it was killed by SIGKILL",
        ),
    ],
)
def test_the_exit_is_told_after_the_last_words(
    monkeypatch: pytest.MonkeyPatch, code: str, exit_code: int, said: str, by_pidfd: bool
) -> None:
    if not by_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    heard = Heard()
    told: list[tuple[int, list[str]]] = []

    async def run() -> None:
        process = WorkerProcess(
            python(code), NODE, run=RUN_ID, attempt=1, environment={}, hear=heard.lines.append,
            on_exit=lambda code: told.append((code, list(heard.lines))),
        )  # fmt: skip
        assert await process.wait() == exit_code
        assert process.exit_code == exit_code
        # It stays a zombie, so that nobody gets its group's number.
        assert not gone(process.pid)
        assert (await process.end(1)).exit_code == exit_code
        assert gone(process.pid)

    asyncio.run(run())
    words = [] if code.endswith("end='')") else ["last words"]
    assert told == [(exit_code, words)]
    assert heard.lines == ["last words"]
    assert describe_exit(exit_code) == said


def test_the_last_of_much_output_is_heard_before_the_exit() -> None:
    """The reader rests then, and the worker's last 64 KiB are in the pipe."""
    heard = Heard()
    told: list[str] = []

    async def run() -> None:
        process = WorkerProcess(
            python("import os\nfor k in range(2500): os.write(1, b'x' * 99 + b'\\n')"),
            NODE, run=RUN_ID, attempt=1, environment={}, hear=heard.lines.append,
            on_exit=lambda code: told.extend(heard.lines),
        )  # fmt: skip
        await process.leave(PATIENCE_S)

    asyncio.run(run())
    assert told == ["x" * 99] * 2500


def test_a_worker_that_somebody_else_reaped() -> None:
    async def run() -> Ending:
        process = launch(["true"], Heard())
        os.waitpid(process.pid, 0)
        process.reap_orphans()
        assert await process.wait() == module.UNKNOWN_EXIT
        return await process.end(5)

    ending = asyncio.run(run())
    assert (ending.exit_code, ending.terminated) == (module.UNKNOWN_EXIT, False)


def test_describing_a_signal_without_name() -> None:
    assert describe_exit(-40) == "it was killed by signal 40"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["no-such-program-anywhere", "-x"],
            "no-such-program-anywhere: cannot be started: No such",
        ),
        (["/"], "/: cannot be started: Permission denied"),
        (["true", "a\0b"], "true: cannot be started: embedded null byte"),
    ],
)
def test_what_cannot_be_started_is_told_in_a_line(argv: list[str], said: str) -> None:
    async def run() -> None:
        before = open_files(), os.sched_getaffinity(0), children()
        with pytest.raises(LiveError) as refused:
            launch(argv, Heard())
        assert str(refused.value).startswith(said)
        assert (open_files(), os.sched_getaffinity(0), children()) == before

    asyncio.run(run())


def test_a_folder_or_cores_that_are_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(LiveError, match=r"true: cannot be started in .*/absent: No such file"):
            launch(["true"], Heard(), folder=tmp_path / "absent")
        node = Node(number=0, name="core 9999", cores=(9999,))
        with pytest.raises(LiveError, match="core 9999: cores 9999 cannot be used: Invalid"):
            launch(["true"], Heard(), node)

    asyncio.run(run())


def test_a_flood_neither_stops_the_loop_nor_fills_the_memory() -> None:
    heard = Heard()
    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    turns = [(begun_s, 0)]

    async def run() -> None:
        process = launch("import os\nwhile True: os.write(1, b'x' * 99 + b'\\n')", heard)
        await heard.until(1)
        until_s = time.monotonic() + 1.5
        while turns[-1][0] < until_s:
            await asyncio.sleep(0.005)
            turns.append((time.monotonic(), 100 * len(heard.lines)))
        await process.end(0.5)

    asyncio.run(run())
    seconds = time.monotonic() - begun_s
    slack = 4 * CHUNK  # what is read at once, and what is left in the pipe
    assert 100 * len(heard.lines) < seconds * READ_BYTES_PER_S + slack
    assert {len(line) for line in heard.lines[:-1]} == {99}
    # No turn of the others has to wait for more than a turn's share of the flood.
    for (before_s, before), (after_s, after) in pairwise(turns):
        assert after - before < (after_s - before_s) * READ_BYTES_PER_S + slack
    assert time.process_time() - begun_cpu_s < seconds / 2
