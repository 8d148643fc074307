"""A trial of GA3C takes over another's weights, and what becomes of one that diverges."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trial_driver import (  # noqa: E402
    A3C,
    OVERLAPPED,
    TRAINING,
    assert_equal,
    in_a_thread,
    source,
    welcome,
)

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.checkpoint import read_checkpoint, write_checkpoint  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.trainer import Trainer  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402
from simsched.live.protocol import (  # noqa: E402
    Adopt,
    Park,
    Reached,
    Save,
    Saved,
    Stop,
    Training,
)

pytestmark = pytest.mark.torch

FAR = 10**9
"""Steps that no worker makes in a test."""


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
    # A donor that seems far ahead: how far two workers come is a matter of time, not of this test.
    state |= {"steps": FAR}
    write_checkpoint(path, read_checkpoint(path) | {"steps": FAR})
    with in_a_thread(welcome(tmp_path, training=training)) as trial:
        report = trial.expect(Reached)
        worker = trial.trial._worker
        before = worker.updates
        trial.send(Save(str(tmp_path / "own")))
        own_state = trial.expect(Saved).state
        until = report.steps + 1000
        new = {"learning_rate": 5e-4, "gamma": 0.95, "t_max": 7}
        trial.send(Adopt(source(path, state, 9, 500), new, until), Save(str(tmp_path / "adopted")))
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
            assert FAR > adopted_state["steps"] >= own_state["steps"] > 0
        assert adopted["updates"] >= before + (training is not A3C)
        changed = {name: adopted["settings"][name] for name in new}
        assert changed == new
        later = trial.expect(Reached)
        assert later.step == until
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
        until = trial.expect(Reached).steps + 1000
        before = trial.trial._worker.updates
        trial.send(Adopt(source(path, state, 9, 500), welcome(tmp_path).hparams, until))
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
    with in_a_thread(told, Save(str(tmp_path / "start"))) as trial:
        saved = trial.expect(Saved).state
        start, theirs = read_checkpoint(tmp_path / "start"), read_checkpoint(path)
        assert_equal(start["network"], theirs["network"])
        assert_equal(start["optimizer"], theirs["optimizer"])
        assert {name: start[name] for name in counters} == counters
        assert {name: saved[name] for name in counters} == counters
        assert start["settings"]["trial"] == 3
        assert start["random"] != theirs["random"]
        report = trial.expect(Reached)
        trial.send(Stop())
        trial.ends()
    assert report.reached == 140  # the 20th row after its own 120
    assert [row[2] for row in trial.rows][:20] == list(range(121, 141))
    assert trial.rows[0][1] > 4000
    assert trial.rows[0][0] > 12.5


@pytest.mark.parametrize("training", [TRAINING, OVERLAPPED], ids=["turns", "overlapped"])
def test_what_cannot_change_in_a_worker_changes_with_a_new_one(
    training: dict[str, Any], tmp_path: Path
) -> None:
    path, state = donor(tmp_path, training)
    with in_a_thread(welcome(tmp_path, training=training)) as trial:
        report = trial.expect(Reached)
        old = trial.trial._worker
        hparams = {**welcome(tmp_path).hparams, "rms_epsilon": 1e-3, "rms_decay": 0.9}
        trial.send(Adopt(source(path, state, 9, 500), hparams, report.steps + 1000))
        later = trial.expect(Reached)
        worker = trial.trial._worker
        assert worker is not old
        assert (worker.settings.rms_epsilon, worker.settings.rms_decay) == (1e-3, 0.9)
        assert later.steps > report.steps
        trial.send(Stop())
        trial.ends()
    assert [row[2] for row in trial.rows] == list(range(1, len(trial.rows) + 1))


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path, state = donor(tmp_path, TRAINING)
    with in_a_thread(welcome(tmp_path)) as trial:
        trial.expect(Reached)
        hparams = {**welcome(tmp_path).hparams, "optimizer": "adam"}
        trial.send(Adopt(source(path, state, 9, 500), hparams, 2000))
        trial.ends()
    assert isinstance(trial.error, LiveError)
    assert "optimizer" in str(trial.error)


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
