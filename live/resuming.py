"""Taking up a search: its settings come from its folder, and nothing may differ from them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from simsched._version import __version__
from simsched.live.errors import LiveError
from simsched.live.first import read_first
from simsched.live.planning import NO_FIRST, Asked
from simsched.live.settings import LiveSettings, code_digest

SETTINGS_FILE = "settings.json"
_SAME_NAME = (
    "preset", "nodes", "nodes_per_gpu", "cores_per_node", "workers", "phases", "phase_length",
    "unit", "metric", "mode", "seed", "retries", "checkpoints", "preemption",
    "complete",
)  # fmt: skip


def recorded_settings(folder: Path) -> LiveSettings:
    """Return the settings that a run's folder keeps.

    Raises:
        LiveError: it is no such folder, or another version of simsched began the run.
    """
    path = folder / SETTINGS_FILE
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=LiveSettings)
    except (FileNotFoundError, NotADirectoryError):
        raise LiveError(
            f"--resume {folder}: not the folder of a live search, {SETTINGS_FILE} is missing"
        ) from None
    except OSError as error:
        raise LiveError(f"--resume {folder}: {SETTINGS_FILE}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise LiveError(f"{path}: not the settings of a live search: {error}") from None
    if settings.version != __version__:
        raise LiveError(
            f"--resume {folder}: simsched {settings.version} began it, this is {__version__}; "
            "go on with the version that began it"
        )
    if settings.code != code_digest():
        raise LiveError(
            f"--resume {folder}: the code that decides was changed since it began "
            f"(digest {settings.code} there, {code_digest()} here); go on with the code of then"
        )
    return settings


def require_same(settings: LiveSettings, asked: Asked, folder: Path) -> None:
    """Refuse options that differ from the recorded settings; the same ones may be given again.

    Raises:
        LiveError: what differs, the recorded value and the given one.
    """
    found = [
        f"{option} is {_shown(recorded)} there and {_shown(given)} here"
        for option, recorded, given in _pairs(settings, asked)
        if recorded != given
    ]
    if found:
        raise LiveError(
            f"--resume {folder}: {'; '.join(found[:3])}; a search that is resumed keeps its "
            "settings, leave them out"
        )


def _pairs(settings: LiveSettings, asked: Asked) -> Iterator[tuple[str, Any, Any]]:
    """Yield option, recorded value and given value of everything that was given."""
    if asked.game is not None:
        yield "--game", settings.game, _game(settings.game, asked.game)
    if asked.command is not None:
        yield "--command", settings.command, asked.command
    if asked.scheduler is not None:
        yield "--scheduler", settings.scheduler, "".join(asked.scheduler.split())
    for name in _SAME_NAME:
        if (value := getattr(asked, name)) is not None:
            yield f"--{name.replace('_', '-')}", getattr(settings, name), value
    if asked.max_time_s is not None:
        yield "--max-time", _seconds(settings.max_time_s), _seconds(asked.max_time_s)
    if asked.space is not None and asked.space != settings.search_space:
        yield "--search-space", settings.space, asked.space.to_json()
    if asked.first is not None:
        none = asked.first == NO_FIRST
        first = [] if none else read_first(Path(asked.first), settings.search_space)
        yield "--first", settings.first, first
    for name, value in asked.training.items():
        yield f"--set {name}", _trained_with(settings, name), value


def _game(recorded: str | None, given: str) -> str:
    """Return a game's own name; the recorded one is known without looking."""
    if recorded is not None and recorded.lower() == given.lower():
        return recorded
    from simsched.live.ga3c.games import canonical_game

    return canonical_game(given)


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:g} s"


def _trained_with(settings: LiveSettings, name: str) -> Any:
    """Return what a setting of GA3C is in a search."""
    from simsched.live.ga3c.settings import Settings

    if name in settings.space:
        return "drawn by every trial"
    return settings.training.get(name, getattr(Settings(game=""), name))


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, list):
        return f"{len(value)} configurations" + (f" ({value[0]} …)" if value else "")
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
