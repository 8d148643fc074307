"""Known configurations that a search tries first, from a file.

CSV with a header that names the hyperparameters, JSON Lines with an object a line, or JSON with a
list of objects. Every configuration must be one that the search space could have drawn.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from simsched.documents import read_text
from simsched.errors import nearest
from simsched.live.errors import LiveError
from simsched.messages import Hparams, HparamValue
from simsched.space import Categorical, Integer, Parameter, Real, SearchSpace

OPTION = "--first"
SUFFIXES = (".csv", ".jsonl", ".json")


def read_first(path: Path, space: SearchSpace) -> list[Hparams]:
    """Return the configurations of a file, in its order.

    Raises:
        LiveError, SimschedError: the file cannot be read, or a configuration is not in the space;
            with the line, or for a JSON list the item, that is wrong.
    """
    readers: dict[str, Callable[[Path, str], Iterator[tuple[str, dict[str, Any]]]]] = {
        ".csv": _csv, ".jsonl": _json_lines, ".json": _json_list,
    }  # fmt: skip
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise LiveError(f"{OPTION} {path}: the suffix must be {', '.join(SUFFIXES)}")
    found = []
    for place, fields in reader(path, read_text(path, OPTION)):
        try:
            found.append(member(space, fields))
        except LiveError as error:
            raise LiveError(f"{path}: {place}: {error}") from None
    if not found:
        raise LiveError(f"{OPTION} {path}: it has no configuration")
    return found


def member(space: SearchSpace, fields: dict[str, Any]) -> Hparams:
    """Return a configuration with the types of the space; a text may stand for any value.

    Raises:
        LiveError: a hyperparameter is missing, is too many, or is not in the space.
    """
    names = list(space.parameters)
    for name in fields:
        if name not in names:
            raise LiveError(
                f"{name!r} is no hyperparameter of the search space{nearest(name, names)}; "
                f"it has: {', '.join(names)}"
            )
    for name in names:
        if fields.get(name) is None:
            raise LiveError(f"{name} is missing; a configuration has {', '.join(names)}")
    return {name: _value(name, space.parameters[name], fields[name]) for name in names}


def _value(name: str, parameter: Parameter, given: object) -> HparamValue:
    if isinstance(parameter, Categorical):
        for choice in parameter.choices:
            if _same(choice, given):
                return choice
        known = ", ".join(map(str, parameter.choices))
        hint = nearest(str(given), [str(choice) for choice in parameter.choices])
        raise LiveError(f"{name}={_shown(given)} is none of {known}{hint}")
    number = _number(given)
    inside = number is not None and parameter.low <= number <= parameter.high
    if number is None or not inside:
        raise LiveError(f"{name}={_shown(given)} must be {_rule(parameter)}")
    if isinstance(parameter, Integer):
        if number != int(number) or (int(number) - parameter.low) % parameter.q:
            raise LiveError(f"{name}={_shown(given)} must be {_rule(parameter)}")
        return int(number)
    if parameter.q is not None:
        steps = (number - parameter.low) / parameter.q
        if not math.isclose(steps, round(steps), rel_tol=1e-9, abs_tol=1e-6):
            raise LiveError(f"{name}={_shown(given)} must be {_rule(parameter)}")
    return number


def _rule(parameter: Real | Integer) -> str:
    kind = "a whole number" if isinstance(parameter, Integer) else "a number"
    every = parameter.q is not None and not (isinstance(parameter, Integer) and parameter.q == 1)
    steps = f" in steps of {parameter.q}" if every else ""
    return f"{kind} from {parameter.low:g} to {parameter.high:g}{steps}"


def _same(choice: HparamValue, given: object) -> bool:
    """Tell whether a value of a file is a choice: numbers by their value, others by their text."""
    if isinstance(choice, bool) or isinstance(given, bool):
        return str(choice).lower() == str(given).lower()
    if isinstance(choice, str):
        return isinstance(given, str) and choice == given.strip()
    return _number(given) == choice


def _number(given: object) -> float | None:
    """Return a number as float; None for what is none, or not finite."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _shown(given: object) -> str:
    text = str(given)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _csv(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = csv.reader(io.StringIO(text), strict=True)
    header: list[str] | None = None
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise LiveError(f"{path}: line {rows.line_num}: it is not CSV: {error}") from None
        place = f"line {rows.line_num}"
        if not any(cell.strip() for cell in row):
            continue
        if header is None:
            header = [cell.strip() for cell in row]
            twice = next((name for name in header if header.count(name) > 1), None)
            if twice is not None:
                raise LiveError(f"{path}: {place}: the header has {twice!r} twice")
        elif len(row) != len(header):
            raise LiveError(
                f"{path}: {place}: it has {len(row)} values, the header {len(header)} names"
            )
        else:
            yield (
                place,
                {name: cell.strip() or None for name, cell in zip(header, row, strict=True)},
            )


def _json_lines(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"line {number}", _object(path, f"line {number}", _decoded(path, line, number))


def _json_list(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    items = _decoded(path, text, None)
    if not isinstance(items, list):
        raise LiveError(f"{path}: line 1: it must be a list of objects: [{{…}}, {{…}}]")
    for number, item in enumerate(items, 1):
        yield f"item {number}", _object(path, f"item {number}", item)


def _decoded(path: Path, text: str, line: int | None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise LiveError(
            f"{path}: line {line or error.lineno}: it is not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise LiveError(f"{path}: it is nested too deeply") from None


def _object(path: Path, place: str, item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise LiveError(f"{path}: {place}: it must be an object with a value per hyperparameter")
    return item
