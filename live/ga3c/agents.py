"""Agents: one environment each, stepped together; they live on predictions and make segments."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simsched.live.ga3c.environment import EnvironmentGroup, Step


class Predictor(Protocol):
    """What agents ask: the policy and the value of each observation."""

    def predict(self, observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the probabilities (n, actions) and the values (n,)."""
        ...


@dataclass(slots=True)
class Segment:
    """At most t_max steps of one agent, within one episode, in order."""

    observations: list[NDArray[Any]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    bootstrap: float = 0.0
    """Value of the state after the last step; 0 where the episode truly ended."""

    def __len__(self) -> int:
        return len(self.rewards)


class Episode(NamedTuple):
    """An episode that ended."""

    agent: int
    score: float
    """Undiscounted return of the raw, unclipped rewards."""


def sample_actions(policy: NDArray[Any], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw one action per row of a policy (n, actions) from uniform numbers (n,) in [0, 1)."""
    cumulative = np.cumsum(policy, axis=1, dtype=np.float64)
    passed = cumulative <= (uniform * cumulative[:, -1])[:, None]
    actions: NDArray[np.int64] = np.minimum(passed.sum(axis=1), policy.shape[1] - 1)
    return actions


class Agents:
    """A group of agents.

    First segments are of different lengths, so that later ones do not all end together and
    the trainer sees a steady flow, as it does with agents that run on their own.
    """

    def __init__(
        self,
        environments: EnvironmentGroup,
        t_max: int,
        seeds: np.random.SeedSequence,
        *,
        clip_rewards: bool,
    ) -> None:
        self._environments = environments
        self._t_max = t_max
        self._clip_rewards = clip_rewards
        self._random = np.random.default_rng(seeds.spawn(1)[0])
        n = environments.size
        reset_seeds = np.random.default_rng(seeds.spawn(1)[0]).integers(0, 2**31 - 1, size=n)
        self._observations = environments.reset(reset_seeds.tolist())
        self._segments = [Segment() for _ in range(n)]
        self._limits = [max(1, t_max * (agent + 1) // n) for agent in range(n)]
        self._returns = np.zeros(n)

    def step(self, predictor: Predictor) -> tuple[list[Segment], list[Episode]]:
        """Take one step with every agent.

        Returns the segments this completed and the episodes it ended, in agent order.
        """
        policy, values = predictor.predict(self._observations)
        finished = self._cut(values)
        actions = sample_actions(policy, self._random.random(len(policy)))
        step = self._environments.step(actions)
        rewards = np.clip(step.rewards, -1.0, 1.0) if self._clip_rewards else step.rewards
        taken = zip(
            self._segments, self._observations, actions.tolist(), rewards.tolist(), strict=True
        )
        for segment, observation, action, reward in taken:
            segment.observations.append(observation)
            segment.actions.append(action)
            segment.rewards.append(reward)
        self._returns += step.rewards
        self._observations = step.observations
        return finished, self._end_episodes(step, predictor, finished)

    def _cut(self, values: NDArray[Any]) -> list[Segment]:
        """End the segments that are full; the newest prediction says what comes after."""
        finished = []
        for agent, segment in enumerate(self._segments):
            if len(segment) >= self._limits[agent]:
                segment.bootstrap = float(values[agent])
                finished.append(segment)
                self._segments[agent] = Segment()
                self._limits[agent] = self._t_max
        return finished

    def _end_episodes(
        self, step: Step, predictor: Predictor, finished: list[Segment]
    ) -> list[Episode]:
        episodes = []
        for agent in np.flatnonzero(step.terminated | step.truncated).tolist():
            segment = self._segments[agent]
            if step.truncated[agent]:
                final = np.asarray(step.final_observations[agent])
                segment.bootstrap = float(predictor.predict(final[None])[1][0])
            finished.append(segment)
            self._segments[agent] = Segment()
            self._limits[agent] = self._t_max
            episodes.append(Episode(agent, float(self._returns[agent])))
            self._returns[agent] = 0.0
        return episodes
