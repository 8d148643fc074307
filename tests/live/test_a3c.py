"""A3C: its updates are those of a naive loop, and its processes neither die nor live unnoticed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.a3c_process import Agent, Shared, Task, share  # noqa: E402
from simsched.live.ga3c.environment import EnvironmentGroup  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.worker import Row, Worker  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def cartpole(agents: int = 1, **changes: Any) -> Settings:
    fields: dict[str, Any] = {
        "game": "CartPole-v1",
        "algorithm": "a3c",
        "agents": agents,
        "groups": 1,
        "predictors": 1,
        "learning_rate": 1e-3,
        "overlap": "off",
        "seed": 5,
    }
    return Settings(**{**fields, **changes})


def first_network(settings: Settings) -> Any:
    """The network that a worker starts with."""
    group = EnvironmentGroup(settings, 1)
    seed = np.random.SeedSequence((settings.seed, settings.trial, 0)).generate_state(1)[0]
    shape, dtype = group.observation_shape, group.observation_dtype
    return build(settings, shape, dtype, group.actions, seed=int(seed))


def agents_in_this_process(settings: Settings, start_steps: int = 0) -> tuple[Shared, list[Agent]]:
    """What the processes hold, without the processes."""
    learner = Learner(first_network(settings), Knobs(settings))
    shared = share(learner, settings.agents, start_steps)
    key = (settings.seed, settings.trial, 1)
    return shared, [Agent(Task(k, settings, shared, key)) for k in range(settings.agents)]


def train(worker: Worker, steps: int) -> list[Row]:
    rows = []
    while worker.steps < steps and worker.diverged is None:
        rows += worker.advance()
    return rows


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def process_ids() -> list[int]:
    """Of the agents that this process started, in their order."""
    children = [p for p in multiprocessing.active_children() if p.name.startswith("agent-")]
    return [p.pid or 0 for p in sorted(children, key=lambda p: p.name)]


def naive_a3c(settings: Settings, updates: int) -> tuple[dict[str, Any], list[Any]]:
    """A3C with one agent, in plain torch: the weights by name and RMSProp's mean squares."""
    network = first_network(settings)
    parameters = list(network.parameters())
    squares = [torch.zeros_like(p) for p in parameters]
    seeds = np.random.SeedSequence((settings.seed, settings.trial, 1, 0))
    draws = np.random.default_rng(seeds.spawn(1)[0])
    reset_seed = np.random.default_rng(seeds.spawn(1)[0]).integers(0, 2**31 - 1, size=1)[0]
    environment = gymnasium.make("CartPole-v1")
    observation, _ = environment.reset(seed=int(reset_seed))
    for _ in range(updates):
        steps: list[tuple[Any, int, float]] = []
        terminated = truncated = False
        while len(steps) < settings.t_max and not (terminated or truncated):
            logits, _ = network(torch.from_numpy(observation)[None])
            policy = torch.softmax(logits, 1)[0].detach().numpy().astype(float)
            action = int(draws.random() * policy.sum() >= policy[0])
            following, reward, terminated, truncated, _ = environment.step(action)
            steps.append((observation, action, float(np.clip(float(reward), -1, 1))))
            observation = following
        after = network(torch.from_numpy(observation)[None])[1].detach()
        target = 0.0 if terminated else float(after[0])
        if terminated or truncated:
            observation, _ = environment.reset()
        loss = torch.tensor(0.0)
        for seen, action, reward in reversed(steps):
            target = reward + settings.gamma * target
            logits, values = network(torch.from_numpy(seen)[None])
            policy = torch.softmax(logits[0], 0)
            advantage = target - float(values[0].detach())
            entropy = -(policy * policy.log()).sum()
            loss = loss - policy[action].log() * advantage + (target - values[0]) ** 2 / 2
            loss = loss - settings.entropy_weight * entropy
        for p, square, g in zip(
            parameters, squares, torch.autograd.grad(loss, parameters), strict=True
        ):
            square.mul_(settings.rms_decay).add_((1 - settings.rms_decay) * g * g)
            p.data -= settings.learning_rate * g / (square.sqrt() + settings.rms_epsilon)
    return network.state_dict(), squares


def test_one_agent_does_what_a_naive_loop_does_until_it_diverges(tmp_path: Path) -> None:
    worker = Worker(cartpole())
    rows = []
    while worker.updates < 30:
        rows += worker.advance()
    assert worker.save(tmp_path / "c.pt")
    saved = torch.load(tmp_path / "c.pt", weights_only=True)
    assert saved["random"]["groups"] == []
    weights, squares = naive_a3c(worker.settings, saved["updates"])
    for name, expected in weights.items():
        torch.testing.assert_close(saved["network"][name], expected, rtol=1e-4, atol=1e-5)
    flat = torch.cat([square.flatten() for square in squares])
    found = saved["optimizer"]["state"][0]
    torch.testing.assert_close(found["square_avg"], flat, rtol=1e-3, atol=1e-5)
    assert int(found["step"]) == saved["updates"]

    worker.change(learning_rate=1e30)
    rows += train(worker, worker.steps + 50_000)
    assert worker.diverged is not None
    assert "not finite" in worker.diverged
    seconds = worker.seconds
    assert worker.advance() == []
    assert worker.save(tmp_path / "d.pt") is False
    assert [row.episodes for row in rows] == list(range(1, worker.episodes + 1))
    assert rows[-1].seconds <= seconds == worker.seconds  # its clock has stopped
    worker.close()


def first_updates(algorithm: str, count: int, **changes: Any) -> list[Any]:
    """The weights after each of the first updates of an engine in one thread."""
    worker = Worker(cartpole(algorithm=algorithm, **changes))
    found: list[Any] = []
    while len(found) < count:
        before = worker.updates
        worker.advance()
        if worker.updates > before:
            found.append(torch.cat([p.detach().flatten() for p in worker.network.parameters()]))
    worker.close()
    return found


def first_a3c_updates(count: int, **changes: Any) -> list[Any]:
    shared, (agent,) = agents_in_this_process(cartpole(**changes))
    found = []
    for _ in range(count):
        agent.turn()
        found.append(shared.weights.clone())
    return found


@pytest.mark.parametrize("optimizer", ["rmsprop", "rmsprop-tf", "adam"])
def test_the_first_update_is_the_same_in_all_three(optimizer: str) -> None:
    """Later GA3C begins a segment by a prediction older than the last update."""
    (a3c,) = first_a3c_updates(1, optimizer=optimizer, clip_norm=2.0)
    for algorithm in ("a2c", "ga3c"):
        (other,) = first_updates(algorithm, 1, optimizer=optimizer, clip_norm=2.0)
        assert torch.equal(a3c, other)


def test_a3c_with_one_agent_is_a2c_while_segments_are_rollouts() -> None:
    """In segments of one step no episode's end cuts a rollout in two: equal for ever."""
    for mine, theirs in zip(
        first_a3c_updates(80, t_max=1), first_updates("a2c", 80, t_max=1), strict=True
    ):
        assert torch.equal(mine, theirs)


def test_gradients_are_of_the_copy_and_lag_counts_the_others_updates() -> None:
    alone, (agent, _) = agents_in_this_process(cartpole(2))
    agent.turn()
    assert (agent.updates[0].lag, agent.updates[0].greatest_lag) == (0, 0)

    shared, (agent, other) = agents_in_this_process(cartpole(2))
    play = agent._play

    def meanwhile() -> Any:
        for _ in range(3):
            other.turn()
        assert not torch.equal(shared.weights, start)
        return play()

    start = shared.weights.clone()
    agent._play = meanwhile  # type: ignore[method-assign]
    agent.turn()
    assert (agent.updates[0].lag, agent.updates[0].greatest_lag) == (3, 3)
    alone_updates = alone.counts[:, 1].tolist()
    assert (alone_updates, shared.counts[:, 1].tolist()) == ([1, 0, 0], [1, 3, 0])
    assert not torch.equal(shared.weights, alone.weights)
    # The gradient is the one of the untouched copy, which is what it saw when it was alone.
    _, (again, _) = agents_in_this_process(cartpole(2))
    again.turn()
    assert agent.updates[0].gradient_norm == again.updates[0].gradient_norm


def test_schedules_follow_the_steps_of_all_agents() -> None:
    shared, (agent, other) = agents_in_this_process(cartpole(2, anneal_steps=40), start_steps=20)
    other.turn()
    for _ in range(3):
        agent.turn()
    assert shared.counts[:, 0].sum() >= 40 > 20 + shared.counts[0, 0]
    before = shared.weights.clone()
    agent.turn()
    assert torch.equal(shared.weights, before)


def test_it_learns_counts_exactly_changes_and_names_who_was_killed() -> None:
    worker = Worker(cartpole(2, seed=0))
    rows = train(worker, 5_000)
    scores = [row.score for row in rows]
    assert np.mean(scores[:5]) < 60  # by the tenth it may have learned already
    assert np.mean(scores[-20:]) > 60
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
    assert not is_running(first)
    assert not is_running(second)


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
        assert is_running(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def test_a_clock_of_one_process_is_refused() -> None:
    with pytest.raises(LiveError, match="clock: cpu measures training in one thread; use wall"):
        Worker(cartpole(), clock=time.process_time)
