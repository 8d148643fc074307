"""A worker whose parts work at once: counts, bounded lag, changes while it trains."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from overlapped_rig import PATIENCE_S, lag_bound  # noqa: E402

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.agents import AgentGroup, Segment  # noqa: E402
from simsched.live.ga3c.batches import Batcher  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.worker import Row, Worker  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not left, f"still running: {left}"


def cartpole(**changes: Any) -> Settings:
    fields = {
        "game": "CartPole-v1",
        "overlap": "on",
        "agents": 8,
        "groups": 2,
        "predictors": 2,
        "trainers": 1,
        "least_batch": 20,
        "training_queue": 40,
        "threads": 1,
        "seed": 3,
    }
    return Settings(**{**fields, **changes})


def go_on(worker: Worker, condition: Callable[[], Any]) -> list[Row]:
    rows: list[Row] = []
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and worker.diverged is None:
        assert time.monotonic() < deadline, "waited in vain"
        rows += worker.advance()
    return rows


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trainers": 2, "least_batch": 0},
        {"vtrace": True, "trainers": 2},
        {"groups": 3, "predictors": 1, "optimizer": "adam"},
    ],
)
def test_a_worker_with_threads_trains_and_its_counts_add_up(changes: dict[str, Any]) -> None:
    worker = Worker(cartpole(**changes))
    before = [p.detach().clone() for p in worker.network.parameters()]
    rows = go_on(worker, lambda: worker.steps >= 3_000 and worker.updates >= 20)
    worker.close()
    rows += worker.advance() if worker.diverged else []
    after = list(worker.network.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert worker.diverged is None
    totals = worker.monitor.totals()
    assert totals.updates == worker.updates
    assert totals.samples <= totals.steps == worker.steps
    if worker.settings.least_batch and not worker.settings.vtrace:
        assert totals.samples == 20 * worker.updates
    # Each step was predicted for once, and at time limits once more; some are in the air.
    assert totals.steps <= totals.predictions <= totals.steps + totals.episodes + 8
    assert [row.episodes for row in rows] == list(range(1, len(rows) + 1))
    assert all(a.steps <= b.steps for a, b in pairwise(rows))
    assert all(a.seconds <= b.seconds for a, b in pairwise(rows))
    assert sum(row.score for row in rows) <= rows[-1].steps  # CartPole pays 1 a step
    assert 8 < np.mean([row.score for row in rows]) < 500


def test_the_lag_of_a_real_worker_is_bounded() -> None:
    worker = Worker(cartpole(groups=1, predictors=1))
    go_on(worker, lambda: worker.updates >= 150)
    worker.close()
    assert 0 <= worker.monitor.greatest_lag() <= lag_bound(8, 5, 40, 20)


def test_finishing_tells_the_episodes_that_were_not_told_yet() -> None:
    worker = Worker(cartpole())
    rows: list[Row] = []
    deadline = time.monotonic() + PATIENCE_S
    while worker.steps < 2_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    rows += worker.advance()
    time.sleep(0.05)
    rows += worker.finish()
    seconds = worker.seconds
    assert [row.episodes for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == worker.monitor.totals().episodes == worker.episodes
    time.sleep(0.02)
    assert worker.seconds == seconds >= rows[-1].seconds  # the clock has stopped
    assert worker.finish() == []
    worker.close()


def test_t_max_and_gamma_change_while_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    add = Batcher.add

    def spied(batcher: Batcher, segments: list[Segment]) -> None:
        lengths.extend(map(len, segments))
        add(batcher, segments)

    monkeypatch.setattr(Batcher, "add", spied)
    stepped, step = Counter[AgentGroup](), AgentGroup.step

    def counted(group: AgentGroup, predictor: Any) -> Any:
        stepped[group] += 1  # what it finished before is in the queue
        return step(group, predictor)

    monkeypatch.setattr(AgentGroup, "step", counted)
    worker = Worker(cartpole(t_max=5))
    go_on(worker, lambda: len(lengths) > 50)
    with pytest.raises(LiveError, match=r"^gamma: 1\.5 is outside \(0, 1\]$"):
        worker.change(gamma=1.5, t_max=9)
    assert max(lengths) <= 5
    worker.change(t_max=2)
    before = stepped.copy()
    go_on(worker, lambda: all(stepped[group] > n + 7 for group, n in before.items()))
    waiting = len(lengths)
    go_on(worker, lambda: len(lengths) > waiting + 60)  # more than the queue holds
    settled = len(lengths)
    go_on(worker, lambda: len(lengths) > settled + 60)
    worker.close()
    assert max(lengths[:50]) == 5
    assert max(lengths[settled:]) == 2
