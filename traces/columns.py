"""A `Raw` table's columns, checked by name and converted into typed arrays."""

import difflib
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simsched.traces.format import COLUMNS, HPARAM_PREFIX, Floats, HparamValue, Ints, TraceError
from simsched.traces.table import Raw, Table, shown

INT_MAX = 2**63 - 1
_NUMERIC = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal, pa.types.is_null)


def typed(raw: Raw) -> Table:
    """Convert `raw` into typed columns. Raises TraceError, with row and column, where it cannot."""
    check_columns(raw)
    if raw.rows == 0:
        raise TraceError(
            f"{raw.source}: it has columns but no rows; a trial needs at least one row"
        )
    _check_game(raw)
    hparams = {
        name.removeprefix(HPARAM_PREFIX): column
        for name in raw.columns
        if name.startswith(HPARAM_PREFIX) and (column := hparam_column(raw, name)) is not None
    }
    return Table(
        raw,
        trial=whole_numbers(raw, "trial"),
        seconds=numbers(raw, "seconds"),
        steps=whole_numbers(raw, "steps"),
        episodes=whole_numbers(raw, "episodes"),
        score=numbers(raw, "score", may_miss=True),
        hparams=hparams,
    )


def check_columns(raw: Raw) -> None:
    """Raise TraceError unless the columns are the five, `hp.…` and perhaps `game`."""
    extra = [n for n in raw.columns if not (n in COLUMNS or n == "game" or _is_hparam(n))]
    for name in COLUMNS:
        if name in raw.columns:
            continue
        message = f"{raw.source}: there is no column {name!r}"
        near = difflib.get_close_matches(name, [n.lower() for n in extra], n=1)
        theirs = next((n for n in extra if near and n.lower() == near[0]), None)
        if theirs is not None:
            message += f"; rename {shown(theirs)} if that is it"
        elif name in ("steps", "episodes"):
            message += (
                f"; if each row is one of them: simsched traces import FILE --count {name} --to NEW"
            )
        else:
            message += f"; the columns must be {', '.join(COLUMNS)} and hp.NAME"
        raise TraceError(message)
    if extra:
        raise TraceError(
            f"{raw.source}: column {shown(extra[0])} is none of {', '.join(COLUMNS)} or hp.NAME; "
            "a hyperparameter's column is named hp.NAME, other columns must go"
        )


def _is_hparam(name: str) -> bool:
    rest = name.removeprefix(HPARAM_PREFIX)
    return name != rest and rest != "" and rest == rest.strip() and rest.isprintable()


def _check_game(raw: Raw) -> None:
    """Take over a `game` column of one value; refuse one of several."""
    column = raw.columns.get("game")
    if column is None:
        return
    if pa.types.is_nested(column.type):
        raise raw.error(0, f"game is {shown(column[0].as_py())}, it must be a text")
    games = pc.unique(column).to_pylist()
    if len(games) > 1:
        row = next(i for i, game in enumerate(column.to_pylist()) if game != games[0])
        raise raw.error(
            row,
            f"game is {shown(games[1])}, before it was {shown(games[0])}; a file holds one game",
        )
    game = str(games[0] or "")
    if raw.header.game and game and game != raw.header.game:
        raise raw.error(0, f"game is {shown(game)}, but the metadata says {raw.header.game!r}")
    raw.header = msgspec.structs.replace(raw.header, game=game or raw.header.game)


def numbers(raw: Raw, name: str, *, may_miss: bool = False) -> Floats:
    """Return a column as float64, shape (rows,); NaN where a value is missing and may be.

    Raises TraceError for a value that is no number, or is missing and may not be.
    """
    column = _blank_as_null(raw.columns[name])
    kind = column.type
    if pa.types.is_string(kind):
        column = _cast(raw, name, column, pa.float64(), "a number")
    elif any(is_kind(kind) for is_kind in _NUMERIC):
        column = column.cast(pa.float64(), safe=False)  # integers may be beyond 53 bits
    else:
        raise raw.error(0, f"{name} is {shown(column[0].as_py())}; it must be a number")
    if column.null_count and not may_miss:
        row = _first(column.is_null())
        raise raw.error(row, f"{name} is missing; it must be a number in every row")
    values: Floats = pc.fill_null(column, float("nan")).to_numpy(zero_copy_only=False)
    return values


def whole_numbers(raw: Raw, name: str) -> Ints:
    """Return a column as int64, shape (rows,). "7.0" counts as 7.

    Raises TraceError for what is missing, no number, not whole or beyond 64 bits.
    """
    column = _blank_as_null(raw.columns[name])
    kind = column.type
    if column.null_count == 0 and (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        try:
            values: Ints = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            pass  # "7.0", no number or too large: told apart below
        else:
            return values
    floats = numbers(raw, name)
    wrong = ~(np.abs(floats) < 2.0**63) | (floats != np.floor(floats))
    if wrong.any():
        row = int(np.argmax(wrong))
        value = shown(_python(column[row]))
        limit = f"a whole number of at most {INT_MAX}"
        raise raw.error(row, f"{name} is {value}; it must be {limit}")
    return floats.astype(np.int64)


def hparam_column(raw: Raw, name: str) -> Any | None:
    """Return a hyperparameter's column as float64, int64, bool or text; None if all is missing.

    Raises TraceError for other types and for NaN and infinity.
    """
    column = raw.columns[name]
    kind = column.type
    declared = raw.header.types.get(name.removeprefix(HPARAM_PREFIX))
    if raw.inferred:
        column = _guessed(raw, name, declared)
    elif pa.types.is_integer(kind):
        column = _cast(raw, name, column, pa.int64(), f"at most {INT_MAX}")
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        value = shown(_python(column[0]))
        raise raw.error(0, f"{name} is {value}; it must be a number, a text or a bool")
    if column.null_count == len(column):
        return None
    if pa.types.is_floating(column.type):
        wrong = pc.fill_null(pc.invert(pc.is_finite(column)), False)
        if pc.any(wrong).as_py():
            row = _first(wrong)
            raise raw.error(row, f"{name} is {column[row].as_py()}; it must be finite")
    return column


def _guessed(raw: Raw, name: str, declared: str | None) -> Any:
    """Type a column of texts: as declared, else bool, int, float or text, the first that fits."""
    texts = raw.columns[name]
    trimmed = _blank_as_null(texts)
    targets = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    if declared in targets:
        return _cast(raw, name, trimmed, targets[declared], f"{declared}, as the metadata says")
    if declared is not None:
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    values = {str(value).lower() for value in pc.unique(trimmed).to_pylist() if value is not None}
    if values and values <= {"true", "false"}:
        return pc.equal(pc.utf8_lower(trimmed), "true")
    for target in (pa.int64(), pa.float64()):
        try:
            return trimmed.cast(target)
        except pa.ArrowInvalid:
            continue
    return trimmed


def hparam_values(column: Any, rows: Ints) -> list[HparamValue | None]:
    """Return the values of a hyperparameter's column at `rows`; None where it is missing."""
    values: list[HparamValue | None] = column.take(pa.array(rows)).to_pylist()
    return values


def _blank_as_null(column: Any) -> Any:
    """Trim texts and make empty ones missing; other columns stay as they are."""
    if not pa.types.is_string(column.type):
        return column
    column = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _cast(raw: Raw, name: str, column: Any, target: Any, right: str) -> Any:
    """Cast, or raise TraceError for the first value that does not fit."""
    try:
        return column.cast(target)
    except pa.ArrowInvalid:
        row = _first_bad(column, target)
        value = shown(_python(column[row]))
        raise raw.error(row, f"{name} is {value}; it must be {right}") from None


def _first_bad(column: Any, target: Any) -> int:
    """Return the row of the first value that cannot be cast, by halving."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column[low:middle].cast(target)
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _first(mask: Any) -> int:
    return int(np.argmax(mask.to_numpy(zero_copy_only=False)))


def _python(scalar: Any) -> object:
    """Return an Arrow scalar as Python's value; its text where Python has none."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, NotImplementedError, ImportError):
        return str(scalar)
