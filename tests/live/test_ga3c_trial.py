"""GA3C as a trial: the worker protocol from the other end, in threads and in processes."""

import math
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trial_driver import (  # noqa: E402
    A3C,
    OVERLAPPED,
    PATIENCE_S,
    TRAINING,
    assert_equal,
    in_a_process,
    in_a_thread,
    settings,
    source,
    welcome,
)

from simsched.live.ga3c.checkpoint import read_checkpoint  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402
from simsched.live.protocol import (  # noqa: E402
    Beat,
    Park,
    Reached,
    Save,
    Saved,
    Stop,
    Train,
)

pytestmark = pytest.mark.torch


def expected(rows: list[tuple[float, int, int, float]], unit: str, untils: list[int]) -> Any:
    """Milestones and scores by the rule's own words: a milestone's number, its score, its count."""
    column = {"seconds": 0, "steps": 1, "episodes": 2}.get(unit)
    found, since = list[Any](), 0
    for until in untils:
        if found and found[-1][2] >= until:  # the row of the milestone before serves this one, too
            found.append((until, *found[-1][1:]))
            continue
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
    before = set(threading.enumerate())
    with in_a_thread(welcome(tmp_path, training=training)) as trial:
        report = trial.expect(Reached)
        worker = trial.trial._worker
        threads, weights = set(threading.enumerate()) - before, weights_of(worker)
        totals = worker.monitor.totals()
        beats = [trial.expect(Beat) for _ in range(3)]  # 0.1 s apart
        counters = (report.steps, report.episodes, report.seconds)
        assert {(b.steps, b.episodes, b.seconds) for b in beats} == {counters}
        assert worker.monitor.totals() == totals
        assert torch.equal(weights_of(worker), weights)
        trial.send(Train(report.steps + 1000))
        later = trial.expect(Reached)
        assert set(threading.enumerate()) - before == threads
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


@pytest.mark.parametrize("training", [TRAINING, OVERLAPPED, A3C])
def test_saved_in_mid_phase_it_trains_on(training: dict[str, Any], tmp_path: Path) -> None:
    told = welcome(tmp_path, training=training, until=6000)
    with in_a_thread(told, Save(str(tmp_path / "early"))) as trial:
        state = trial.expect(Saved).state
        assert read_checkpoint(tmp_path / "early")["steps"] == state["steps"]
        report = trial.expect(Reached)  # nobody had to say `train`
        assert report.step == 6000
        assert state["steps"] < report.steps or training is not TRAINING
        trial.send(Save(str(tmp_path / "milestone")))
        later = trial.expect(Saved).state
        assert later["steps"] == report.steps
        trial.send(Stop())
        trial.ends()


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
    with in_a_process(tmp_path, told, Save(str(again))) as two:  # before it has taken a step
        assert two.expect(Saved).state == saved.state
        assert_equal(read_checkpoint(first), read_checkpoint(again))
        assert two.loads[0] > 0
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
def test_parked_in_mid_phase_it_goes_on_to_the_milestone(
    training: dict[str, Any], tmp_path: Path
) -> None:
    """One so far off that nobody gets there before he is parked, and nearer when it goes on."""
    path = tmp_path / "parked"
    told = welcome(tmp_path, until=1000, training=training)
    with in_a_thread(told) as one:
        first = one.expect(Reached)
        one.send(Train(10**9))
        while not one.rows or one.rows[-1][1] < first.reached + 300:
            one.expect(Beat)
        one.send(Park(str(path)))
        saved = one.expect(Saved)
        one.ends()
    assert one.error is None
    assert saved.state["steps"] > 1300
    far = saved.state["steps"] + 1000
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
