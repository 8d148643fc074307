"""Segments and episodes, on a scripted group of environments and on real ones."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ale_py")

from environment_rig import Spied, UniformPredictor

from simsched.live.ga3c.agents import AgentGroup, Episode, Prediction, Segment
from simsched.live.ga3c.batches import Batcher, Sample
from simsched.live.ga3c.environment import EnvironmentGroup, Step
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.settings import Settings

pytestmark = pytest.mark.torch

STEPS = 200
GAMMA = 0.8


class Scripted(EnvironmentGroup):
    """Random rewards and ends; an observation is (agent, episode, step in the episode)."""

    def __init__(self, size: int, rng: np.random.Generator, ends: float = 0.1) -> None:
        self.size, self.actions, self._rng, self._ends = size, 3, rng, ends
        self.place = np.array([[agent, 0, 0] for agent in range(size)], dtype=np.float64)
        self.log: list[tuple[NDArray[Any], NDArray[Any], Step]] = []

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        return self.place.copy()

    def step(self, actions: NDArray[np.int64]) -> Step:
        before = self.place.copy()
        ends = self._rng.random(self.size)
        p = self._ends  # of a true end, and of a time limit
        terminated, truncated = ends < p, (ends >= p) & (ends < 2 * p)
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
    """Value and policy of a place are known functions of it; each call is one update later."""

    def __init__(self) -> None:
        self.calls = 0
        self.single = 0

    @staticmethod
    def value(place: Sequence[float] | NDArray[Any]) -> float:
        return float(100 * place[0] + 10 * place[1] + place[2] + 1)

    @staticmethod
    def policy(place: Sequence[float] | NDArray[Any]) -> list[float]:
        p = 0.2 + 0.1 * (int(place[2]) % 4)
        return [p, 0.6 - p, 0.4]

    def predict(self, observations: NDArray[Any]) -> Prediction:
        self.calls += 1
        self.single += len(observations) == 1
        policy = np.array([self.policy(place) for place in observations], dtype=np.float32)
        values = np.array([self.value(place) for place in observations], dtype=np.float32)
        return Prediction(policy, values, self.calls)


def group(
    environments: EnvironmentGroup, t_max: int, *, stagger: bool = True, clip: bool = True
) -> tuple[AgentGroup, Knobs]:
    knobs = Knobs(Settings(game="CartPole-v1", t_max=t_max, gamma=GAMMA, clip_rewards=clip))
    return AgentGroup(environments, knobs, np.random.SeedSequence(0), stagger=stagger), knobs


def play(t_max: int, **options: bool) -> tuple[Scripted, list[Segment], list[Episode]]:
    environments = Scripted(4, np.random.default_rng(t_max))
    agents, _ = group(environments, t_max, **options)
    segments: list[Segment] = []
    episodes: list[Episode] = []
    predictor = PlacePredictor()
    for _ in range(STEPS):
        finished, ended = agents.step(predictor)
        segments += finished
        episodes += ended
    return environments, segments, episodes


Transition = tuple[int, float, bool, bool]


def transitions(environments: Scripted) -> dict[tuple[float, ...], Transition]:
    """Action, raw reward and ends of each place, from the environments' own log."""
    return {
        tuple(before[a]): (
            int(actions[a]),
            float(step.rewards[a]),
            bool(step.terminated[a]),
            bool(step.truncated[a]),
        )
        for before, actions, step in environments.log
        for a in range(environments.size)
    }


@pytest.mark.parametrize("t_max", [1, 2, 5, 40])
@pytest.mark.parametrize("clip", [True, False])
def test_segments_are_cut_and_bootstrapped_as_the_paper_says(t_max: int, clip: bool) -> None:
    environments, segments, _ = play(t_max, clip=clip)
    known = transitions(environments)
    seen: set[tuple[float, ...]] = set()
    for segment in segments:
        assert 1 <= len(segment) <= t_max
        places = [tuple(place) for place in segment.observations]
        assert not seen & set(places)
        seen.update(places)
        for place, action, reward in zip(places, segment.actions, segment.rewards, strict=True):
            raw = known[place][1]
            assert (action, reward) == (known[place][0], np.clip(raw, -1, 1) if clip else raw)
        # All of one agent and one episode, in order, the last step by its kind of end.
        assert places == [(*places[0][:2], places[0][2] + k) for k in range(len(places))]
        assert not any(known[place][2] or known[place][3] for place in places[:-1])
        *_, terminated, truncated = known[places[-1]]
        after = np.add(places[-1], [0, 0, 1])
        if terminated:
            assert segment.bootstrap == 0
            assert segment.following is None
        else:
            assert segment.bootstrap == PlacePredictor.value(after)
            assert segment.following is not None
            assert segment.following.tolist() == after.tolist()
            assert truncated or len(segment) == t_max or places[0][1:] == (0, 0)
    assert len(seen) == sum(map(len, segments)) >= 4 * (STEPS - t_max)
    kinds = {(known[tuple(s.observations[-1])][2:], len(s) == t_max) for s in segments}
    assert len(kinds) >= {1: 3, 40: 2}.get(t_max, 5)  # each end, of full segments and others


@pytest.mark.parametrize("t_max", [3, 10])
@pytest.mark.parametrize("least", [0, 7])
def test_every_return_follows_from_the_environments_log_alone(t_max: int, least: int) -> None:
    """For each sample: rewards up to the end of its segment, then what the end says."""
    environments, segments, _ = play(t_max, clip=False)
    known = transitions(environments)
    last = {
        tuple(place): tuple(segment.observations[-1])
        for segment in segments
        for place in segment.observations
    }
    settings = Settings(game="CartPole-v1", t_max=t_max, gamma=GAMMA, least_batch=least)
    batcher = Batcher(Knobs(settings))
    batcher.add(segments)
    checked = 0
    while not batcher.missing:
        for sample in batcher.take():
            assert isinstance(sample, Sample)
            place = tuple(sample.observation)
            agent, episode, first = place
            n = int(last[place][2] - first) + 1
            ahead = [(agent, episode, first + k) for k in range(n)]
            expected = sum(GAMMA**k * known[p][1] for k, p in enumerate(ahead))
            if not known[ahead[-1]][2]:
                expected += GAMMA**n * PlacePredictor.value((agent, episode, first + n))
            assert sample.value == pytest.approx(expected, rel=1e-6)
            assert sample.action == known[place][0]
            checked += 1
    assert checked >= sum(map(len, segments)) - max(0, least - 1)


def test_probabilities_and_versions_are_those_of_the_acting_policy() -> None:
    """A time limit asks for one prediction more, of a single observation, in the same step."""
    environments = Scripted(4, np.random.default_rng(0))
    agents, _ = group(environments, 5)
    predictor = PlacePredictor()
    version_of: dict[tuple[float, ...], int] = {}
    segments: list[Segment] = []
    limits = 0
    for _ in range(STEPS):
        places = [tuple(place) for place in agents.observations]
        version_of |= dict.fromkeys(places, predictor.calls + 1)
        segments += agents.step(predictor)[0]
        limits += int(environments.log[-1][2].truncated.sum())
    assert predictor.single == limits > 10
    for segment in segments:
        places = [tuple(place) for place in segment.observations]
        assert segment.versions == [version_of[place] for place in places]
        policies = [PlacePredictor.policy(place) for place in places]
        acted = zip(policies, segment.actions, strict=True)
        assert segment.probabilities == pytest.approx([policy[a] for policy, a in acted])


def test_episodes_are_counted_from_the_environments_rewards() -> None:
    environments, _, episodes = play(5)
    totals: dict[tuple[float, ...], float] = {}
    lengths: dict[tuple[float, ...], int] = {}
    for place, (_, reward, _, _) in sorted(transitions(environments).items()):
        totals[place[:2]] = totals.get(place[:2], 0.0) + reward
        lengths[place[:2]] = lengths.get(place[:2], 0) + 1
    played = dict.fromkeys(range(4), 0)
    for agent, score, length in episodes:
        assert score == pytest.approx(totals[agent, played[agent]])
        assert length == lengths[agent, played[agent]]
        played[agent] += 1
    ends = sum(int((step.terminated | step.truncated).sum()) for _, _, step in environments.log)
    assert sum(played.values()) == ends
    assert min(played.values()) > 10


@pytest.mark.parametrize(("stagger", "limits"), [(True, [2, 4, 6, 8]), (False, [8, 8, 8, 8])])
def test_first_segments_are_spread_out_if_asked_to(stagger: bool, limits: list[int]) -> None:
    environments = Scripted(4, np.random.default_rng(5), ends=0.0)
    agents, _ = group(environments, 8, stagger=stagger)
    first: dict[float, list[int]] = {}
    for _ in range(40):
        for segment in agents.step(PlacePredictor())[0]:
            first.setdefault(segment.observations[0][0], []).append(len(segment))
    assert [first[agent][0] for agent in range(4)] == limits
    assert {n for lengths in first.values() for n in lengths[1:]} == {8}


def test_t_max_changes_from_each_agents_next_segment() -> None:
    environments = Scripted(3, np.random.default_rng(1))
    agents, knobs = group(environments, 6, stagger=False)
    for _ in range(3):  # in the middle of everybody's segment, but where an episode ended
        agents.step(PlacePredictor())
    knobs.change(t_max=2)
    known_lengths: list[int] = []
    started: list[tuple[float, ...]] = []
    for _ in range(60):
        for segment in agents.step(PlacePredictor())[0]:
            known_lengths.append(len(segment))
            started.append(tuple(segment.observations[0]))
    known = transitions(environments)
    for length, place in zip(known_lengths, started, strict=True):
        last = (*place[:2], place[2] + length - 1)
        ended = known[last][2] or known[last][3]
        before_the_change = place in {tuple(row) for b, _, _ in environments.log[:3] for row in b}
        assert length <= (6 if before_the_change else 2)
        assert ended or length == (6 if before_the_change else 2)
    assert 6 in known_lengths


def test_cartpole_scores_are_those_of_single_environments() -> None:
    environments = Spied(Settings(game="CartPole-v1"), 3)
    agents, _ = group(environments, 5)
    scores: list[list[float]] = [[], [], []]
    lengths: list[list[float]] = [[], [], []]
    for _ in range(300):
        for agent, score, length in agents.step(UniformPredictor(2))[1]:
            scores[agent].append(score)
            lengths[agent].append(length)
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
        assert scores[agent] == expected == lengths[agent]  # it pays 1 a step


def test_what_a_segment_holds_is_never_written_over() -> None:
    """Observations are kept without a copy: the environments must give new arrays each time."""
    for game in ("CartPole-v1", "Pong"):
        environments = EnvironmentGroup(Settings(game=game), 2)
        agents, _ = group(environments, 30)
        predictor = UniformPredictor(environments.actions)
        copies, segments = [agents.observations.copy()], []
        for _ in range(25):
            segments += agents.step(predictor)[0]
            copies.append(agents.observations.copy())
        environments.close()
        segments += agents.cut(np.zeros(2), all_of_them=True)
        held = [o for segment in segments for o in segment.observations]
        # One agent's segments follow each other; the two agents' may come in any order.
        remaining = [o.tobytes() for step in copies[:-1] for o in step]
        assert sorted(o.tobytes() for o in held) == sorted(remaining)
