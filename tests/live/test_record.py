"""Recording, interrupted in every way, by the command itself."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch")

from stopped_trial import run_and_stop

from simsched.live import record as recorder
from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import PRESETS
from simsched.live.parts import Line, TrialLog, folder_lock, read_lines, rows_path
from simsched.live.plan import Plan, make_plan, read_plan
from simsched.live.training import Progress
from simsched.live.trial_process import Failure
from simsched.traces import TraceSet, read

pytestmark = pytest.mark.torch

STEPS = 120_000
"""So many that it is caught before its end, on a machine however busy."""


def command(out: Path, *, trials: int = 1, steps: int = STEPS) -> list[str]:
    options = f"--game CartPole-v1 --trials {trials} --steps {steps} --agents 8 --seed 3".split()
    code = "from simsched.cli import main; main()"
    return [sys.executable, "-P", "-c", code, "record", *options, "--out", str(out)]


def wait_until(condition: object, limit_s: float = 300.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check_file(out: Path, trials: int, steps: int = STEPS) -> TraceSet:
    """The rules of the trace format, on what was recorded."""
    traces = read(out)
    assert [trace.trial for trace in traces.traces] == list(range(trials))
    for trace in traces.traces:
        assert trace.end == "complete"
        assert trace.steps[-1] == steps
        assert np.isnan(trace.score[-1])
        assert not np.isnan(trace.score[:-1]).any()
        np.testing.assert_array_equal(trace.episodes[:-1], np.arange(1, len(trace)))
        assert trace.episodes[-1] == len(trace) - 1
        assert (np.diff(trace.steps) >= 0).all()
        assert (np.diff(trace.seconds) >= 0).all()
        # CartPole pays 1 a step, and each interruption loses 8 episodes in flight at most.
        assert 0 <= steps - np.nansum(trace.score) <= 3 * 8 * 500
    return traces


def test_killed_torn_and_interrupted_it_still_gives_a_whole_file(tmp_path: Path) -> None:
    out = tmp_path / "curves.parquet"
    parts = recorder.parts_folder(out)
    rows = rows_path(parts, 0)
    checkpoint = parts / "trial-0000.pt"

    # kill -9 of the recorder alone: its worker notices, and ends.
    with subprocess.Popen(command(out), stderr=subprocess.PIPE) as killed:
        wait_until(checkpoint.exists)
        killed.kill()
    with rows.open("ab") as torn:
        fcntl.flock(torn, fcntl.LOCK_EX)  # once the worker is gone too
        torn.write(b'{"seconds":1.5,"ste')

    # Ctrl-C goes to the whole group, as a terminal sends it.
    with subprocess.Popen(
        command(out), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as interrupted:
        before = checkpoint.stat().st_mtime_ns
        wait_until(lambda: interrupted.poll() is not None or checkpoint.stat().st_mtime_ns > before)
        os.killpg(interrupted.pid, signal.SIGINT)
        _, said = interrupted.communicate(timeout=300)
    assert interrupted.returncode == 130, said
    assert "Interrupted. 0 of 1 trials are finished" in said
    assert "the same command goes on" in said
    assert "Traceback" not in said
    assert not out.exists()
    assert checkpoint.exists()

    other = subprocess.run(command(out, trials=2), capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert other.stderr.startswith("error: ")
    assert "trials is 1 there and 2 here" in other.stderr
    assert other.stderr.count("\n") == 1

    done = subprocess.run(command(out), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"trial 0: complete, {STEPS:,} steps" in done.stderr
    traces = check_file(out, 1)
    assert traces.meta.game == "CartPole-v1"
    assert traces.meta.ends == {"0": "complete"}
    assert traces.meta.seed == 3
    assert traces.meta.space is not None
    assert set(traces.meta.space) == set(traces.traces[0].hparams)
    assert "3 session(s)" in traces.meta.recorded_by
    assert {"torch", "ale-py", "python"} <= set(traces.meta.versions)
    assert os.uname().nodename not in repr(traces.meta)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["curves.parquet"]

    # The finished recording is known again; a changed file is somebody else's.
    assert run(small_plan(steps=STEPS), out) == []
    with out.open("ab") as changed:
        changed.write(b"x")
    with pytest.raises(LiveError, match="exists and is not this recording's"):
        run(small_plan(steps=STEPS), out)


def small_plan(trials: int = 1, steps: int = 2_000) -> Plan:
    return make_plan(
        "CartPole-v1",
        trials=trials,
        steps=steps,
        seed=3,
        training={**PRESETS["repeatable"], "agents": 8},
    )


def run(plan: Plan, out: Path) -> list[Progress | Failure]:
    heard: list[Progress | Failure] = []
    recorder.record(plan, out, cores=1, listener=heard.append)
    return heard


def test_a_worker_that_is_killed_is_noticed_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "curves.parquet"
    plan = small_plan(trials=2, steps=2_000)
    heard: list[Progress | Failure] = []
    pids: list[int] = []

    def listen(message: Progress | Failure) -> None:
        heard.append(message)
        if message.trial == 0 and isinstance(message, Progress) and not pids:
            import multiprocessing

            (child,) = multiprocessing.active_children()
            pids.append(child.pid or 0)
            os.kill(pids[0], signal.SIGKILL)

    monkeypatch.setattr(recorder, "run_trial", run_and_stop)  # it cannot end before it is killed
    with pytest.raises(LiveError, match="trials 0 failed: its process was killed by SIGKILL"):
        recorder.record(plan, out, cores=1, listener=listen)
    monkeypatch.undo()
    assert Failure(0, "its process was killed by SIGKILL") in heard
    assert isinstance(heard[-1], Progress)
    assert (heard[-1].trial, heard[-1].end) == (1, "complete")
    assert not out.exists()
    run(plan, out)
    check_file(out, 2, steps=2_000)


def test_divergence_is_a_way_to_end(tmp_path: Path) -> None:
    out = tmp_path / "curves.parquet"
    plan = small_plan(steps=20_000)
    absurd = {**plan.hparams[0], "learning_rate": 1e30}
    run(msgspec.structs.replace(plan, hparams=[absurd]), out)
    (trace,) = read(out).traces
    assert trace.end == "diverged"
    assert trace.steps[-1] < 20_000
    assert np.isnan(trace.score[-1])


def test_a_failing_trial_says_why_in_one_line(tmp_path: Path) -> None:
    out = tmp_path / "curves.parquet"
    plan = small_plan()
    parts = recorder.parts_folder(out)
    parts.mkdir()
    (parts / "trial-0000.pt").write_bytes(b"no checkpoint")
    with pytest.raises(LiveError, match=r"trials 0 failed: .*trial-0000\.pt: not a readable") as e:
        run(plan, out)
    assert "\n" not in str(e.value)
    assert "Traceback" in (parts / "trial-0000.error.txt").read_text()


def test_what_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    plan = small_plan()
    theirs = tmp_path / "theirs.parquet"
    theirs.write_bytes(b"precious")
    with pytest.raises(LiveError, match=r"theirs\.parquet: exists and is not this recording's"):
        run(plan, theirs)
    with pytest.raises(LiveError, match=r"the folder .*nowhere does not exist"):
        run(plan, tmp_path / "nowhere" / "x.parquet")
    with pytest.raises(LiveError, match=r"cores: 4000 must be from 1 to"):
        recorder.record(plan, tmp_path / "x.parquet", cores=4000, listener=lambda _: None)
    with pytest.raises(LiveError, match="only discrete ones"):
        run(msgspec.structs.replace(plan, game="Pendulum-v1"), tmp_path / "x.parquet")
    with pytest.raises(LiveError, match="trials: 0 is too small"):
        make_plan("Pong", trials=0, steps=1, seed=0)
    with pytest.raises(LiveError, match=r"x\.txt: "):
        run(plan, tmp_path / "x.txt")
    assert theirs.read_bytes() == b"precious"
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.parquet"]


def test_two_recorders_do_not_share_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    parts = recorder.parts_folder(out)
    parts.mkdir()
    with folder_lock(parts), pytest.raises(LiveError, match="another simsched process"):
        run(small_plan(), out)
    assert read_plan(parts) is None


def test_a_changed_draw_of_trials_is_another_recording(tmp_path: Path) -> None:
    parts = recorder.parts_folder(tmp_path / "x.parquet")
    parts.mkdir()
    plan = small_plan()
    msgspec.structs.replace(plan, hparams=[{**plan.hparams[0], "t_max": 1}]).save(parts)
    with pytest.raises(LiveError, match=r"holds another recording: trial 0 is .*'t_max': 1"):
        run(plan, tmp_path / "x.parquet")


def test_lines_torn_and_broken(tmp_path: Path) -> None:
    path = tmp_path / "trial-0000.jsonl"
    log = TrialLog(path)
    lines = [Line(0.5, 16, 1, 9.0), Line(0.75, 32, 2, 11.0)]
    log.write(lines)
    log.close()
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        assert read_lines(path) == lines[: whole[:cut].count(b"\n")]
    for count in range(3):
        path.write_bytes(whole + b'{"seconds":0.9,"st')
        log = TrialLog(path)
        log.keep(count)
        log.write([Line(0.8, 48, 3, 7.0)])
        log.close()
        assert read_lines(path) == [*lines[:count], Line(0.8, 48, 3, 7.0)]
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(LiveError, match=r"trial-0000\.jsonl:1: not a row of a recording"):
        read_lines(path)
    assert read_lines(tmp_path / "absent.jsonl") == []
