"""The worker as a whole: it learns, repeats, diverges honestly, and comes back when saved."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.worker import Row, Worker  # noqa: E402

pytestmark = pytest.mark.torch

CARTPOLE = Settings(game="CartPole-v1", learning_rate=1e-3, seed=2)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def train(worker: Worker, steps: int) -> list[Row]:
    rows = []
    while worker.steps < steps and worker.diverged is None:
        rows += worker.advance()
    worker.close()
    return rows


def test_cartpole_is_learned() -> None:
    rows = train(Worker(CARTPOLE), 120_000)
    scores = np.array([row.score for row in rows])
    assert scores[:50].mean() < 60
    best = np.convolve(scores, np.ones(50) / 50, "valid").max()
    assert best > 250


def test_counters_are_cumulative_and_in_order() -> None:
    rows = train(Worker(CARTPOLE), 8_000)
    assert [row.episodes for row in rows] == list(range(1, len(rows) + 1))
    assert all(a.steps <= b.steps and a.seconds <= b.seconds for a, b in pairwise(rows))
    # CartPole pays 1 a step: finished episodes and those in flight make up all steps.
    unfinished = rows[-1].steps - sum(row.score for row in rows)
    assert 0 <= unfinished <= 16 * 500
    assert rows[0].seconds > 0


def test_same_seed_gives_the_same_rows() -> None:
    def run(**changes: object) -> list[tuple[int, int, float]]:
        fields = {"game": "CartPole-v1", "seed": 7, **changes}
        return [row[1:] for row in train(Worker(Settings(**fields)), 6_000)]  # type: ignore[arg-type]

    first = run()
    assert len(first) > 50
    assert run() == first
    assert run(seed=8) != first
    assert run(trial=1) != first


def test_atari_repeats_and_moves_the_convolutions() -> None:
    def run() -> tuple[list[Row], list[float]]:
        worker = Worker(Settings(game="Pong", agents=2, least_batch=10, seed=1))
        before = [p.detach().clone() for p in worker._network.parameters()]
        rows = train(worker, 60)
        after = list(worker._network.parameters())
        return rows, [
            float((a.detach() - b).abs().max()) for a, b in zip(after, before, strict=True)
        ]

    first, second = run(), run()
    assert first == second
    assert min(first[1]) > 0


def test_an_absurd_learning_rate_is_reported_as_divergence() -> None:
    worker = Worker(Settings(game="CartPole-v1", learning_rate=1e30))
    rows = train(worker, 50_000)
    assert worker.diverged is not None
    assert "not finite" in worker.diverged
    assert worker.steps < 50_000
    assert [row.episodes for row in rows] == list(range(1, worker.episodes + 1))


def test_a_parameter_that_is_not_finite_is_never_saved(tmp_path: Path) -> None:
    worker = Worker(CARTPOLE)
    with torch.no_grad():
        next(worker._network.parameters())[0, 0] = float("inf")
    assert worker.save(tmp_path / "c.pt") is False
    assert worker.diverged is not None
    assert "policy.0.weight" in worker.diverged
    assert list(tmp_path.iterdir()) == []
    worker.close()


def test_a_checkpoint_brings_back_weights_optimizer_and_counters(tmp_path: Path) -> None:
    worker = Worker(CARTPOLE)
    rows = train(worker, 5_000)
    assert worker.save(tmp_path / "c.pt")
    again = Worker(CARTPOLE, tmp_path / "c.pt")
    assert (again.steps, again.episodes, again.seconds) == (5_008, len(rows), worker.seconds)
    for old, new in zip(worker._network.parameters(), again._network.parameters(), strict=True):
        assert torch.equal(old, new)
    old_state, new_state = (w._trainer.optimizer.state_dict()["state"] for w in (worker, again))
    assert all(
        torch.equal(old_state[k]["square_avg"], new_state[k]["square_avg"]) for k in old_state
    )
    assert len(old_state) == len(new_state) > 0
    later = train(again, 6_000)
    assert later[0].episodes == len(rows) + 1
    assert later[0].seconds > worker.seconds
    # It must not play the trial's first episodes once more.
    assert [row.score for row in later[:20]] != [row.score for row in rows[:20]]
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]


def test_checkpoints_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(LiveError, match=r"broken\.pt: not a readable checkpoint"):
        Worker(CARTPOLE, broken)
    other = tmp_path / "other.pt"
    torch.save({"network": {}}, other)
    with pytest.raises(LiveError, match=r"other\.pt: not a checkpoint, 'episodes' is missing"):
        Worker(CARTPOLE, other)
    worker = Worker(Settings(game="MountainCar-v0"))
    worker.save(tmp_path / "mountain.pt")
    worker.close()
    with pytest.raises(LiveError, match=r"mountain\.pt: the checkpoint does not fit") as caught:
        Worker(CARTPOLE, tmp_path / "mountain.pt")
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_ms_pacman_is_learned() -> None:
    """The last 50 episodes of 150,000 steps beat random play (about 240) by far."""
    rows = train(Worker(Settings(game="MsPacman", learning_rate=7e-4, seed=0)), 150_000)
    assert np.mean([row.score for row in rows[-50:]]) > 350
