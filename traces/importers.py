"""Other people's tables into traces: columns by another name, text ids, mixed rows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simsched.traces.columns import numbers
from simsched.traces.format import (
    COLUMNS,
    HPARAM_PREFIX,
    Ints,
    Metadata,
    Trace,
    TraceError,
    TraceSet,
)
from simsched.traces.readers import read_raw
from simsched.traces.table import Raw, shown
from simsched.traces.validation import assemble

OURS: Final[tuple[str, ...]] = (*COLUMNS, "game")
"""The columns that may go by another name in the file."""

UNIX_TIME_S: Final = 1e9
"""Training seconds since a trial's start never begin beyond it (32 years)."""


@dataclass(frozen=True)
class Imported:
    """What came of a file. `notes`: what was changed on the way, a line each."""

    traceset: TraceSet
    notes: tuple[str, ...]


def import_file(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    hparams: Mapping[str, str] | None = None,
    count: Collection[Literal["episodes", "steps"]] = (),
    game: str = "",
    metric: str = "",
    mode: Literal["max", "min"] | None = None,
    stopped_early: bool = False,
) -> Imported:
    """Read a Parquet, CSV or JSON Lines table that was not made for simsched.

    Columns that are neither ours, nor mapped, nor `hp.NAME` are left out. Trial ids
    that are not numbers are numbered in order of appearance; rows of several trials
    may be mixed as long as each trial's own rows are in order.

    Args:
        path: the file.
        columns: our column to theirs, e.g. {"score": "episode_return"}.
        hparams: hyperparameter name to their column.
        count: counters that the file lacks, made by numbering each trial's rows that
            have a score from 1.
        game: overrides what the file says. So do `metric` and `mode`.
        metric: what `score` is.
        mode: whether a larger or a smaller score is better; only noted.
        stopped_early: mark complete trials of fewer steps than the longest as censored:
            a search stopped them, so a replay must not take their end for the full length.

    Raises:
        TraceError: as `read` does; also for a column that is not there.
    """
    path = Path(path)
    _, raw = read_raw(path)
    notes: list[str] = []
    _select(raw, dict(columns or {}), dict(hparams or {}), count, notes)
    _number_trials(raw, notes)
    _group(raw, notes)
    for name in count:
        raw.columns[name] = pa.array(_numbered(raw))
    changes = {"game": game, "metric": metric, "mode": mode, "recorded_by": raw.header.recorded_by}
    changes["recorded_by"] = changes["recorded_by"] or f"imported from {path.name}"
    raw.header = msgspec.structs.replace(raw.header, **{k: v for k, v in changes.items() if v})
    meta, traces = assemble(raw)
    if min(float(trace.seconds[0]) for trace in traces) > UNIX_TIME_S:
        raise raw.error(
            0,
            f"seconds is {traces[0].seconds[0]}, which looks like a time of day; "
            "it must be the trial's own training seconds, from 0 on",
        )
    if stopped_early:
        meta, traces = _censored(meta, traces, notes)
    return Imported(TraceSet(path.stem, None, meta, traces), tuple(notes))


def _censored(
    meta: Metadata, traces: tuple[Trace, ...], notes: list[str]
) -> tuple[Metadata, tuple[Trace, ...]]:
    longest = max(int(trace.steps[-1]) for trace in traces)
    short = {t.trial for t in traces if t.end == "complete" and t.steps[-1] < longest}
    marked = tuple(replace(t, end="censored") if t.trial in short else t for t in traces)
    notes.append(f"{len(short)} of {len(traces)} trials have under {longest:,} steps: censored")
    ends = {str(trace.trial): trace.end for trace in marked}
    return msgspec.structs.replace(meta, ends=ends), marked


def _select(
    raw: Raw,
    columns: dict[str, str],
    hparams: dict[str, str],
    count: Collection[str],
    notes: list[str],
) -> None:
    """Keep the columns that are wanted, under our names."""
    for ours in columns:
        if ours not in OURS:
            raise TraceError(f"a map for column {shown(ours)}: it must be one of {', '.join(OURS)}")
    for name in count:
        if name in columns:
            raise TraceError(f"{name} is both mapped to {shown(columns[name])} and to be counted")
    wanted = {ours: ours for ours in OURS if ours in raw.columns and ours not in count}
    wanted |= {name: name for name in raw.columns if name.startswith(HPARAM_PREFIX)}
    wanted |= columns | {HPARAM_PREFIX + name: theirs for name, theirs in hparams.items()}
    for ours, theirs in wanted.items():
        if theirs not in raw.columns:
            near = get_close_matches(theirs, raw.columns, n=1)
            hint = f"did you mean {shown(near[0])}? " if near else ""
            raise TraceError(
                f"{raw.source}: there is no column {shown(theirs)} for {ours}; {hint}"
                f"there are: {', '.join(map(str, raw.columns))}"
            )
    left_out = [name for name in raw.columns if name not in wanted.values()]
    if left_out:
        notes.append(f"left out: {', '.join(left_out)}")
    raw.columns = {ours: raw.columns[theirs] for ours, theirs in wanted.items()}


def _number_trials(raw: Raw, notes: list[str]) -> None:
    """Number trial ids that are texts in order of appearance."""
    column = raw.columns.get("trial")
    if column is None or not pa.types.is_string(column.type):
        return
    try:
        raw.columns["trial"] = pc.utf8_trim_whitespace(column).cast(pa.int64())
        return
    except pa.ArrowInvalid:
        pass  # names of runs, then
    encoded = column.dictionary_encode()
    ids = encoded.dictionary.to_pylist()
    raw.columns["trial"] = pc.if_else(pc.equal(column, ""), None, encoded.indices.cast(pa.int64()))
    first = ", ".join(f"{number} = {name}" for number, name in enumerate(ids[:3]))
    notes.append(f"trials numbered: {first}{', …' if len(ids) > 3 else ''}")


def _group(raw: Raw, notes: list[str]) -> None:
    """Bring the rows of each trial together, trials in order of appearance."""
    column = raw.columns.get("trial")
    if column is None or column.null_count or not pa.types.is_integer(column.type):
        return  # `assemble` says what is wrong with it
    rank = column.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    if (np.diff(rank) >= 0).all():
        return
    order = np.argsort(rank, kind="stable")
    rows, where = pa.array(order), raw.where
    raw.columns = {name: values.take(rows) for name, values in raw.columns.items()}
    raw.where = lambda row: where(int(order[row]))
    notes.append("rows of different trials were mixed; they were grouped by trial")


def _numbered(raw: Raw) -> Ints:
    """Return for each row how many rows of its trial have had a score, shape (rows,)."""
    trial: Any = raw.columns.get("trial")
    if trial is None or "score" not in raw.columns:
        return np.zeros(raw.rows, np.int64)  # `assemble` says that the column is missing
    scored = np.cumsum(~np.isnan(numbers(raw, "score", may_miss=True)), dtype=np.int64)
    rank = trial.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.diff(rank, prepend=-1))
    before = np.append(0, scored)[starts]
    numbered: Ints = scored - np.repeat(before, np.diff(np.append(starts, raw.rows)))
    return numbered
