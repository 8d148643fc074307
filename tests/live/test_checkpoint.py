"""Checkpoints: everything comes back exactly, nothing in them is code, and files stay whole."""

import os
import pickletools
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_workers import settings, train, trained  # noqa: E402
from torch import Tensor  # noqa: E402

from simsched.live.ga3c.checkpoint import read_checkpoint, write_checkpoint  # noqa: E402
from simsched.live.ga3c.crew import Crew  # noqa: E402
from simsched.live.ga3c.trainer import Trainer, Update  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402

pytestmark = pytest.mark.torch


def assert_equal(one: Any, other: Any, where: str = "checkpoint") -> int:
    """Compare two checkpoints, number by number; returns how many tensors there were."""
    assert type(one) is type(other), where
    if isinstance(one, Tensor):
        assert one.dtype == other.dtype, where
        assert torch.equal(one, other), where
        return 1
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        return sum(assert_equal(one[key], other[key], f"{where}.{key}") for key in one)
    if isinstance(one, list | tuple):
        assert len(one) == len(other), where
        pairs = enumerate(zip(one, other, strict=True))
        return sum(assert_equal(a, b, f"{where}[{k}]") for k, (a, b) in pairs)
    assert one == other, where
    return 0


@pytest.mark.parametrize(
    ("changes", "tensors"),
    [
        ({}, 2),
        ({"optimizer": "rmsprop-tf", "algorithm": "a2c"}, 1),
        ({"optimizer": "adam", "anneal_steps": 9_000, "vtrace": True, "clip_norm": 1.0}, 3),
    ],
)
def test_saved_restored_and_saved_again_is_the_same(
    changes: dict[str, Any], tensors: int, tmp_path: Path
) -> None:
    worker = trained(tmp_path / "first.pt", **changes)
    again = Worker(settings(**changes), tmp_path / "first.pt")
    assert (again.steps, again.episodes) == (worker.steps, worker.episodes)
    assert (again.seconds, again.updates) == (worker.seconds, worker.updates)
    assert again.save(tmp_path / "second.pt")
    again.close()
    first, second = (read_checkpoint(tmp_path / f"{name}.pt") for name in ("first", "second"))
    # 12 weights and biases; mean squares, torch's own optimizers' counts, Adam's means.
    assert assert_equal(first, second) == 12 + tensors
    weights = dict(worker.network.state_dict())
    assert_equal(first["network"], {name: t.contiguous() for name, t in weights.items()})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.pt", "second.pt"]


def test_threads_come_back_with_every_groups_random_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: dict[str, Any] = {
        "overlap": "on",
        "agents": 6,
        "groups": 3,
        "predictors": 1,
        "least_batch": 10,
    }
    worker = trained(tmp_path / "first.pt", **fields)
    first = read_checkpoint(tmp_path / "first.pt")
    assert (first["steps"], first["updates"]) != (0, 0)
    # The worker went on between saving and closing; a still one shows what was restored.
    assert first["steps"] <= worker.steps
    monkeypatch.setattr(Crew, "start", lambda crew, name, work: None)
    again = Worker(settings(**fields), tmp_path / "first.pt")
    assert again.seconds >= first["seconds"]
    assert again.save(tmp_path / "second.pt")
    again.close()
    second = read_checkpoint(tmp_path / "second.pt")
    assert second.pop("seconds") >= first.pop("seconds") > 0
    assert assert_equal(first, second) > 12
    states = [str(state) for state in first["random"]["groups"]]
    assert len(set(states)) == 3


def test_two_restored_workers_go_on_alike(tmp_path: Path) -> None:
    both: list[dict[str, Any]] = [{}, {"algorithm": "a2c"}]
    for changes in both:
        trained(tmp_path / "c.pt", **changes)
        futures, ends = [], []
        for k in range(2):
            worker = Worker(settings(**changes), tmp_path / "c.pt")
            futures.append([row[1:] for row in train(worker, 6_000)])
            worker.save(tmp_path / f"end{k}.pt")
            worker.close()
            ends.append(read_checkpoint(tmp_path / f"end{k}.pt"))
            assert ends[-1].pop("seconds") > 0
        assert len(futures[0]) > 20
        assert futures[0] == futures[1]
        assert_equal(ends[0], ends[1])


def test_counters_go_on_and_the_first_episodes_are_not_played_once_more(tmp_path: Path) -> None:
    worker = Worker(settings())
    rows = train(worker, 5_000)
    worker.save(tmp_path / "c.pt")
    worker.close()
    again = Worker(settings(), tmp_path / "c.pt")
    assert (again.steps, again.episodes, again.seconds) == (5_008, len(rows), worker.seconds)
    later = train(again, 7_000)
    again.close()
    assert later[0].episodes == len(rows) + 1
    assert later[0].seconds > worker.seconds
    assert [row.score for row in later[:20]] != [row.score for row in rows[:20]]
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]


def schedule_of(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps that the trainer was told from now on, for the schedules."""
    told = []
    update = Trainer.update

    def spied(trainer: Trainer, batch: Any, steps: int) -> Update:
        told.append(steps)
        return update(trainer, batch, steps)

    monkeypatch.setattr(Trainer, "update", spied)
    deadline = time.monotonic() + 300
    while len(told) <= 20:
        assert time.monotonic() < deadline
        train(worker, worker.steps + 200)
    return told


@pytest.mark.parametrize(
    "changes",
    [{}, {"algorithm": "a2c"}, {"overlap": "on", "agents": 4, "least_batch": 10}],
)
def test_schedules_go_on_from_the_trials_steps(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"anneal_steps": 4_000, "entropy_anneal_steps": 8_000, **changes}
    trained(tmp_path / "c.pt", **changes)
    again = Worker(settings(**changes), tmp_path / "c.pt")
    saved = again.steps
    told = schedule_of(again, monkeypatch)
    again.close()
    assert len(told) > 2
    assert min(told) >= 2_000
    assert max(told) <= again.steps
    assert saved >= 2_000


def test_a_parameter_that_is_not_finite_is_never_saved(tmp_path: Path) -> None:
    worker = Worker(settings())
    with torch.no_grad():
        next(worker.network.parameters())[0, 0] = float("inf")
    assert worker.save(tmp_path / "c.pt") is False
    assert worker.diverged == "parameter policy.0.weight is not finite"
    assert list(tmp_path.iterdir()) == []
    worker.close()


def test_nothing_in_the_file_is_code(tmp_path: Path) -> None:
    """Only tensors, numbers, text and containers: no class of ours, nothing of numpy."""
    trained(tmp_path / "c.pt", optimizer="adam")
    state = torch.load(tmp_path / "c.pt", weights_only=True)
    assert set(state) >= {"network", "optimizer", "updates", "seconds", "steps", "episodes"}
    with zipfile.ZipFile(tmp_path / "c.pt") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("data.pkl")]
        operations = list(pickletools.genops(archive.read(name)))
    named = {str(argument) for code, argument, _ in operations if code.name == "GLOBAL"}
    assert {module.split()[0].split(".")[0] for module in named} <= {"torch", "collections"}


@pytest.mark.parametrize("breaks", ["save", "fsync", "replace"])
def test_an_old_checkpoint_survives_a_write_that_fails(
    breaks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.pt"
    trained(path, steps=200)
    before = path.read_bytes()

    def torn(state: Any, file: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    def fails(*arguments: Any) -> None:
        raise OSError(5, "Input/output error")

    worker = Worker(settings(), path)
    with monkeypatch.context() as patch:
        if breaks == "save":
            patch.setattr(torch, "save", torn)
        elif breaks == "fsync":
            patch.setattr(os, "fsync", fails)
        else:
            patch.setattr(Path, "replace", fails)
        with pytest.raises(OSError, match=r"No space|Input/output"):
            worker.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.pt"]
    assert worker.save(path)  # and the worker can be saved once there is room
    worker.close()


def test_a_reader_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the new one is being written, the old one is what its name gives."""
    path = tmp_path / "c.pt"
    random = {"random": {"groups": []}}
    write_checkpoint(path, {**dict.fromkeys(KEYS, 1), **random})
    save, seen = torch.save, []

    def looking(state: Any, file: Any) -> None:
        seen.append(read_checkpoint(path)["steps"])
        save(state, file)
        seen.append(read_checkpoint(path)["steps"])

    monkeypatch.setattr(torch, "save", looking)
    write_checkpoint(path, {**dict.fromkeys(KEYS, 2), **random})
    assert seen == [1, 1]
    assert read_checkpoint(path)["steps"] == 2


KEYS = ("network", "optimizer", "updates", "seconds", "steps", "episodes", "random")
