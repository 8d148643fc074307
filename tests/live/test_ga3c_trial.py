"""GA3C as a trial: the worker protocol from the other end, in threads and in processes."""

import json
import math
import os
import signal
import socket
import statistics
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trial_driver import (  # noqa: E402
    OVERLAPPED,
    PATIENCE_S,
    TRAINING,
    Running,
    in_a_process,
    in_a_thread,
    settings,
    source,
    welcome,
)

from simsched.live.channel import Channel, Gone  # noqa: E402
from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.agents import AgentGroup  # noqa: E402
from simsched.live.ga3c.checkpoint import read_checkpoint  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.trainer import Trainer  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402
from simsched.live.ga3c_trial import trial_settings  # noqa: E402
from simsched.live.protocol import (  # noqa: E402
    Adopt,
    Beat,
    Failed,
    Park,
    Reached,
    Save,
    Saved,
    Stop,
    Train,
    Training,
)

pytestmark = pytest.mark.torch

A3C: dict[str, Any] = {"algorithm": "a3c", "agents": 2}


def assert_equal(one: Any, other: Any, where: str = "checkpoint") -> None:
    """Compare two checkpoints, bit for bit."""
    assert type(one) is type(other), where
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, where
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_equal(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal(a, b, f"{where}[{k}]")
    else:
        assert one == other, where


def expected(rows: list[tuple[float, int, int, float]], unit: str, untils: list[int]) -> Any:
    """Milestones and scores by the rule's own words: a milestone's number, its score, its count."""
    column = {"seconds": 0, "steps": 1, "episodes": 2}.get(unit)
    found, since = [], 0
    for until in untils:
        for k in range(since, len(rows)):
            count = k + 1 if column is None else rows[k][column]
            if count >= until:
                part = [row[3] for row in rows[since : k + 1]]
                found.append((until, pytest.approx(math.fsum(part) / len(part)), count))
                since = k + 1
                break
    return found


@pytest.mark.parametrize(
    ("unit", "phase", "training"),
    [
        ("steps", 700, TRAINING),
        ("episodes", 30, TRAINING),
        ("reports", 30, TRAINING | {"algorithm": "a2c"}),
        ("seconds", 1, TRAINING),
        ("steps", 1500, OVERLAPPED),
    ],
)
def test_milestones_are_told_by_the_rule(
    unit: Any, phase: int, training: dict[str, Any], tmp_path: Path
) -> None:
    told = welcome(tmp_path, unit=unit, until=phase, training=training)
    reports: list[Reached] = []
    with in_a_thread(told) as trial:
        for k in range(1, 4):
            reports.append(trial.expect(Reached))
            assert trial.rows[-1][2] == reports[-1].episodes == len(trial.rows)
            trial.send(Stop() if k == 3 else Train((k + 1) * phase))
        trial.ends()
    untils = [phase, 2 * phase, 3 * phase]
    assert [(r.step, r.score, r.reached) for r in reports] == expected(trial.rows, unit, untils)
    assert [row[2] for row in trial.rows] == list(range(1, len(trial.rows) + 1))
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(trial.rows))
    assert trial.loads == [0.0]
    assert reports[-1].steps >= trial.rows[-1][1]
    assert reports[-1].seconds >= trial.rows[-1][0] > 0


def test_one_row_past_two_milestones_serves_both(tmp_path: Path) -> None:
    with in_a_thread(welcome(tmp_path, until=400)) as trial:
        first = trial.expect(Reached)
        steps = first.steps
        trial.send(Train(int(first.reached)))  # that very row's count: nothing is to be trained
        second = trial.expect(Reached)
        assert (second.score, second.reached) == (first.score, first.reached)
        assert (second.step, second.steps) == (first.reached, steps)
        trial.send(Stop())
        trial.ends()


@pytest.mark.parametrize(
    "training", [TRAINING, OVERLAPPED, A3C], ids=["turns", "overlapped", "a3c"]
)
def test_nothing_moves_while_it_waits_and_then_it_goes_on_at_once(
    training: dict[str, Any], tmp_path: Path
) -> None:
    with in_a_thread(welcome(tmp_path, training=training)) as trial:
        report = trial.expect(Reached)
        worker = trial.trial._worker
        threads, weights = set(threading.enumerate()), weights_of(worker)
        totals = worker.monitor.totals()
        beats = [trial.expect(Beat) for _ in range(3)]  # 0.1 s apart
        counters = (report.steps, report.episodes, report.seconds)
        assert {(b.steps, b.episodes, b.seconds) for b in beats} == {counters}
        assert worker.monitor.totals() == totals
        assert torch.equal(weights_of(worker), weights)
        trial.send(Train(2000))
        later = trial.expect(Reached)
        assert set(threading.enumerate()) == threads
        assert later.steps > report.steps
        assert later.seconds > report.seconds
        # What passed while it waited is in no counter: nobody trains 1000 steps in no time, but
        # the rows go on from where the clock stopped.
        assert trial.rows[report.episodes][0] >= trial.rows[report.episodes - 1][0]
        assert not torch.equal(weights_of(worker), weights)
        trial.send(Stop())
        trial.ends()


def weights_of(worker: Worker) -> Any:
    return torch.cat([p.detach().flatten().clone() for p in worker.network.parameters()])


@pytest.mark.parametrize("training", [TRAINING, OVERLAPPED], ids=["turns", "overlapped"])
def test_seconds_that_it_waited_for_do_not_count(training: dict[str, Any], tmp_path: Path) -> None:
    start = time.monotonic()
    with in_a_thread(welcome(tmp_path, until=300, training=training)) as trial:
        waited = 0.0
        for k in range(3):
            report = trial.expect(Reached)
            since = time.monotonic()
            time.sleep(0.5)
            waited += time.monotonic() - since
            trial.send(Train(300 * (k + 2)))
        report = trial.expect(Reached)
        passed = time.monotonic() - start
        assert 0 < report.seconds <= passed - waited
        trial.send(Stop())
        trial.ends()


def test_resumed_training_is_the_same_training(tmp_path: Path) -> None:
    """Stopped at a milestone, loaded by another process: the same bit for bit, and goes on."""
    schedules = {"anneal_steps": 6000, "entropy_anneal_steps": 4000, "optimizer": "adam"}
    training = {**TRAINING, **schedules}
    first, again, later = (tmp_path / name for name in ("first", "again", "later"))
    told = welcome(tmp_path, training=training)
    with in_a_process(tmp_path, told) as one:
        report = one.expect(Reached)
        one.send(Save(str(first)))
        saved = one.expect(Saved)
        one.send(Stop())
        one.ends()
        assert one.process.wait(PATIENCE_S) == 0
        before = one.rows
    assert saved.state["episodes"] == len(before) == report.episodes

    told = welcome(
        tmp_path, training=training, attempt=8, node=2, since=1000, until=2000,
        source=source(first, saved.state),
    )  # fmt: skip
    with in_a_process(tmp_path, told) as two:
        two.send(Save(str(again)))  # before it has taken a step
        assert two.expect(Saved).state == saved.state
        assert_equal(read_checkpoint(first), read_checkpoint(again))
        assert two.loads[0] > 0
        two.send(Train(2000))
        second = two.expect(Reached)
        two.send(Save(str(later)))
        two.expect(Saved)
        two.send(Stop())
        two.ends()
        assert two.process.wait(PATIENCE_S) == 0
    rows = before + two.rows
    assert [row[2] for row in rows] == list(range(1, len(rows) + 1))
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(rows))
    assert two.rows[0][1] > report.steps
    reports = [(r.step, r.score, r.reached) for r in (report, second)]
    assert reports == expected(rows, "steps", [1000, 2000])

    # In this process, from the same file: the same rows and weights, schedules included.
    worker = Worker(settings(told), first)
    own = []
    while worker.steps < second.steps:
        own += worker.advance()
    assert [row[1:] for row in own] == [tuple(row[1:]) for row in two.rows]
    worker.save(tmp_path / "own")
    worker.close()
    theirs, ours = read_checkpoint(later), read_checkpoint(tmp_path / "own")
    assert theirs.pop("seconds") > report.seconds
    assert ours.pop("seconds") > report.seconds
    assert_equal(theirs, ours)
    assert 0 < ours["optimizer"]["param_groups"][0]["lr"] < 1e-3 * (1 - 1900 / 6000)


@pytest.mark.parametrize("training", [TRAINING, OVERLAPPED], ids=["turns", "overlapped"])
def test_parked_in_mid_phase_it_goes_on_to_the_same_milestone(
    training: dict[str, Any], tmp_path: Path
) -> None:
    path, far = tmp_path / "parked", 3000
    told = welcome(tmp_path, until=1000, training=training)
    with in_a_thread(told) as one:
        first = one.expect(Reached)
        one.send(Train(far))
        while not one.rows or one.rows[-1][1] < first.reached + 300:
            one.expect(Beat)
        one.send(Park(str(path)))
        saved = one.expect(Saved)
        one.ends()
    assert one.error is None
    assert 1300 < saved.state["steps"] < far
    assert saved.state["episodes"] == len(one.rows)
    told = welcome(
        tmp_path, training=training, since=1000, until=far, source=source(path, saved.state)
    )
    with in_a_thread(told) as two:
        second = two.expect(Reached)
        two.send(Stop())
        two.ends()
    rows = one.rows + two.rows
    assert [row[2] for row in rows] == list(range(1, len(rows) + 1))
    assert two.rows[0][0] > saved.state["seconds"]
    reports = [(r.step, r.score, r.reached) for r in (first, second)]
    assert reports == expected(rows, "steps", [1000, far])


def donor(folder: Path, training: dict[str, Any], trial: int = 9) -> tuple[Path, dict[str, Any]]:
    """A checkpoint of another trial, of another length; and what its worker said of it."""
    path = folder / "donor"
    with in_a_thread(welcome(folder, trial=trial, until=500, training=training)) as other:
        other.expect(Reached)
        other.send(Park(str(path)))
        state = other.expect(Saved).state
        other.ends()
    return path, state


@pytest.mark.parametrize(
    "training", [TRAINING, OVERLAPPED, A3C], ids=["turns", "overlapped", "a3c"]
)
def test_adopting_takes_weights_and_optimizer_and_nothing_else(
    training: dict[str, Any], tmp_path: Path
) -> None:
    path, state = donor(tmp_path, training)
    with in_a_thread(welcome(tmp_path, training=training)) as trial:
        report = trial.expect(Reached)
        worker = trial.trial._worker
        before = worker.updates
        trial.send(Save(str(tmp_path / "own")))
        own_state = trial.expect(Saved).state
        new = {"learning_rate": 5e-4, "gamma": 0.95, "t_max": 7}
        trial.send(Adopt(source(path, state, 9, 500), new, 2000), Save(str(tmp_path / "adopted")))
        assert trial.expect(Training).load_s > 0
        adopted_state = trial.expect(Saved).state
        adopted, own = read_checkpoint(tmp_path / "adopted"), read_checkpoint(tmp_path / "own")
        theirs = read_checkpoint(path)
        if training is TRAINING:  # where nothing moves before the next message is read
            assert_equal(adopted["network"], theirs["network"])
            assert_equal(adopted["optimizer"]["state"], theirs["optimizer"]["state"])
            assert adopted_state == own_state
            assert adopted["random"] == own["random"] != theirs["random"]
        else:
            assert adopted_state["steps"] >= own_state["steps"] > state["steps"]
        assert adopted["updates"] > before
        changed = {name: adopted["settings"][name] for name in new}
        assert changed == new
        trial.send(Train(2000))
        later = trial.expect(Reached)
        assert later.step == 2000
        assert worker is trial.trial._worker
        assert not torch.equal(theirs["network"]["policy.0.weight"], weights(worker))
        trial.send(Stop())
        trial.ends()
    assert [row[2] for row in trial.rows] == list(range(1, len(trial.rows) + 1))
    assert later.steps > report.steps


def weights(worker: Worker) -> Any:
    return dict(worker.network.state_dict())["policy.0.weight"]


@pytest.mark.parametrize(
    "training", [TRAINING, TRAINING | {"algorithm": "a2c"}, OVERLAPPED],
    ids=["turns", "a2c", "overlapped"],
)  # fmt: skip
def test_experience_of_the_old_weights_is_not_trained_on(
    training: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, state = donor(tmp_path, training)
    versions, adopted = list[int](), list[int]()
    update, adopt = Trainer.update, Learner.adopt

    def spied(trainer: Trainer, batch: Any, steps: int) -> Any:
        versions.extend(sample.version for sample in batch)
        return update(trainer, batch, steps)

    def adopting(learner: Learner, state: dict[str, Any]) -> None:
        versions.clear()
        adopt(learner, state)
        adopted.append(learner.updates)

    monkeypatch.setattr(Trainer, "update", spied)
    monkeypatch.setattr(Learner, "adopt", adopting)
    with in_a_thread(welcome(tmp_path, training=training)) as trial:
        trial.expect(Reached)
        before = trial.trial._worker.updates
        trial.send(Adopt(source(path, state, 9, 500), welcome(tmp_path).hparams, 2000))
        trial.expect(Reached)
        trial.send(Stop())
        trial.ends()
    assert adopted == [before + 1]  # the count goes on
    assert len(versions) > 100
    assert min(versions) == before + 1


def test_a2c_begins_a_whole_rollout_with_the_donors_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    update = Trainer.update

    def spied(trainer: Trainer, batch: Any, steps: int) -> Any:
        sizes.append(len(batch))
        return update(trainer, batch, steps)

    monkeypatch.setattr(Trainer, "update", spied)
    fields = {**TRAINING, "algorithm": "a2c", "agents": 2, "t_max": 4}
    worker = Worker(Settings(game="CartPole-v1", **fields))
    worker.save(tmp_path / "donor")
    for _ in range(6):
        worker.advance()  # two steps into the second rollout
    worker.hold()
    worker.adopt(tmp_path / "donor")
    worker.go()
    for _ in range(9):
        worker.advance()
    worker.close()
    assert sizes == [8, 8, 8]


def test_a_start_from_a_donor_has_the_trials_own_counters_and_draws(tmp_path: Path) -> None:
    path, state = donor(tmp_path, TRAINING)
    counters = {"steps": 4000, "episodes": 120, "seconds": 12.5}
    told = welcome(
        tmp_path, since=120, until=140, unit="reports", source=source(path, state, 9, 500),
        **counters,
    )  # fmt: skip
    with in_a_thread(told) as trial:
        trial.send(Save(str(tmp_path / "start")))
        saved = trial.expect(Saved).state
        start, theirs = read_checkpoint(tmp_path / "start"), read_checkpoint(path)
        assert_equal(start["network"], theirs["network"])
        assert_equal(start["optimizer"], theirs["optimizer"])
        assert {name: start[name] for name in counters} == counters
        assert {name: saved[name] for name in counters} == counters
        assert start["settings"]["trial"] == 3
        assert start["random"] != theirs["random"]
        trial.send(Train(140))
        report = trial.expect(Reached)
        trial.send(Stop())
        trial.ends()
    assert report.reached == 140  # the 20th row after its own 120
    assert [row[2] for row in trial.rows][:20] == list(range(121, 141))
    assert trial.rows[0][1] > 4000
    assert trial.rows[0][0] > 12.5


def test_a_hyperparameter_that_cannot_change_is_named(tmp_path: Path) -> None:
    path, state = donor(tmp_path, TRAINING)
    with in_a_thread(welcome(tmp_path)) as trial:
        trial.expect(Reached)
        hparams = {**welcome(tmp_path).hparams, "least_batch": 40}
        trial.send(Adopt(source(path, state, 9, 500), hparams, 2000))
        trial.ends()
    assert str(trial.error).startswith("least_batch: cannot change while training, only ")


@pytest.mark.parametrize("training", [TRAINING, OVERLAPPED], ids=["turns", "overlapped"])
def test_divergence_is_a_report_without_a_score_and_can_be_saved_by_a_donor(
    training: dict[str, Any], tmp_path: Path
) -> None:
    path, state = donor(tmp_path, training)
    absurd = {"learning_rate": 1e30, "gamma": 0.99, "t_max": 5}
    with in_a_thread(welcome(tmp_path, until=90_000, hparams=absurd, training=training)) as trial:
        report = trial.expect(Reached)
        assert (report.step, report.score) == (90_000, None)
        assert report.reached == report.steps < 90_000
        trial.send(Save(str(tmp_path / "no")))  # asked by mistake: it says so once more
        assert trial.expect(Reached).score is None
        assert not (tmp_path / "no").exists()
        hparams = {**absurd, "learning_rate": 1e-3}
        until = report.steps + 500
        trial.send(Adopt(source(path, state, 9, 500), hparams, until))
        later = trial.expect(Reached)
        assert later.score is not None
        assert later.step == until
        assert later.steps > report.steps
        assert later.seconds > report.seconds
        trial.send(Stop())
        trial.ends()
    assert [row[2] for row in trial.rows] == list(range(1, len(trial.rows) + 1))


def test_weights_that_are_not_finite_at_a_milestone_are_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last update before a milestone can be the one that breaks the network."""
    hold = Worker.hold

    def spoiled(worker: Worker) -> Any:
        rows = hold(worker)
        if worker.steps >= 1000:
            with torch.no_grad():
                next(worker.network.parameters())[0, 0] = float("nan")
        return rows

    monkeypatch.setattr(Worker, "hold", spoiled)
    with in_a_thread(welcome(tmp_path)) as trial:
        assert trial.expect(Reached).score is None
        trial.send(Stop())
        trial.ends()


def test_beats_come_from_the_thread_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs falls silent."""
    hang, step = threading.Event(), AgentGroup.step

    def hanging(group: AgentGroup, predictor: Any) -> Any:
        if hang.is_set():
            time.sleep(1.0)
        return step(group, predictor)

    monkeypatch.setattr(AgentGroup, "step", hanging)
    with in_a_thread(welcome(tmp_path, until=10**9)) as trial:
        times, steps = [], []
        for _ in range(5):
            steps.append(trial.expect(Beat).steps)
            times.append(time.monotonic())
        assert steps == sorted(set(steps))
        assert max(b - a for a, b in pairwise(times)) < 0.6  # each 0.05 s, on an idle machine
        hang.set()
        trial.expect(Beat)
        silent_since = time.monotonic()
        trial.expect(Beat)
        assert time.monotonic() - silent_since > 0.7
        hang.clear()
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
        start = time.monotonic()
        if end == "stop":
            trial.send(Stop())
        elif end == "SIGTERM":
            trial.process.terminate()
        else:
            trial.connection.shutdown(socket.SHUT_RDWR)
        _, said = trial.process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - start < 20  # on a busy machine; else in milliseconds
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
        assert 0.09 < time.monotonic() - start < 2
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
    with in_a_process(tmp_path, told, program) as trial:
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
