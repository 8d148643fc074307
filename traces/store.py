"""Trace files: read, write, and the sets that come with the package."""

import difflib
import hashlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from simsched.traces import writers
from simsched.traces.format import COLUMNS, HPARAM_PREFIX, Trace, TraceError, TraceSet
from simsched.traces.readers import SUFFIXES, read_raw
from simsched.traces.table import Header, Raw, decode_header, shown
from simsched.traces.validation import assemble

_WRITERS: Final[dict[str, Callable[[Raw], bytes]]] = {
    ".parquet": writers.parquet,
    ".csv": writers.csv,
    ".jsonl": writers.jsonl,
}


def read(path: str | Path) -> TraceSet:
    """Read and check a trace file: Parquet, CSV or JSON Lines, by its suffix.

    Raises:
        TraceError: the file is missing, damaged or breaks a rule of the format.
    """
    path = Path(path)
    data, raw = read_raw(path)
    meta, traces = assemble(raw)
    return TraceSet(path.stem, path, meta, traces, hashlib.sha256(data).hexdigest())


def write(traceset: TraceSet, path: str | Path) -> None:
    """Check `traceset` and write it by the suffix of `path`; the same set gives the same bytes.

    The file appears at once, whole, or not at all. How each trial ended is taken
    from the traces. Raises TraceError when a rule is broken or the file cannot be written.
    """
    path = Path(path)
    encode = _WRITERS.get(path.suffix.lower())
    if encode is None:
        raise TraceError(
            f"{path}: the suffix {path.suffix!r} is not known; it must be {', '.join(SUFFIXES)}"
        )
    raw = to_raw(traceset)
    assemble(raw)
    replace_file(path, encode(raw))


def load(name_or_path: str | Path) -> TraceSet:
    """Return a shipped set by its name, in any case, or read a file.

    Raises:
        TraceError: neither a shipped set nor a usable file; the nearest name is offered.
    """
    text = str(name_or_path)
    names = {name.lower(): name for name in shipped()}
    if text.lower() in names:
        return read(_data() / f"{names[text.lower()]}.parquet")
    path = Path(name_or_path)
    if path.suffix.lower() in SUFFIXES or len(path.parts) > 1 or os.path.lexists(text):
        return read(path)
    near = difflib.get_close_matches(text.lower(), names, n=1)
    hint = f"did you mean {names[near[0]]}? " if near else ""
    there = ", ".join(names.values()) or "none"
    raise TraceError(
        f"no recorded curves are named {shown(text)}; {hint}"
        f"shipped: {there}; or give a file ({', '.join(SUFFIXES)})"
    )


def shipped() -> list[str]:
    """Return the names of the sets that come with the package, sorted."""
    return sorted(file.stem for file in _data().glob("*.parquet"))


def check(recorded: TraceSet) -> None:
    """Check a set made in memory against every rule of the format. Raises TraceError."""
    assemble(to_raw(recorded))


def is_shipped(recorded: TraceSet) -> bool:
    """Say whether a set was read from the package, so that its name is enough to find it."""
    return recorded.path is not None and recorded.path.parent == _data()


def _data() -> Path:
    return Path(__file__).parent / "data"


def to_raw(traceset: TraceSet) -> Raw:
    """Put the traces of a set made in memory into one table. Raises TraceError."""
    source = f"trace set {traceset.name!r}"
    if not traceset.traces:
        raise TraceError(f"{source}: it has no trials")
    counts = Counter(trace.trial for trace in traceset.traces)
    twice = next((trial for trial, count in counts.items() if count > 1), None)
    if twice is not None:
        raise TraceError(f"{source}: trial {twice} is there more than once")
    lengths = [_length(source, trace) for trace in traceset.traces]
    firsts = np.cumsum([0, *lengths])

    def where(row: int) -> str:
        index = int(np.searchsorted(firsts, row, side="right")) - 1
        return f"trial {traceset.traces[index].trial}, its row {row - int(firsts[index]) + 1}"

    raw = Raw(source, {}, where, _header(source, traceset))
    trials = np.array([trace.trial for trace in traceset.traces])
    arrays = {"trial": np.repeat(trials, lengths)}
    for name in COLUMNS[1:]:
        arrays[name] = np.concatenate([np.asarray(getattr(t, name)) for t in traceset.traces])
    for name, values in arrays.items():
        try:
            raw.columns[name] = pa.array(values, from_pandas=True)  # NaN becomes a missing value
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise TraceError(f"{source}: {name}: {error}") from None
    for name in dict.fromkeys(name for trace in traceset.traces for name in trace.hparams):
        raw.columns[HPARAM_PREFIX + name] = _hparam_array(source, name, traceset, lengths)
    return raw


def _header(source: str, traceset: TraceSet) -> Header:
    """Return the metadata as a file will hold it, read back, so that it can be read back."""
    ends = {str(trace.trial): str(trace.end) for trace in traceset.traces}
    meta = msgspec.structs.replace(traceset.meta, ends=ends)
    try:
        text = msgspec.json.encode(Header(**msgspec.structs.asdict(meta)))
    except (TypeError, ValueError) as error:
        raise TraceError(f"{source}: metadata: {error}") from None
    return decode_header(source, text)


def _length(source: str, trace: Trace) -> int:
    shapes = [np.shape(getattr(trace, name)) for name in COLUMNS[1:]]
    if len(shapes[0]) != 1 or len(set(shapes)) > 1 or shapes[0] == (0,):
        raise TraceError(
            f"{source}: trial {trace.trial}: seconds, steps, episodes and score have shapes "
            f"{', '.join(map(str, shapes))}; they must be one (rows,) with rows ≥ 1"
        )
    return len(trace.seconds)


def _hparam_array(source: str, name: str, traceset: TraceSet, lengths: list[int]) -> Any:
    """Return one hyperparameter as a column, a value per row; missing where a trial has none."""
    values = [trace.hparams.get(name) for trace in traceset.traces]
    values = [v.item() if isinstance(v, np.generic) else v for v in values]
    types = {type(value) for value in values if value is not None}
    column = {
        frozenset(): pa.string(),
        frozenset({bool}): pa.bool_(),
        frozenset({str}): pa.string(),
        frozenset({int}): pa.int64(),
        frozenset({float}): pa.float64(),
        frozenset({int, float}): pa.float64(),
    }.get(frozenset(types))
    if column is None:
        index = _odd(values)
        right = "a number, a text or a bool, and of one kind in all trials"
        trial = traceset.traces[index].trial
        raise TraceError(
            f"{source}: trial {trial}: {name} is {shown(values[index])}; it must be {right}"
        )
    try:
        array = pa.array(values, column)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise TraceError(f"{source}: {name}: {error}") from None
    return array.take(pa.array(np.repeat(np.arange(len(lengths)), lengths)))


def _odd(values: list[Any]) -> int:
    """Return the index of the first value that is not of the first one's kind."""
    first = next(value for value in values if value is not None)
    kinds = {int, float} if type(first) in (int, float) else {type(first)}
    others = (i for i, v in enumerate(values) if v is not None and type(v) not in kinds)
    return next(others, values.index(first))


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to a temporary file beside `path`, then rename it. Raises TraceError."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            scratch.write_bytes(data)
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"{path}: cannot be written: {reason}") from None
