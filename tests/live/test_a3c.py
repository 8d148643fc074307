"""A3C: its updates are those of a naive loop, on a copy, while others go on."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from a3c_rig import agents_in_this_process, cartpole, first_network  # noqa: E402
from small_workers import train  # noqa: E402

from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]


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


def test_one_agent_does_what_a_naive_loop_does() -> None:
    shared, (agent,) = agents_in_this_process(cartpole())
    for _ in range(100):
        agent.turn()
    weights, squares = naive_a3c(cartpole(), 100)
    expected = torch.cat([tensor.flatten() for tensor in weights.values()])
    torch.testing.assert_close(shared.weights, expected, rtol=1e-4, atol=1e-5)
    flat = torch.cat([square.flatten() for square in squares])
    torch.testing.assert_close(shared.statistics["square_avg"], flat, rtol=1e-3, atol=1e-5)


def test_a_process_does_what_its_agent_does_until_it_diverges(tmp_path: Path) -> None:
    """However many updates there were when it was saved: that is a matter of time."""
    worker = Worker(cartpole())
    rows = []
    while worker.updates < 30:
        rows += worker.advance()
    assert worker.save(tmp_path / "c.pt")
    saved = torch.load(tmp_path / "c.pt", weights_only=True)
    assert saved["random"]["groups"] == []
    shared, (agent,) = agents_in_this_process(cartpole())
    for _ in range(saved["updates"]):
        agent.turn()
    found = saved["optimizer"]["state"][0]
    weights = torch.cat([tensor.flatten() for tensor in saved["network"].values()])
    assert torch.equal(weights, shared.weights)
    assert torch.equal(found["square_avg"], shared.statistics["square_avg"])
    assert int(found["step"]) == saved["updates"]

    worker.change(learning_rate=1e30)
    rows += train(worker, worker.steps + 1_000_000, may_diverge=True)
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
