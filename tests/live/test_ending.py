"""Workers as real processes: ended with everything they started, whatever that does."""

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Iterator

import pytest
from worker_programs import (
    FORKS_A_CHILD,
    IGNORES_SIGTERM,
    PATIENCE_S,
    SLEEPS,
    Heard,
    children,
    gone,
    launch,
    lives,
    open_files,
    until,
)

from simsched.live import launch as module
from simsched.live import process_groups
from simsched.live.errors import LiveError
from simsched.live.launch import Ending, WorkerProcess, adopt_orphans


@pytest.fixture
def subreaper() -> Iterator[None]:
    """This process adopts orphans, as a coordinator does."""
    assert adopt_orphans()
    yield
    assert ctypes.CDLL(None).prctl(process_groups.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def test_sigterm_is_enough_for_a_polite_worker() -> None:
    heard = Heard()

    async def run() -> Ending:
        process = launch(
            "import os, signal, sys, time\n"
            "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'saved'), sys.exit(5)))\n"
            "print('ready', flush=True)\ntime.sleep(120)",
            heard,
        )
        await heard.until(1)
        return await process.end(PATIENCE_S)

    ending = asyncio.run(run())
    assert (ending.exit_code, ending.terminated, ending.killed) == (5, True, False)
    assert heard.lines == ["ready", "saved"]
    assert ending.seconds < PATIENCE_S


def test_a_stopped_worker_hears_sigterm() -> None:
    """One that wants to hear it: without a handler the system ends it, stopped or not."""
    heard = Heard()

    async def run() -> Ending:
        process = launch(
            "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
            "print('ready', flush=True)\n" + SLEEPS,
            heard,
        )
        await heard.until(1)
        os.kill(process.pid, signal.SIGSTOP)
        return await process.end(PATIENCE_S)

    ending = asyncio.run(run())
    assert (ending.exit_code, ending.killed) == (5, False)


def test_a_worker_and_its_children_that_ignore_sigterm_are_killed(subreaper: None) -> None:
    heard = Heard()

    async def run() -> tuple[WorkerProcess, Ending]:
        process = launch(
            IGNORES_SIGTERM + FORKS_A_CHILD
            + "for k in range(3): print(child(lambda: time.sleep(120)), flush=True)\n" + SLEEPS,
            heard,
        )  # fmt: skip
        await heard.until(3)
        return process, await process.end(0.3)

    before = children()
    process, ending = asyncio.run(run())
    assert (ending.exit_code, ending.terminated, ending.killed) == (-9, True, True)
    pids = {process.pid, *map(int, heard.lines)}
    assert len(pids) == 4
    assert set(ending.pids) == pids
    assert all(map(gone, pids))  # not even zombies
    assert children() == before
    assert ending.seconds >= 0.3


def test_a_child_outlives_its_leader_and_holds_the_node() -> None:
    heard = Heard()

    async def run() -> tuple[int, Ending]:
        process = launch(
            IGNORES_SIGTERM + FORKS_A_CHILD
            + "print(child(lambda: time.sleep(120)), flush=True)\nos._exit(0)",
            heard,
        )  # fmt: skip
        assert await process.wait() == 0
        child = await heard.pid()
        assert lives(child)
        assert os.getpgid(child) == process.group
        ending = asyncio.ensure_future(process.end(0.4))
        await asyncio.sleep(0.2)
        assert not ending.done()  # the leader is gone, but the node is not free
        return child, await ending

    child, ending = asyncio.run(run())
    assert not lives(child)
    assert (ending.exit_code, ending.terminated, ending.killed) == (0, True, True)
    assert child in ending.pids


def test_what_leaves_the_group_is_found_by_its_environment(subreaper: None) -> None:
    """A daemon: forks twice, in a session of its own. Its own child is found after it."""
    heard = Heard()

    async def run() -> tuple[WorkerProcess, Ending]:
        process = launch(
            FORKS_A_CHILD + "def daemon():\n"
            "    os.setsid()\n"
            "    print(child(lambda: time.sleep(120)), flush=True)\n"
            "    print(child(lambda: (os.setsid(), print(child(lambda: time.sleep(120)),"
            " flush=True), time.sleep(120))), flush=True)\n"
            "os.waitpid(child(daemon), 0)\n"
            "print(0, flush=True)\n" + SLEEPS,
            heard,
        )
        bystander = await asyncio.create_subprocess_exec("sleep", "120", start_new_session=True)
        await heard.until(4)
        ending = await process.end(PATIENCE_S)
        assert bystander.returncode is None
        assert lives(bystander.pid)
        bystander.kill()
        await bystander.wait()
        return process, ending

    process, ending = asyncio.run(run())
    strays = set(map(int, heard.lines)) - {0}
    assert set(ending.strays) == strays
    assert strays <= set(ending.pids)
    assert not ending.killed  # the worker itself went at SIGTERM
    assert all(map(gone, strays))
    assert gone(process.pid)


def test_orphans_are_reaped_while_the_worker_runs(subreaper: None) -> None:
    heard = Heard()

    async def run() -> None:
        process = launch(
            FORKS_A_CHILD + "middle = child(lambda: print(child(lambda: None), flush=True))\n"
            "os.waitpid(middle, 0)\n" + SLEEPS,
            heard,
        )
        orphan = await heard.pid()
        await until(lambda: not lives(orphan))
        await until(lambda: not process.reap_orphans() and gone(orphan))  # type: ignore[func-returns-value]
        assert process.exit_code is None
        await process.end(PATIENCE_S)
        process.reap_orphans()

    asyncio.run(run())


def test_a_chain_of_processes_cannot_run_away(subreaper: None) -> None:
    """Each forks the next and ends, so that whoever looks sees one that is just going."""
    heard = Heard()

    async def run() -> WorkerProcess:
        process = launch(
            IGNORES_SIGTERM + "import os, time\nprint('ready', flush=True)\n"
            "while os.fork() == 0: time.sleep(0.0005)\n"
            "os._exit(0)",
            heard,
        )
        await heard.until(1)
        await process.wait()
        await process.end(0.1)
        return process

    process = asyncio.run(run())
    assert process_groups.members(process.group) == process_groups.Members((), ())
    time.sleep(0.05)
    assert process_groups.members(process.group).alive == ()


def test_leaving_is_waited_for_and_then_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[Ending, Ending]:
        first, second = Heard(), Heard()
        leaves = launch("import time; time.sleep(0.2)", first)
        stays = launch("print('ready', flush=True)\n" + SLEEPS, second)
        await second.until(1)
        end = stays.end
        monkeypatch.setattr(stays, "end", lambda grace_s: end(PATIENCE_S))  # as slow as it may be
        return await leaves.leave(PATIENCE_S), await stays.leave(0.2)

    left, stayed = asyncio.run(run())
    assert (left.exit_code, left.terminated) == (0, False)
    assert (stayed.exit_code, stayed.terminated, stayed.killed) == (-15, True, False)


def test_killing_now_hastens_the_end_and_all_wait_for_the_same_one() -> None:
    heard = Heard()

    async def run() -> list[Ending]:
        process = launch(IGNORES_SIGTERM + "print('ready', flush=True)\n" + SLEEPS, heard)
        await heard.until(1)
        first = asyncio.ensure_future(process.end(600))
        cancelled = asyncio.ensure_future(process.end(600))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        second = asyncio.ensure_future(process.end(0))
        process.kill_now()
        endings = [await first, await second, await process.end(0)]
        process.kill_now()  # nobody's group any more: nothing is signalled
        return endings

    endings = asyncio.run(run())
    assert endings[0] == endings[1] == endings[2]
    assert endings[0].exit_code == -9
    assert endings[0].killed
    assert heard.exits == [-9]


def test_what_does_not_die_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that the system keeps, waiting for a dead disk."""
    monkeypatch.setattr(module, "KILL_PATIENCE_S", 0.3)
    kept: list[int] = [4242]
    real = process_groups.members

    def members(group: int) -> process_groups.Members:
        found = real(group)
        return process_groups.Members((*found.alive, *kept), found.zombies)

    monkeypatch.setattr(process_groups, "members", members)

    async def run() -> None:
        process = launch("pass", Heard(), attempt=3)
        await process.wait()
        with pytest.raises(LiveError, match=r"core \d+: processes 4242 of attempt 3 do not die of"):
            await process.end(0.1)
        kept.clear()  # the disk is back
        assert (await process.end(0.1)).exit_code == 0

    asyncio.run(run())


def test_nothing_is_left_open_after_many_workers(subreaper: None) -> None:
    async def run() -> None:
        await (launch(["true"], Heard())).end(5)
        before = open_files(), children()
        for _ in range(5):
            many = [launch(["echo", "x"], Heard()) for _ in range(8)]
            for ending in await asyncio.gather(*(process.leave(PATIENCE_S) for process in many)):
                assert (ending.exit_code, ending.terminated) == (0, False)
        assert (open_files(), children()) == before

    asyncio.run(run())
    assert module._leaders == set()
