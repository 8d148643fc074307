"""Which games there are, and what they are called."""

import difflib
import importlib.util
import re

import gymnasium
from ale_py import roms

from simsched.live.errors import LiveError

FRAME_SKIP = 4
"""Frames of an Atari game in one agent step."""


TWO_PLAYERS = frozenset({"combat", "joust", "maze_craze", "warlords"})
"""ROMs for two players only: ale-py ends the process when it loads them for one."""


def atari_games() -> dict[str, str]:
    """Names of Atari games as Gymnasium has them (`MsPacman`), with those of their ROMs."""
    return {"".join(part.title() for part in rom.split("_")): rom for rom in sorted(_roms())}


def _roms() -> list[str]:
    return [rom for rom in roms.get_all_rom_ids() if rom not in TWO_PLAYERS]


def canonical_game(name: str) -> str:
    """Return the name this program uses for a game.

    Raises:
        LiveError: no such game; the message offers the nearest name.
    """
    games = atari_games()
    for game, rom in games.items():
        if name.lower() in (game.lower(), rom):
            return game
    if name.lower().startswith("minatar/"):
        _register_minatar(name)
    registered = [
        key for key, spec in gymnasium.registry.items() if "ale_py" not in str(spec.entry_point)
    ]
    if name in registered:
        return name
    bare = re.sub(r"^ALE/|(NoFrameskip|Deterministic)?-v\d+$", "", name)
    lower = {known.lower(): known for known in [*registered, *games]}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    near = near or difflib.get_close_matches(bare.lower(), lower, n=1, cutoff=0.5)
    if bare in games:
        near = [bare.lower()]
    hint = (
        f"did you mean {lower[near[0]]!r}?" if near else "use for example MsPacman or CartPole-v1"
    )
    raise LiveError(f"game: {name!r} is unknown, {hint}")


def _register_minatar(name: str) -> None:
    """Make MinAtar's games known to Gymnasium; LiveError if the package is missing."""
    if importlib.util.find_spec("minatar") is None:
        raise LiveError(f"game: {name} needs the package minatar: pip install 'simsched[minatar]'")
    from minatar.gym import register_envs

    if not any(key.startswith("MinAtar/") for key in gymnasium.registry):
        register_envs()


def is_atari(game: str) -> bool:
    """Whether a canonical name is that of an Atari game."""
    return game in atari_games()
