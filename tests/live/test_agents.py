"""Segments and scores, on a scripted group of environments and on real ones."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ale_py")

from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

from simsched.live.errors import LiveError
from simsched.live.ga3c.agents import Agents, Segment, sample_actions
from simsched.live.ga3c.environment import EnvironmentGroup, Step

pytestmark = pytest.mark.torch

STEPS = 200


class Scripted(EnvironmentGroup):
    """Random rewards and ends; an observation is (agent, episode, step in the episode)."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size, self.actions, self._rng = size, 3, rng
        self.place = np.array([[agent, 0, 0] for agent in range(size)], dtype=np.float64)
        self.log: list[tuple[NDArray[Any], NDArray[Any], Step]] = []

    def reset(self, seeds: Any) -> NDArray[Any]:
        return self.place.copy()

    def step(self, actions: NDArray[np.int64]) -> Step:
        before = self.place.copy()
        ends = self._rng.random(self.size)
        terminated, truncated = ends < 0.1, (ends >= 0.1) & (ends < 0.2)
        self.place[:, 2] += 1
        final = self.place.copy()
        over = terminated | truncated
        self.place[over, 1] += 1
        self.place[over, 2] = 0
        rewards = self._rng.normal(0, 2, self.size)
        step = Step(self.place.copy(), rewards, terminated, truncated, final)
        self.log.append((before, actions, step))
        return step


class PlacePredictor:
    """The value of a place is a known function of it."""

    @staticmethod
    def value(place: NDArray[Any]) -> float:
        return float(100 * place[0] + 10 * place[1] + place[2] + 1)

    def predict(self, observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        values = np.array([self.value(place) for place in observations])
        return np.full((len(observations), 3), 1 / 3), values


@pytest.mark.parametrize("t_max", [1, 2, 5, 40])
def test_segments_are_cut_and_bootstrapped_as_the_paper_says(t_max: int) -> None:
    environments = Scripted(4, np.random.default_rng(t_max))
    agents = Agents(environments, t_max, np.random.SeedSequence(0), clip_rewards=True)
    segments: list[Segment] = []
    episodes = []
    for _ in range(STEPS):
        finished, ended = agents.step(PlacePredictor())
        segments += finished
        episodes += ended
    transitions = {
        tuple(before[a]): (int(actions[a]), step.rewards[a], step, a)
        for before, actions, step in environments.log
        for a in range(4)
    }
    seen = set()
    for segment in segments:
        assert 1 <= len(segment) <= t_max
        places = [tuple(place) for place in segment.observations]
        seen.update(places)
        for place, action, reward in zip(places, segment.actions, segment.rewards, strict=True):
            assert (action, np.clip(reward, -1, 1)) == (
                transitions[place][0],
                np.clip(transitions[place][1], -1, 1),
            )
            assert -1 <= reward <= 1
        # All of one agent and one episode, in order, the last step by its kind of end.
        assert places == [(*places[0][:2], places[0][2] + k) for k in range(len(places))]
        *_, step, agent = transitions[places[-1]]
        after = np.add(places[-1], [0, 0, 1])
        if step.terminated[agent]:
            assert segment.bootstrap == 0
        else:
            assert segment.bootstrap == PlacePredictor.value(after)
            assert step.truncated[agent] or len(segment) == t_max or places[0][1:] == (0, 0)
    assert len(seen) == sum(map(len, segments)) >= 4 * (STEPS - t_max)
    totals: dict[tuple[float, float], float] = {}
    for place in sorted(transitions):
        totals[place[:2]] = totals.get(place[:2], 0.0) + transitions[place][1]
    played = dict.fromkeys(range(4), 0)
    for agent, score in episodes:
        assert score == pytest.approx(totals[agent, played[agent]])
        played[agent] += 1
    assert min(played.values()) > 10


def test_first_segments_are_spread_out() -> None:
    environments = Scripted(4, np.random.default_rng(0))
    environments._rng = np.random.Generator(np.random.PCG64(1))
    agents = Agents(environments, 8, np.random.SeedSequence(0), clip_rewards=True)
    assert agents._limits == [2, 4, 6, 8]


class UniformPredictor:
    """Every action alike."""

    def __init__(self, actions: int) -> None:
        self.actions = actions

    def predict(self, observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        n = len(observations)
        return np.full((n, self.actions), 1 / self.actions), np.zeros(n)


class Spied(EnvironmentGroup):
    """Keeps the seeds and actions that the agents give."""

    def reset(self, seeds: Any) -> NDArray[Any]:
        self.seeds, self.taken = list(seeds), []
        return super().reset(seeds)

    def step(self, actions: NDArray[np.int64]) -> Step:
        self.taken.append(actions.copy())
        return super().step(actions)


def test_cartpole_scores_are_those_of_single_environments() -> None:
    environments = Spied("CartPole-v1", 3)
    agents = Agents(environments, 5, np.random.SeedSequence(4), clip_rewards=True)
    scores: list[list[float]] = [[], [], []]
    for _ in range(300):
        for agent, score in agents.step(UniformPredictor(2))[1]:
            scores[agent].append(score)
    environments.close()
    for agent, seed in enumerate(environments.seeds):
        single = gymnasium.make("CartPole-v1")
        single.reset(seed=seed)
        expected, total = [], 0.0
        for actions in environments.taken:
            _, reward, terminated, truncated, _ = single.step(actions[agent])
            total += float(reward)
            if terminated or truncated:
                expected.append(total)
                total = 0.0
                single.reset()
        single.close()
        assert len(expected) > 5
        assert scores[agent] == expected


def test_atari_scores_are_unclipped_raw_rewards() -> None:
    """Rewards of a separately made environment, fed the same actions, counted by hand."""
    environments = Spied("MsPacman", 2)
    agents = Agents(environments, 5, np.random.SeedSequence(4), clip_rewards=True)
    scores = []
    largest = 0.0
    for _ in range(700):
        segments, ended = agents.step(UniformPredictor(environments.actions))
        scores += ended
        largest = max([largest, *(r for segment in segments for r in segment.rewards)])
    environments.close()
    separate = AtariVectorEnv(
        "ms_pacman", 2, num_threads=1, reward_clipping=False, autoreset_mode=AutoresetMode.SAME_STEP
    )
    separate.reset(seed=np.asarray(environments.seeds))
    totals, expected = [0, 0], []
    for actions in environments.taken:
        _, rewards, terminated, truncated, _ = separate.step(actions)
        for agent in range(2):
            totals[agent] += int(rewards[agent])
            if terminated[agent] or truncated[agent]:
                expected.append((agent, float(totals[agent])))
                totals[agent] = 0
    separate.close()
    assert len(expected) >= 2
    assert [tuple(episode) for episode in scores] == expected
    assert max(score for _, score in expected) >= 60  # dots give 10 each
    assert largest == 1.0  # and are trained on as 1


def test_time_limits_are_told_from_true_ends() -> None:
    environments = EnvironmentGroup("MountainCar-v0", 2)  # nothing random reaches its flag
    environments.reset([1, 2])
    for k in range(200):
        step = environments.step(np.array([0, 2]))
        assert not step.terminated.any()
        assert step.truncated.tolist() == [k == 199] * 2
    final = np.asarray(step.final_observations[0])
    assert final.shape == (2,)
    assert not np.array_equal(final, step.observations[0])
    environments.close()


def test_an_action_out_of_range_is_refused_before_ale_waits_for_ever() -> None:
    environments = EnvironmentGroup("MsPacman", 1)
    environments.reset([1])
    with pytest.raises(LiveError, match=r"^actions: \[9\] must be 1 whole numbers from 0 to 8$"):
        environments.step(np.array([9]))
    environments.close()


def test_actions_are_drawn_as_the_policy_says() -> None:
    policy = np.tile([0.2, 0.0, 0.5, 0.3], (20_000, 1))
    drawn = sample_actions(policy, np.random.default_rng(0).random(20_000))
    shares = np.bincount(drawn, minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.2, 0.0, 0.5, 0.3], atol=0.01)
    assert shares[1] == 0
    edge = sample_actions(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0.0, np.nextafter(1, 0)]))
    assert edge.tolist() == [0, 0]
