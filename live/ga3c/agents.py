"""Agents: one environment each; they live on predictions and make segments of experience."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simsched.live.ga3c.environment import EnvironmentGroup, Step
from simsched.live.ga3c.knobs import Knobs


class Prediction(NamedTuple):
    """The network's answer to n observations."""

    policy: NDArray[np.float32]
    """(n, actions), probabilities."""
    values: NDArray[np.float32]
    """(n,)."""
    version: int
    """How many updates the network had seen."""


class Predictor(Protocol):
    """What agents ask: the policy and the value of each observation."""

    def predict(self, observations: NDArray[Any]) -> Prediction:
        """Answer observations (n, ...)."""
        ...


@dataclass(slots=True)
class Segment:
    """At most t_max steps of one agent, within one episode, in order."""

    observations: list[NDArray[Any]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    """Of each action, under the policy that chose it."""
    versions: list[int] = field(default_factory=list)
    """Updates that the network had seen when it chose each action."""
    bootstrap: float = 0.0
    """Value of the state after the last step; 0 where the episode truly ended."""
    following: NDArray[Any] | None = None
    """The observation after the last step; None where the episode truly ended."""

    def __len__(self) -> int:
        return len(self.rewards)


class Episode(NamedTuple):
    """An episode that ended."""

    agent: int
    score: float
    """Undiscounted return of the raw, unclipped rewards."""
    length: int
    """Agent steps; the first episodes after a restore are shorter than what was played."""


def sample_actions(policy: NDArray[Any], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw one action per row of a policy (n, actions) from uniform numbers (n,) in [0, 1)."""
    cumulative = np.cumsum(policy, axis=1, dtype=np.float64)
    passed = cumulative <= (uniform * cumulative[:, -1])[:, None]
    actions: NDArray[np.int64] = np.minimum(passed.sum(axis=1), policy.shape[1] - 1)
    return actions


class AgentGroup:
    """Agents that are stepped together.

    Staggered, the first segments are of different lengths, so that later ones do not all end
    together and the trainer sees a steady flow, as it does with agents that run on their own.
    """

    def __init__(
        self,
        environments: EnvironmentGroup,
        knobs: Knobs,
        seeds: np.random.SeedSequence,
        *,
        stagger: bool = True,
    ) -> None:
        self.environments = environments
        self._knobs = knobs
        self.random = np.random.default_rng(seeds.spawn(1)[0])
        n = environments.size
        reset_seeds = np.random.default_rng(seeds.spawn(1)[0]).integers(0, 2**31 - 1, size=n)
        self.observations = environments.reset(reset_seeds.tolist())
        self._stagger = stagger
        self.drop_segments()
        self._returns = np.zeros(n)
        self._lengths = np.zeros(n, dtype=np.int64)

    def step(self, predictor: Predictor) -> tuple[list[Segment], list[Episode]]:
        """Take one step with every agent: predict, cut the segments that are full, act.

        Returns the segments this completed and the episodes it ended, in agent order.
        """
        prediction = predictor.predict(self.observations)
        finished = self.cut(prediction.values)
        ended, episodes = self.act(prediction, predictor)
        return finished + ended, episodes

    def cut(self, values: NDArray[Any], *, all_of_them: bool = False) -> list[Segment]:
        """End the segments that are full; the newest prediction says what comes after.

        Args:
            values: (n,), of the present observations.
            all_of_them: end also those that are not full, but have a step.
        """
        finished = []
        for agent, segment in enumerate(self._segments):
            full = len(segment) >= (1 if all_of_them else self._limits[agent])
            if full:
                segment.bootstrap = float(values[agent])
                segment.following = self.observations[agent]
                finished.append(segment)
                self._start_segment(agent)
        return finished

    def act(
        self, prediction: Prediction, predictor: Predictor
    ) -> tuple[list[Segment], list[Episode]]:
        """Draw actions from a prediction of the present observations, and take them."""
        policy = prediction.policy
        actions = sample_actions(policy, self.random.random(len(policy)))
        chosen = np.take_along_axis(policy, actions[:, None], axis=1)[:, 0]
        step = self.environments.step(actions)
        clip = self._knobs.settings.clip_rewards
        rewards = np.clip(step.rewards, -1.0, 1.0) if clip else step.rewards
        taken = zip(
            self._segments,
            self.observations,
            actions.tolist(),
            rewards.tolist(),
            chosen.tolist(),
            strict=True,
        )
        for segment, observation, action, reward, probability in taken:
            segment.observations.append(observation)
            segment.actions.append(action)
            segment.rewards.append(reward)
            segment.probabilities.append(probability)
            segment.versions.append(prediction.version)
        self._returns += step.rewards
        self._lengths += 1
        self.observations = step.observations
        return self._end_episodes(step, predictor)

    def _end_episodes(
        self, step: Step, predictor: Predictor
    ) -> tuple[list[Segment], list[Episode]]:
        finished, episodes = [], []
        for agent in np.flatnonzero(step.terminated | step.truncated).tolist():
            segment = self._segments[agent]
            if step.truncated[agent]:
                final = np.asarray(step.final_observations[agent])
                segment.bootstrap = float(predictor.predict(final[None]).values[0])
                segment.following = final
            finished.append(segment)
            self._start_segment(agent)
            score, length = float(self._returns[agent]), int(self._lengths[agent])
            episodes.append(Episode(agent, score, length))
            self._returns[agent] = 0.0
            self._lengths[agent] = 0
        return finished, episodes

    def drop_segments(self) -> None:
        """Start all segments anew: what those under way saw is too old to be trained on."""
        n, t_max = self.environments.size, self._knobs.settings.t_max
        self._segments = [Segment() for _ in range(n)]
        self._limits = [max(1, t_max * (k + 1) // n) if self._stagger else t_max for k in range(n)]

    def _start_segment(self, agent: int) -> None:
        self._segments[agent] = Segment()
        self._limits[agent] = self._knobs.settings.t_max
