"""Evaluation: whole episodes of a trained network, with pictures of them where wanted.

Training sees small grey frames. Pictures come from a twin: a second environment that plays the
same episode, from the same seed with the same actions, in colour. At every step its reward and
its end must be those of the first.
"""

import contextlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import gymnasium
import numpy as np
import torch
from ale_py import ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from torch import nn

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.agents import sample_actions
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.games import FRAME_SKIP, atari_games, canonical_game, is_atari
from simsched.live.ga3c.settings import Settings

Picture: TypeAlias = NDArray[np.uint8]
"""(height, width, 3): red, green, blue."""

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
    greedy: bool = False,
    max_steps: int = MAX_STEPS,
    on_frame: Callable[[Picture], None] | None = None,
) -> list[Evaluation]:
    """Play episodes with a network, in the environment it was trained in.

    An episode depends on the seed and on its place among the episodes, not on how many there
    are.

    Args:
        network: takes observations (1, ...) on its own device; returns logits and values.
        settings: name the game and its preprocessing.
        seed: of the environment and of the actions drawn, 0 or more.
        episodes: how many.
        greedy: take the most likely action instead of drawing one as in training.
        max_steps: an episode is cut off after this many agent steps.
        on_frame: gets a picture before the first action of each episode and after each step.

    Raises:
        DivergedError: the policy is not finite.
        LiveError: a number is too small, the game cannot be played or shown, or its twin went
            astray.
    """
    least = {"seed": (seed, 0), "episodes": (episodes, 1), "max_steps": (max_steps, 1)}
    for name, (value, bound) in least.items():
        if value < bound:
            raise LiveError(f"{name}: {value} is too small, use {bound} or more")
    with contextlib.ExitStack() as stack:
        environments = EnvironmentGroup(settings, 1)
        stack.callback(environments.close)
        camera = None
        if on_frame is not None:
            twin = _twin(settings)
            stack.callback(twin.close)
            camera = _Camera(environments.game, twin, on_frame)
        return [
            _episode(network, environments, key, greedy, max_steps, camera)
            for key in np.random.SeedSequence(seed).spawn(episodes)
        ]


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


class _Twin(Protocol):
    """Plays an episode a second time and shows it."""

    def reset(self, seed: int) -> Picture: ...

    def step(self, action: int) -> tuple[Picture, float, bool]:
        """Take an action, counted from 0; returns the picture, the reward, whether it ended."""
        ...

    def close(self) -> None: ...


class _Camera:
    """Hands out the twin's pictures while the twin plays the same episode."""

    def __init__(self, game: str, twin: _Twin, on_frame: Callable[[Picture], None]) -> None:
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


def _twin(settings: Settings) -> _Twin:
    game = canonical_game(settings.game)
    return _AtariTwin(game, settings) if is_atari(game) else _GymnasiumTwin(game)


def require_pictures(settings: Settings) -> None:
    """Raise LiveError, saying what to install, if a game's episodes cannot be shown here."""
    twin = _twin(settings)
    try:
        twin.reset(0)
    finally:
        twin.close()


class _AtariTwin:
    """An emulator with the screen in colour and in full size."""

    def __init__(self, game: str, settings: Settings) -> None:
        rom = atari_games()[game]
        height, width = _screen(rom)
        standard = settings.preprocessing == "standard"
        self._environments = AtariVectorEnv(
            rom,
            1,
            num_threads=1,
            grayscale=False,
            img_height=height,
            img_width=width,
            stack_num=1,
            reward_clipping=False,
            frameskip=FRAME_SKIP,
            maxpool=standard,
            noop_max=30 if standard else 0,
            use_fire_reset=standard,
            repeat_action_probability=settings.sticky_actions,
            full_action_space=settings.full_action_space,
            # So the last picture of an episode is its own, not the first of the next.
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )

    def reset(self, seed: int) -> Picture:
        return self._picture(self._environments.reset(seed=np.asarray([seed]))[0])

    def step(self, action: int) -> tuple[Picture, float, bool]:
        seen, rewards, terminated, truncated, _ = self._environments.step(np.asarray([action]))
        return self._picture(seen), float(rewards[0]), bool(terminated[0] or truncated[0])

    @staticmethod
    def _picture(observations: Any) -> Picture:
        picture: Picture = np.asarray(observations)[0, 0]
        return picture

    def close(self) -> None:
        self._environments.close()


def _screen(rom: str) -> tuple[int, int]:
    """Return the height and width of a game's screen: most are 210 high, some 214 to 250."""
    path = roms.get_rom_path(rom)
    if path is None:
        raise LiveError(f"game: ale-py has no ROM of {rom}")
    ALEInterface.setLoggerMode(LoggerMode.Error)  # no banner
    emulator = ALEInterface()
    emulator.loadROM(path)
    height, width = emulator.getScreenDims()
    return height, width


class _GymnasiumTwin:
    """An environment of its own, which draws itself."""

    def __init__(self, game: str) -> None:
        self._game = game
        modes = metadata(game).get("render_modes", ["rgb_array"])
        if "rgb_array" not in modes:
            raise LiveError(
                f"game: {game} has no pictures, it offers {', '.join(modes) or 'nothing'} "
                "instead of rgb_array"
            )
        if game.startswith("MinAtar/") and importlib.util.find_spec("seaborn") is None:
            raise LiveError(f"game: {game} needs seaborn for pictures, run `pip install seaborn`")
        try:
            self._environment = gymnasium.make(
                game, render_mode="rgb_array", disable_env_checker=True
            )
        except Exception as error:
            raise _no_pictures(game, error) from error
        space = self._environment.action_space
        self._first_action = int(space.start) if isinstance(space, gymnasium.spaces.Discrete) else 0

    def reset(self, seed: int) -> Picture:
        self._environment.reset(seed=seed)
        return self._picture()

    def step(self, action: int) -> tuple[Picture, float, bool]:
        step = self._environment.step(action + self._first_action)
        _, reward, terminated, truncated, _ = step
        return self._picture(), float(reward), bool(terminated or truncated)

    def _picture(self) -> Picture:
        try:
            drawn: Any = np.asarray(self._environment.render())
        except Exception as error:
            raise _no_pictures(self._game, error) from error
        if drawn.ndim != 3 or drawn.shape[2] != 3 or drawn.dtype.kind not in "uf":
            raise LiveError(
                f"game: {self._game} has no pictures, it draws {drawn.dtype} of shape "
                f"{drawn.shape} instead of (height, width, 3)"
            )
        if drawn.dtype.kind == "f":  # as MinAtar does, from 0 to 1
            drawn = np.rint(255 * np.clip(drawn, 0, 1))
        picture: Picture = drawn.astype(np.uint8)
        return picture

    def close(self) -> None:
        self._environment.close()


def metadata(game: str) -> dict[str, Any]:
    """Return what a Gymnasium environment says about itself, such as its frames per second.

    Raises:
        LiveError: it cannot be imported.
    """
    entry = gymnasium.spec(game).entry_point
    try:
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
    except (gymnasium.error.Error, ImportError) as error:
        raise _no_pictures(game, error) from error
    found = getattr(creator, "metadata", {})
    return found if isinstance(found, dict) else {}


def _no_pictures(game: str, error: Exception) -> LiveError:
    """Say what went wrong in foreign code; Gymnasium's errors name the package to install."""
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return LiveError(f"game: {game} has no pictures here: {reason}")
