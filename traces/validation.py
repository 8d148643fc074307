"""The rules of the trace format, checked on whole columns, and the traces cut from them."""

from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from simsched.traces.columns import hparam_values, typed
from simsched.traces.format import ENDS, HPARAM_PREFIX, End, Ints, Metadata, Trace, TraceError
from simsched.traces.table import Raw, Table, shown

SECONDS_MAX = 1e12
"""Beyond it (31,700 years) a unit is wrong, and whole microseconds would leave 64 bits."""

Mask = npt.NDArray[np.bool_]


def assemble(raw: Raw) -> tuple[Metadata, tuple[Trace, ...]]:
    """Check `raw` against every rule and cut it into traces, in the order of the file.

    Returns:
        The metadata, with `ends` naming every trial, and the traces.

    Raises:
        TraceError: naming file, line, column, value and what would be right.
    """
    table = typed(raw)
    starts = _blocks(table)
    same = np.ones(len(table.trial) - 1, np.bool_)  # row i + 1 is of the same trial as row i
    same[starts[1:] - 1] = False
    _check_values(table)
    _check_scores(table, same)
    _check_order(table, same)
    _check_repeats(table, same)
    _check_hparams(table, same)
    return _cut(table, starts)


def _blocks(table: Table) -> Ints:
    """Return the first row of each trial, shape (trials,); refuse a trial in two places."""
    trial = table.trial
    if (trial < 0).any():
        row = int(np.argmax(trial < 0))
        raise table.raw.error(row, f"trial is {trial[row]}; it must be 0 or more")
    starts = np.append(0, np.flatnonzero(trial[1:] != trial[:-1]) + 1).astype(np.int64)
    _, first = np.unique(trial[starts], return_index=True)
    if len(first) < len(starts):
        again = np.ones(len(starts), np.bool_)
        again[first] = False
        row = int(starts[np.argmax(again)])
        last = int(np.flatnonzero(trial[:row] == trial[row])[-1])
        raise table.raw.error(
            row,
            f"trial {trial[row]} begins again (its rows ended at {table.raw.where(last)}); "
            "the rows of a trial must stand together",
        )
    return starts


def _check_values(table: Table) -> None:
    for name in ("seconds", "steps", "episodes"):
        values = getattr(table, name)
        bad = ~np.isfinite(values) | (values < 0)
        if bad.any():
            row = int(np.argmax(bad))
            raise table.raw.error(row, f"{name} is {values[row]}; it must be finite and 0 or more")
    over = table.seconds > SECONDS_MAX
    if over.any():
        row = int(np.argmax(over))
        value = table.seconds[row]
        raise table.raw.error(row, f"seconds is {value}; at most {SECONDS_MAX:g}: is it in ms?")


def _check_scores(table: Table, same: Mask) -> None:
    """A score is finite, and missing only in the last row of a trial."""
    infinite = np.isinf(table.score)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise table.raw.error(row, f"score is {table.score[row]}; it must be finite")
    gap = np.isnan(table.score[:-1]) & same
    if gap.any():
        row = int(np.argmax(gap))
        raise table.raw.error(
            row,
            f"score is missing or NaN; only a trial's last row may have none, "
            f"and trial {table.trial[row]} goes on",
        )


def _check_order(table: Table, same: Mask) -> None:
    for name in ("seconds", "steps", "episodes"):
        values = getattr(table, name)
        back = same & (values[1:] < values[:-1])
        if back.any():
            row = int(np.argmax(back)) + 1
            raise table.raw.error(
                row,
                f"{name} is {values[row]} after {values[row - 1]}; "
                f"it must never go back within trial {table.trial[row]}",
            )


def _check_repeats(table: Table, same: Mask) -> None:
    """No row has the counters of the row before, but for the last row without a score."""
    repeats = same & ~np.isnan(table.score[1:])
    for values in (table.seconds, table.steps, table.episodes):
        repeats &= values[1:] == values[:-1]
    if repeats.any():
        row = int(np.argmax(repeats)) + 1
        raise table.raw.error(
            row,
            f"seconds {table.seconds[row]}, steps {table.steps[row]} and episodes "
            f"{table.episodes[row]} repeat the row before; each row must be a new one",
        )


def _check_hparams(table: Table, same: Mask) -> None:
    for name, column in table.hparams.items():
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        changed = same & (codes[1:] != codes[:-1])
        if changed.any():
            row = int(np.argmax(changed)) + 1
            now, before = column[row].as_py(), column[row - 1].as_py()
            raise table.raw.error(
                row,
                f"{HPARAM_PREFIX}{name} is {shown(now)} after {shown(before)}; "
                f"it must stay the same within trial {table.trial[row]}",
            )


def _cut(table: Table, starts: Ints) -> tuple[Metadata, tuple[Trace, ...]]:
    raw = table.raw
    trials = table.trial[starts].tolist()
    ends = _ends(raw, trials)
    hparams = {name: hparam_values(col, starts) for name, col in table.hparams.items()}
    for values in (table.seconds, table.steps, table.episodes, table.score):
        values.flags.writeable = False
    stops = np.append(starts[1:], len(table.trial)).tolist()
    traces = tuple(
        Trace(
            trial,
            {name: value for name, col in hparams.items() if (value := col[i]) is not None},
            ends[i],
            table.seconds[start:stop],
            table.steps[start:stop],
            table.episodes[start:stop],
            table.score[start:stop],
        )
        for i, (trial, start, stop) in enumerate(zip(trials, starts.tolist(), stops, strict=True))
    )
    named = {str(trial): end for trial, end in zip(trials, ends, strict=True)}
    return msgspec.structs.replace(raw.header.metadata(), ends=named), traces


def _ends(raw: Raw, trials: list[int]) -> list[End]:
    """Return how each trial ended; "complete" where the metadata does not say."""
    known = set(map(str, trials))
    ends: dict[str, End] = {}
    for trial, end in raw.header.ends.items():
        if trial not in known:
            raise TraceError(
                f"{raw.source}: metadata: ends names trial {shown(trial)}, "
                "which the table does not have"
            )
        if end not in ENDS:
            raise TraceError(
                f"{raw.source}: metadata: trial {trial} ended {shown(end)}; "
                f"it must be {', '.join(ENDS[:-1])} or {ENDS[-1]}"
            )
        ends[trial] = cast(End, end)
    return [ends.get(str(trial), "complete") for trial in trials]
