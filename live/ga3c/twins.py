"""Pictures of episodes: an environment that plays them a second time, in colour.

Training sees small grey frames. Pictures come from a twin: a second environment that plays the
same episode, from the same seed with the same actions. At every step its reward and its end must
be those of the first.
"""

import importlib.util
import os
import sys
from typing import Any, Protocol, TypeAlias

import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from simsched.live.errors import LiveError
from simsched.live.ga3c.games import FRAME_SKIP, atari_games, canonical_game, is_atari
from simsched.live.ga3c.settings import Settings

Picture: TypeAlias = NDArray[np.uint8]
"""(height, width, 3): red, green, blue."""


class Twin(Protocol):
    """Plays an episode a second time and shows it."""

    def reset(self, seed: int) -> Picture:
        """Begin an episode; returns its first picture."""
        ...

    def step(self, action: int) -> tuple[Picture, float, bool]:
        """Take an action, counted from 0; returns the picture, the reward, whether it ended."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


def twin_of(settings: Settings) -> Twin:
    """Return what draws the pictures of a game; LiveError if there are none here."""
    game = canonical_game(settings.game)
    return _AtariTwin(game, settings) if is_atari(game) else _GymnasiumTwin(game)


def require_pictures(settings: Settings) -> None:
    """Raise LiveError, saying what to install, if a game's episodes cannot be shown here."""
    twin = twin_of(settings)
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
        draw_without_display()
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


def has_display() -> bool:
    """Whether a window could be opened, as far as the environment says."""
    if not sys.platform.startswith("linux"):
        return True
    return any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"))


def draw_without_display() -> None:
    """Have pygame, which many games draw with, not look for a display where there is none."""
    if not has_display():
        os.environ["SDL_VIDEODRIVER"] = "dummy"


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
