"""GA3C as a trial in a process of its own: beats, scalars, failures, ends."""

import json
import os
import signal
import socket
import statistics
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trial_driver import (  # noqa: E402
    A3C,
    OVERLAPPED,
    PATIENCE_S,
    TRAINING,
    Running,
    in_a_process,
    in_a_thread,
    source,
    welcome,
)

from simsched.live import ga3c_trial  # noqa: E402
from simsched.live.channel import Channel, Gone  # noqa: E402
from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.agents import AgentGroup  # noqa: E402
from simsched.live.ga3c_trial import trial_settings  # noqa: E402
from simsched.live.protocol import (  # noqa: E402
    Beat,
    Failed,
    Reached,
    Stop,
    Train,
)

pytestmark = pytest.mark.torch


def test_beats_come_from_the_thread_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs falls silent. By a clock on which each step takes a 64th of a second."""
    hang, hangs, go_on = threading.Event(), threading.Event(), threading.Event()
    step, clock = AgentGroup.step, SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def hanging(group: AgentGroup, predictor: Any) -> Any:
        if hang.is_set():
            hangs.set()
            go_on.wait(PATIENCE_S)
        clock.now += 1 / 64
        return step(group, predictor)

    monkeypatch.setattr(AgentGroup, "step", hanging)
    monkeypatch.setattr(ga3c_trial, "time", clock)
    with in_a_thread(welcome(tmp_path, until=10**9, heartbeat_s=1 / 8)) as trial:
        steps = [trial.expect(Beat).steps for _ in range(5)]
        # Twice in each heartbeat: after four steps of all agents.
        assert {b - a for a, b in pairwise(steps)} == {4 * TRAINING["agents"]}
        hang.set()
        assert hangs.wait(PATIENCE_S)
        heard = trial.drain(0.5)
        assert heard == sorted(set(heard))
        assert trial.drain(1.0) == []  # 20 beats by this machine's clock
        hang.clear()
        go_on.set()
        assert trial.expect(Beat).steps > steps[-1]
        trial.send(Stop())
        trial.ends()


def test_scalars_of_a_trial_go_to_its_folder(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with in_a_thread(welcome(tmp_path, tensorboard=True)) as trial:
        trial.expect(Reached)
        trial.send(Stop())
        trial.ends()
    events = accumulators.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"speed/steps_per_s", "episode/score", "train/entropy"} <= set(events.Tags()["scalars"])
    assert events.Scalars("speed/steps_per_s")[-1].step >= 1000


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"game": "CartPole-v9"}, "game: 'CartPole-v9' is unknown, did you mean"),
        ({"hparams": {"learning_rite": 1e-3}}, "learning_rite: is no setting of GA3C (did you"),
        ({"hparams": {"learning_rate": "high"}}, "learning_rate: Expected `float`, got `str`"),
        ({"hparams": {"learning_rate": -1.0}}, "learning_rate: -1.0 must be a finite number"),
        ({"training": {"algorithm": "a2c", "vtrace": True}}, "vtrace: a2c has no lag to correct"),
        ({"source": source(Path("none"), {})}, "none: not a readable checkpoint: FileNotFound"),
        ({"source": source(Path("none"), {"window": {"rows": 5}})}, "what was kept beside the"),
    ],
)
def test_what_cannot_be_trained_is_one_line(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with in_a_thread(welcome(tmp_path, **changes)) as trial:
        trial.ends()
    assert isinstance(trial.error, LiveError)
    assert str(trial.error).startswith(reason)
    assert "\n" not in str(trial.error)


def test_a_process_says_why_it_fails_and_ends(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"nothing")
    told = welcome(tmp_path, source=source(tmp_path / "c", {}))
    with in_a_process(tmp_path, told) as trial:
        failed = trial.expect(Failed)
        assert failed.reason.startswith(f"{tmp_path}/c: not a readable checkpoint: ")
        trial.ends()
        _, said = trial.process.communicate(timeout=PATIENCE_S)
        assert trial.process.returncode == 1
        assert said.rstrip().endswith(failed.reason)
        assert "Traceback" in said


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("end", "code", "training"),
    [("stop", 0, A3C), ("end of file", 0, TRAINING), ("SIGTERM", -signal.SIGTERM, A3C)],
    ids=["stop", "end of file", "SIGTERM"],
)
def test_how_a_process_ends_and_that_its_own_go_with_it(
    end: str, code: int, training: dict[str, Any], tmp_path: Path
) -> None:
    """With A3C, whose agents are processes: the hardest to get rid of."""
    with in_a_process(tmp_path, welcome(tmp_path, until=10**9, training=training)) as trial:
        trial.expect(Beat)
        agents = children(trial.process.pid)
        assert len(agents) >= 2 * (training is A3C)
        os.killpg(trial.process.pid, signal.SIGINT)  # Ctrl-C is the coordinator's
        trial.expect(Beat)
        trial.expect(Beat)
        if end == "stop":
            trial.send(Stop())
        elif end == "SIGTERM":
            trial.process.terminate()
        else:
            trial.connection.shutdown(socket.SHUT_RDWR)
        _, said = trial.process.communicate(timeout=PATIENCE_S)
        assert trial.process.returncode == code
        assert "Traceback" not in said
        wait_until_gone(agents)


def test_started_by_nobody_it_says_what_starts_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from simsched.live.ga3c_trial import run

    monkeypatch.delenv("SIMSCHED_SOCKET", raising=False)
    assert run() == 2
    assert capsys.readouterr().err == (
        "error: SIMSCHED_SOCKET is not set: `simsched live` starts this program\n"
    )
    monkeypatch.setenv("SIMSCHED_SOCKET", str(tmp_path / "none"))
    monkeypatch.setenv("SIMSCHED_TOKEN", "secret")
    assert run() == 2
    assert "none: no coordinator is there: No such file" in capsys.readouterr().err


def test_messages_come_whole_however_they_are_cut() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    with ours, theirs:
        assert channel.receive(0) is None
        line = b'{"type":"train","until":5}\n'
        for cut in range(1, len(line)):
            ours.sendall(line[:cut])
            assert channel.receive(0) is None
            ours.sendall(line[cut:] + line + line)
            assert [channel.receive(0) for _ in range(3)] == [Train(5)] * 3
            assert channel.receive(0) is None
        for garbage in (b"nonsense\n", b'{"type":"fly"}\n', b'{"type":"train"}\n', b"\xff\n"):
            ours.sendall(garbage + line)
            with pytest.raises(LiveError, match=r"^the coordinator sent b'"):
                channel.receive(0)
            assert channel.receive(0) == Train(5)
        start = time.monotonic()
        assert channel.receive(0.1) is None
        assert time.monotonic() - start > 0.09
        ours.sendall(line[:5])
        ours.close()
        with pytest.raises(Gone):
            channel.receive()
        with pytest.raises(Gone):
            channel.send(Beat())


def test_settings_of_a_trial_are_the_searchs_and_its_own() -> None:
    shared = {"game": "Pong", "training": {"agents": 8, "gamma": 0.9}, "tensorboard": True}
    made = trial_settings(shared, {"gamma": 0.99}, seed=4, trial=2)
    assert (made.game, made.agents, made.gamma, made.seed, made.trial) == ("Pong", 8, 0.99, 4, 2)
    with pytest.raises(LiveError, match="missing required field `game`"):
        trial_settings({}, {}, seed=0, trial=0)


HAND_OVER = """
import json, os, sys, time
import simsched.live.ga3c_trial as program
from simsched.live.ga3c.agents import AgentGroup
from simsched.live.protocol import Reached

told, gaps = [], []
send, step, leave = program.Channel.send, AgentGroup.step, os._exit

def spied_send(channel, *messages):
    if any(isinstance(message, Reached) for message in messages):
        told[:] = [time.perf_counter()]
    send(channel, *messages)

def spied_step(group, predictor):
    if told:
        gaps.append(time.perf_counter() - told.pop())
    return step(group, predictor)

def spied_exit(code):
    with open("gaps.json", "w") as file:
        json.dump(gaps, file)
    leave(code)

program.Channel.send, AgentGroup.step, os._exit = spied_send, spied_step, spied_exit
program.main()
"""


@pytest.mark.long
@pytest.mark.parametrize("training", [TRAINING, OVERLAPPED], ids=["turns", "overlapped"])
def test_a_hand_over_costs_little(training: dict[str, Any], tmp_path: Path) -> None:
    """From the report to the next training step: less than 5 ms in the median.

    The coordinator here answers at once; what its journal costs comes on top.
    """
    program = [sys.executable, "-c", HAND_OVER]
    # It learns next to nothing, so that no episode becomes so long that it spans milestones.
    hparams = {"learning_rate": 1e-7, "gamma": 0.99, "t_max": 5}
    told = welcome(tmp_path, until=400, training=training, hparams=hparams)
    with in_a_process(tmp_path, told, command=program) as trial:
        for k in range(300):
            trial.expect(Reached)
            trial.send(Train(400 * (k + 2)))
        trial.expect(Reached)
        trial.send(Stop())
        trial.ends()
        assert trial.process.wait(PATIENCE_S) == 0
    gaps = json.loads((tmp_path / "gaps.json").read_text())
    assert len(gaps) >= 200
    assert statistics.median(gaps) < 0.005, sorted(gaps)


def test_the_driver_sees_what_a_trial_raises(tmp_path: Path) -> None:
    """So that no other test here passes because its trial died unseen."""
    with in_a_thread(welcome(tmp_path)) as trial:
        trial.expect(Reached)
        trial.connection.sendall(b"nonsense\n")
        trial.ends()
    assert isinstance(trial, Running)
    assert isinstance(trial.error, LiveError)
