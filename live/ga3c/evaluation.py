"""Evaluation: whole episodes of a trained network, with pictures of them where wanted."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.agents import sample_actions
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.twins import Picture, Twin, twin_of

MAX_STEPS = 27_000
"""Agent steps of the longest Atari episode: 108,000 frames."""


class Evaluation(NamedTuple):
    """One episode."""

    score: float
    """Undiscounted return of the raw, unclipped rewards."""
    steps: int
    """Agent steps."""


def evaluate(
    network: nn.Module,
    settings: Settings,
    *,
    seed: int,
    episodes: int = 1,
    first: int = 0,
    greedy: bool = False,
    max_steps: int = MAX_STEPS,
    on_frame: Callable[[Picture], None] | None = None,
    on_episode: Callable[[Evaluation], object] | None = None,
) -> list[Evaluation]:
    """Play episodes with a network, in the environment it was trained in.

    An episode depends on the seed and on its place among the episodes, not on how many there
    are.

    Args:
        network: takes observations (1, ...) on its own device; returns logits and values.
        settings: name the game and its preprocessing.
        seed: of the environment and of the actions drawn, 0 or more.
        episodes: how many.
        first: place of the first of them, from 0.
        greedy: take the most likely action instead of drawing one as in training.
        max_steps: an episode is cut off after this many agent steps.
        on_frame: gets a picture before the first action of each episode and after each step.
        on_episode: told of each episode when it has ended.

    Raises:
        DivergedError: the policy is not finite.
        LiveError: a number is too small, the game cannot be played or shown, or its twin went
            astray.
    """
    least = {
        "seed": (seed, 0),
        "episodes": (episodes, 1),
        "first": (first, 0),
        "max_steps": (max_steps, 1),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise LiveError(f"{name}: {value} is too small, use {bound} or more")
    with contextlib.ExitStack() as stack:
        environments = EnvironmentGroup(settings, 1)
        stack.callback(environments.close)
        camera = None
        if on_frame is not None:
            twin = twin_of(settings)
            stack.callback(twin.close)
            camera = _Camera(environments.game, twin, on_frame)
        played = []
        for key in np.random.SeedSequence(seed).spawn(first + episodes)[first:]:
            played.append(_episode(network, environments, key, greedy, max_steps, camera))
            if on_episode is not None:
                on_episode(played[-1])
        return played


def _episode(
    network: nn.Module,
    environments: EnvironmentGroup,
    key: np.random.SeedSequence,
    greedy: bool,
    max_steps: int,
    camera: "_Camera | None",
) -> Evaluation:
    of_environment, of_actions = key.spawn(2)
    seed = int(of_environment.generate_state(1)[0]) >> 1  # ALE's seeds have 31 bits
    random = np.random.default_rng(of_actions)
    observations = environments.reset([seed])
    if camera is not None:
        camera.start(seed)
    score, steps, ended = 0.0, 0, False
    while not ended and steps < max_steps:
        policy = _policy(network, observations)
        actions = policy.argmax(axis=1) if greedy else sample_actions(policy, random.random(1))
        step = environments.step(actions)
        observations = step.observations
        reward, ended = float(step.rewards[0]), bool(step.terminated[0] or step.truncated[0])
        score += reward
        steps += 1
        if camera is not None:
            camera.follow(int(actions[0]), reward, ended)
    return Evaluation(score, steps)


def _policy(network: nn.Module, observations: NDArray[Any]) -> NDArray[Any]:
    """Return the probabilities (n, actions)."""
    first = next(network.parameters(), None)
    with torch.inference_mode():
        tensor = torch.from_numpy(np.ascontiguousarray(observations))
        logits, _ = network(tensor if first is None else tensor.to(first.device))
        policy = torch.softmax(logits.float(), dim=1).cpu().numpy()
    if not np.isfinite(policy).all():
        raise DivergedError("the policy is not finite")
    return policy


class _Camera:
    """Hands out the twin's pictures while the twin plays the same episode."""

    def __init__(self, game: str, twin: Twin, on_frame: Callable[[Picture], None]) -> None:
        self._game = game
        self._twin = twin
        self._on_frame = on_frame
        self._steps = 0

    def start(self, seed: int) -> None:
        self._steps = 0
        self._on_frame(self._twin.reset(seed))

    def follow(self, action: int, reward: float, ended: bool) -> None:
        """Take the action that was taken; LiveError if what follows from it differs."""
        picture, own_reward, own_end = self._twin.step(action)
        self._steps += 1
        if (own_reward, own_end) != (reward, ended):
            raise LiveError(
                f"game: the twin of {self._game} that draws the pictures went astray at step "
                f"{self._steps}: reward {own_reward} and end {own_end}, not {reward} and {ended}"
            )
        self._on_frame(picture)
