"""The worker as a whole, in one thread: it learns, repeats, and diverges honestly."""

from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_workers import settings, train_and_close  # noqa: E402

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c import engines  # noqa: E402
from simsched.live.ga3c.environment import EnvironmentGroup  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402

pytestmark = pytest.mark.torch


def test_cartpole_is_learned() -> None:
    """To a mean of 475 over 100 episodes, which is what Gymnasium calls solved.

    Seeds 0 to 4 were tried: after 140,512, 175,824, 181,376, 202,896 and 114,096 steps, in 5 to
    9 seconds of processor time. 4 is kept; the limit leaves room for another processor's sums.
    """
    worker = Worker(settings(learning_rate=1e-3, seed=4))
    scores: list[float] = []
    recent: deque[float] = deque(maxlen=100)
    while sum(recent) < 475 * 100 and worker.steps < 300_000:
        rows = worker.advance()
        scores += [row.score for row in rows]
        recent.extend(row.score for row in rows)
    worker.close()
    assert np.mean(scores[:100]) < 60
    assert len(recent) == 100
    assert sum(recent) / 100 >= 475


def test_counters_are_cumulative_and_in_order() -> None:
    worker = Worker(settings())
    rows = train_and_close(worker, 8_000)
    assert [row.episodes for row in rows] == list(range(1, len(rows) + 1))
    assert all(a.steps <= b.steps and a.seconds <= b.seconds for a, b in pairwise(rows))
    # CartPole pays 1 a step: finished episodes and those in flight make up all steps.
    unfinished = rows[-1].steps - sum(row.score for row in rows)
    assert 0 <= unfinished <= 16 * 500
    assert rows[0].seconds > 0
    totals = worker.monitor.totals()
    assert (totals.steps, totals.episodes) == (worker.steps, len(rows))
    assert totals.score == totals.length == sum(row.score for row in rows)
    assert totals.updates == worker.updates
    assert totals.samples == 80 * worker.updates  # exact batches
    assert worker.steps - 16 * (5 + 1) - 80 < totals.samples <= worker.steps


def test_same_seed_gives_the_same_rows() -> None:
    def run(**changes: Any) -> list[tuple[int, int, float]]:
        worker = Worker(settings(**{"seed": 7, **changes}))
        return [row[1:] for row in train_and_close(worker, 6_000)]

    first = run()
    assert len(first) > 50
    assert run() == first
    assert run(seed=8) != first
    assert run(trial=1) != first


def test_atari_repeats_and_moves_every_weight() -> None:
    def run() -> tuple[list[tuple[int, int, float]], list[Any], list[float]]:
        worker = Worker(settings(game="Pong", agents=2, least_batch=10, seed=1))
        before = [p.detach().clone() for p in worker.network.parameters()]
        rows = train_and_close(worker, 60)
        after = [p.detach().clone() for p in worker.network.parameters()]
        moved = [float((a - b).abs().max()) for a, b in zip(after, before, strict=True)]
        return [row[1:] for row in rows], after, moved

    first, second = run(), run()
    assert first[0] == second[0]
    assert all(torch.equal(a, b) for a, b in zip(first[1], second[1], strict=True))
    assert min(first[2]) > 0


def test_an_absurd_learning_rate_is_reported_as_divergence() -> None:
    worker = Worker(settings(learning_rate=1e30))
    rows = train_and_close(worker, 50_000, may_diverge=True)
    assert worker.diverged is not None
    assert "not finite" in worker.diverged
    assert worker.steps < 50_000
    assert [row.episodes for row in rows] == list(range(1, worker.episodes + 1))


def test_hyperparameters_change_while_it_trains_and_bad_values_change_nothing() -> None:
    worker = Worker(settings())
    for _ in range(50):
        worker.advance()
    before = worker.settings
    for changes in ({"gamma": 1.5}, {"t_max": 0, "learning_rate": 0.1}, {"agents": 4}):
        with pytest.raises(LiveError) as caught:
            worker.change(**changes)
        assert "\n" not in str(caught.value)
        assert worker.settings == before
    moved = torch.cat([p.detach().flatten() for p in worker.network.parameters()])
    worker.change(learning_rate=1e-30)  # at once: no update moves anything from now on
    assert worker.settings.learning_rate == 1e-30
    updates = worker.updates
    train_and_close(worker, worker.steps + 1_000)
    assert worker.updates > updates + 5
    still = torch.cat([p.detach().flatten() for p in worker.network.parameters()])
    assert torch.equal(moved, still)


def test_a_game_by_its_other_name_has_as_many_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "available_cores", lambda: [0, 1])
    sizes = []
    reset = EnvironmentGroup.reset

    def spied(group: EnvironmentGroup, seeds: Any) -> Any:
        sizes.append(group.size)
        return reset(group, seeds)

    monkeypatch.setattr(EnvironmentGroup, "reset", spied)
    Worker(settings(game="pong", agents=4, groups=2, overlap="auto")).close()
    assert sizes == [2, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"game": "Pendulum-v1"}, "game: Pendulum-v1 has actions Box(-2.0, 2.0, (1,), float32)"),
        ({"network": "small"}, "network: small cannot take the observations of CartPole-v1"),
        ({"device": "tpu"}, "device: 'tpu' is none of auto, cpu, cuda, cuda:N"),
        ({"device": "cuda:99"}, "device: 'cuda:99' is not here, torch sees "),
        ({"sticky_actions": 0.25}, "sticky_actions: 0.25 is for Atari games, CartPole-v1 has no"),
    ],
)
def test_a_worker_that_cannot_be_made_says_so_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(LiveError) as caught:
        Worker(settings(**changes))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_ms_pacman_is_learned() -> None:
    """The last 50 episodes of 150,000 steps beat random play (about 240) by far."""
    rows = train_and_close(Worker(settings(game="MsPacman", seed=0)), 150_000)
    assert np.mean([row.score for row in rows[-50:]]) > 350
