"""TOML and JSON files that people write: read, with the line of every key for error messages."""

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from simsched.errors import SimschedError

LARGEST_BYTES = 10_000_000
Keys: TypeAlias = tuple[str, ...]
"""Where something stands in nested tables; of a list of tables, its number from 0."""


class _TwiceError(ValueError):
    """A key of a JSON object that is there already."""


class Document(NamedTuple):
    """A TOML or JSON file, and where its keys are."""

    path: Path
    text: str
    data: dict[str, Any]
    find: Callable[[str, Keys], int | None]

    def refusal(self, keys: Sequence[str], reason: str) -> SimschedError:
        """Return the error that names the file and the line of a key, and says what is wrong."""
        line = self.find(self.text, tuple(keys))
        place = f"{self.path}: " if line is None else f"{self.path}: line {line}: "
        return SimschedError(place + reason)


def toml_line(text: str, keys: Keys) -> int | None:
    """Return the line, from 1, on which a key of a TOML file stands; None if nowhere.

    tomllib tells no lines. But the first lines of a file that are a whole file themselves, and
    have the key, end with its statement; and that begins where the whole file before them ended.
    They are found by bisection: whatever follows a whole file that has the key has it, too.
    """
    lines = text.split("\n")
    inside = "{]},"  # what begins so goes on with a statement
    ends = [e for e in range(1, len(lines)) if not lines[e].lstrip().startswith(tuple(inside))]
    ends.append(len(lines))

    def whole(place: int) -> Any:
        try:
            return tomllib.loads("\n".join(lines[: ends[place]]))
        except tomllib.TOMLDecodeError:
            return None

    low, bound = -1, len(ends)  # up to `low` the key is not there; it is at or before `found`
    found = len(ends) - 1
    if not _has(whole(found), keys):
        return None
    while bound - low > 1:
        middle = (low + bound) // 2
        place = middle
        while place < bound and (data := whole(place)) is None:
            place += 1
        if place < bound and not _has(data, keys):
            low = place
        else:
            found, bound = (place if place < bound else found), middle
    before = next((p for p in range(found - 1, -1, -1) if whole(p) is not None), None)
    return 1 if before is None else ends[before] + 1


def _has(data: Any, keys: Keys) -> bool:
    for key in keys:
        if isinstance(data, list) and key.isdigit() and int(key) < len(data):
            data = data[int(key)]
        elif isinstance(data, dict) and key in data:
            data = data[key]
        else:
            return False
    return True


def json_line(text: str, keys: Keys) -> int | None:
    """Return the line on which a key of nested JSON objects stands: each after the one around."""
    place = 0
    for key in keys:
        match = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:").search(
            text, place
        )
        if match is None:
            return None
        place = match.end()
    return text.count("\n", 0, place) + 1


def read_text(path: Path, label: str = "") -> str:
    """Return a file's text; `label`, an option's name, begins the error if it cannot be read.

    Raises:
        SimschedError: no file, too large, or not UTF-8.
    """
    place = f"{label} {path}" if label else str(path)
    try:
        if path.is_dir():
            raise SimschedError(f"{place}: it is a folder; name a file")
        if path.is_file() and path.stat().st_size > LARGEST_BYTES:
            raise SimschedError(f"{place}: it is larger than {LARGEST_BYTES:,} bytes")
        return path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise SimschedError(f"{place}: there is no such file") from None
    except OSError as error:
        raise SimschedError(f"{place}: it cannot be read: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, SimschedError):
            raise
        raise SimschedError(f"{place}: it is not a text file (UTF-8)") from None


def read_toml(path: Path, label: str = "") -> Document:
    """Read a TOML file. Raises SimschedError, with the line."""
    text = read_text(path, label)
    try:
        return Document(path, text, tomllib.loads(text), toml_line)
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+)", place)
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        raise SimschedError(f"{path}: line {line}: it is not TOML: {reason}") from None
    except RecursionError:
        raise SimschedError(f"{path}: it is nested too deeply") from None


def read_json(path: Path, label: str = "") -> Document:
    """Read a JSON file that holds an object. Raises SimschedError, with the line."""
    text = read_text(path, label)
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise SimschedError(f"{path}: line {error.lineno}: it is not JSON: {error.msg}") from None
    except _TwiceError as error:
        key = str(error)
        places = [match.start() for match in re.finditer(rf'"{re.escape(key)}"\s*:', text)]
        line = text.count("\n", 0, places[-1]) + 1 if places else 1
        raise SimschedError(f"{path}: line {line}: {key!r} is given twice") from None
    except RecursionError:
        raise SimschedError(f"{path}: it is nested too deeply") from None
    if not isinstance(data, dict):
        raise SimschedError(f"{path}: line 1: it must be an object: {{…}}")
    return Document(path, text, data, json_line)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(key)
        found[key] = value
    return found
