"""A3C's processes learn, go on from a checkpoint, and neither die nor live unnoticed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from a3c_rig import agents_in_this_process, cartpole, first_network  # noqa: E402
from small_workers import train  # noqa: E402
from worker_programs import lives  # noqa: E402

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.worker import Row, Worker  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]


def process_ids() -> list[int]:
    """Of the agents that this process started, in their order."""
    children = [p for p in multiprocessing.active_children() if p.name.startswith("agent-")]
    return [p.pid or 0 for p in sorted(children, key=lambda p: p.name)]


@pytest.fixture(autouse=True)
def no_agent_is_left() -> Iterator[None]:
    """A test that fails before it closes its worker fails alone."""
    yield
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


def train_until_learned(worker: Worker, score: float, within_steps: int) -> list[Row]:
    """Until 20 episodes reach the score; how soon depends on how processes take turns."""
    rows: list[Row] = []
    while len(rows) < 25 or np.mean([row.score for row in rows[-20:]]) <= score:
        assert worker.steps < within_steps, [row.score for row in rows[-20:]]
        rows += train(worker, worker.steps + 500)
    return rows


def test_it_learns_counts_exactly_changes_and_names_who_was_killed() -> None:
    worker = Worker(cartpole(2, seed=0))
    rows = train_until_learned(worker, score=60, within_steps=60_000)
    scores = [row.score for row in rows]
    assert min(scores[:5]) < 60  # their mean may be more: the other agent has learned meanwhile
    assert [row.episodes for row in rows] == list(range(1, len(rows) + 1))
    assert all(a.steps <= b.steps and a.seconds <= b.seconds for a, b in pairwise(rows))
    # CartPole pays 1 a step: finished episodes and those in flight make up all steps.
    assert 0 <= worker.steps - sum(scores) <= 4 * 500
    with worker.engine.still():
        before, steps = worker.monitor.totals(), worker.steps
        time.sleep(0.05)
        assert worker.steps == steps  # nobody acts
        assert (before.steps, before.samples, before.updates) == (steps, steps, worker.updates)
        assert before.predictions == before.prediction_batches == steps
    assert before.lag > 0
    assert worker.monitor.greatest_lag() >= 1

    worker.change(t_max=1)
    worker.advance()  # tells the processes, who hear it before they hear this:
    with worker.engine.still():
        before = worker.monitor.totals()
    train(worker, worker.steps + 200)
    with worker.engine.still():
        after = worker.monitor.totals()
    assert after.samples - before.samples == after.updates - before.updates > 100

    first, second = process_ids()
    os.kill(first, signal.SIGINT)  # Ctrl-C is for the parent alone
    train(worker, worker.steps + 100)
    os.kill(second, signal.SIGKILL)
    with pytest.raises(LiveError, match=r"^agent 1 died: killed by SIGKILL$"):
        train(worker, worker.steps + 1_000_000)
    with pytest.raises(LiveError, match="agent 1 died"):
        worker.advance()
    worker.close()
    worker.close()
    assert process_ids() == []
    assert not lives(first)
    assert not lives(second)


def test_a_saved_trial_goes_on_and_a_failing_process_says_why(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    state = {"seconds": 7.5, "steps": 640, "episodes": 3, "random": {"groups": []}}
    shared, (agent,) = agents_in_this_process(cartpole(optimizer="adam"))
    network = first_network(cartpole())
    learner = Learner(network, Knobs(cartpole(optimizer="adam")))
    for _ in range(20):
        agent.turn()
    learner.flat.values.copy_(shared.weights)
    vector = learner.optimizer.param_groups[0]["params"][0]
    learner.optimizer.state[vector] = dict(shared.statistics)
    learner.updates = 20
    torch.save({**learner.state(), **state}, path)

    # The learning rate has fallen to 0 by these steps, so the weights stay what they were.
    worker = Worker(cartpole(optimizer="adam", anneal_steps=600), path)
    rows = train(worker, 700)
    assert worker.steps >= 700
    assert all(row.seconds > 7.5 and row.steps > 640 for row in rows)
    assert worker.save(tmp_path / "d.pt")
    again = torch.load(tmp_path / "d.pt", weights_only=True)
    assert again["updates"] - 20 == worker.monitor.totals().updates > 10
    assert int(again["optimizer"]["state"][0]["step"]) == again["updates"]
    for name, tensor in network.state_dict().items():
        assert torch.equal(again["network"][name], tensor)

    broken = msgspec.structs.replace(worker.settings)
    msgspec.structs.force_setattr(broken, "t_max", "five")
    worker._knobs.settings = broken
    with pytest.raises(LiveError) as caught:
        train(worker, 1_000_000)
    assert str(caught.value).startswith("agent 0 died: TypeError: '<' not supported")
    assert "\n" not in str(caught.value)
    assert "Traceback" in caught.value.__notes__[0]
    worker.close()
    assert process_ids() == []


ORPHANS = """
import multiprocessing
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.worker import Worker
worker = Worker(Settings(
    game="CartPole-v1", algorithm="a3c", agents=1, groups=1, predictors=1
))
print(*(p.pid for p in multiprocessing.active_children()), flush=True)
while True:
    worker.advance()
"""


def test_processes_end_when_their_parent_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        (child,) = map(int, parent.stdout.readline().split())
        assert lives(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(child)


def test_a_clock_of_one_process_is_refused() -> None:
    with pytest.raises(LiveError, match="clock: cpu measures training in one thread; use wall"):
        Worker(cartpole(), clock=time.process_time)
