"""Groups of environments that are stepped together.

Atari games come from ale-py's own vectorised environment: 84x84 grey frames, 4 stacked, 4
skipped, whole games (a lost life does not end an episode), at most 108,000 frames. Everything
else is a Gymnasium environment with discrete actions. Rewards come out as they are, unclipped.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from simsched.live.errors import LiveError
from simsched.live.ga3c.games import FRAME_SKIP, atari_games, canonical_game, is_atari
from simsched.live.ga3c.settings import Settings


class Step(NamedTuple):
    """What one step of a group of n environments returned."""

    observations: NDArray[Any]
    """(n, ...): what each agent sees next, after a reset where its episode ended."""
    rewards: NDArray[np.float64]
    """(n,), unclipped."""
    terminated: NDArray[np.bool_]
    """(n,): the episode truly ended."""
    truncated: NDArray[np.bool_]
    """(n,): the time limit struck; false where the episode truly ended."""
    final_observations: Sequence[Any] | NDArray[Any]
    """Indexed by environment: the last observation of an episode that ended in this step."""


class EnvironmentGroup:
    """Environments of one game, stepped together; ended episodes restart in the same step."""

    _closed = False

    def __init__(self, settings: Settings, size: int, *, threads: int = 1) -> None:
        """Construct `size` environments; LiveError if the game cannot be trained on.

        Args:
            settings: name the game, its preprocessing, sticky actions and set of actions.
            size: how many environments.
            threads: that step Atari's emulators.
        """
        self.game = canonical_game(settings.game)
        self.size = size
        self.frames = is_atari(self.game)
        self._environments: VectorEnv[Any, Any, Any] = (
            _atari(self.game, size, settings, threads)
            if self.frames
            else _gymnasium(self.game, size, settings)
        )
        actions = self._environments.single_action_space
        if not isinstance(actions, gymnasium.spaces.Discrete):
            self.close()
            raise LiveError(
                f"game: {self.game} has actions {actions}, only discrete ones can be trained"
            )
        observations = self._environments.single_observation_space
        if not isinstance(observations, gymnasium.spaces.Box):
            self.close()
            raise LiveError(
                f"game: {self.game} has observations {observations}, only a Box can be trained"
            )
        self.actions = int(actions.n)
        self._first_action = int(actions.start)
        self.observation_shape = tuple(int(n) for n in observations.shape)
        self.observation_dtype: np.dtype[Any] = np.dtype(observations.dtype)

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Start an episode everywhere, from one seed per environment; returns (n, ...)."""
        if self.frames:
            observations, _ = self._environments.reset(seed=np.asarray(seeds))  # type: ignore[arg-type]
        else:
            each = [int(seed) for seed in seeds]
            observations, _ = self._environments.reset(seed=each)  # type: ignore[arg-type]
        return np.asarray(observations)

    def step(self, actions: NDArray[np.int64]) -> Step:
        """Take one action, counted from 0, in each environment.

        Raises:
            LiveError: an action is out of range (ale-py would wait for ever).
        """
        if actions.shape != (self.size,) or actions.min() < 0 or actions.max() >= self.actions:
            raise LiveError(
                f"actions: {actions.tolist()} must be {self.size} whole numbers from 0 to "
                f"{self.actions - 1}"
            )
        observations, rewards, terminated, truncated, info = self._environments.step(
            actions + self._first_action
        )
        return Step(
            observations,
            np.asarray(rewards, dtype=np.float64),
            np.asarray(terminated),
            np.asarray(truncated) & ~np.asarray(terminated),
            info.get("final_obs", ()),
        )

    def close(self) -> None:
        """Release the environments; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._environments.close()


def _atari(game: str, size: int, settings: Settings, threads: int) -> VectorEnv[Any, Any, Any]:
    standard = settings.preprocessing == "standard"
    return AtariVectorEnv(
        atari_games()[game],
        size,
        num_threads=min(threads, size),
        reward_clipping=False,
        frameskip=FRAME_SKIP,
        maxpool=standard,
        noop_max=30 if standard else 0,
        use_fire_reset=standard,
        repeat_action_probability=settings.sticky_actions,
        full_action_space=settings.full_action_space,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )


def _gymnasium(game: str, size: int, settings: Settings) -> VectorEnv[Any, Any, Any]:
    for name in ("preprocessing", "sticky_actions", "full_action_space"):
        value = getattr(settings, name)
        if value not in ("standard", 0.0, False):
            raise LiveError(f"{name}: {value} is for Atari games, {game} has no such choice")
    try:
        return gymnasium.make_vec(
            game,
            size,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        )
    except (gymnasium.error.Error, ImportError) as error:
        raise LiveError(f"game: {game} cannot be made: {error}") from error
