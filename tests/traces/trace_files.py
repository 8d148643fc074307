"""Small trace sets and files for the tests of this folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simsched.traces import Metadata, Trace, TraceError, TraceSet, read

HEAD = "trial,seconds,steps,episodes,score,hp.lr"
FIVE = "trial,seconds,steps,episodes,score"
ROWS = ["0,1.5,100,1,10,0.1", "0,3,200,2,20,0.1", "0,4,250,2,,0.1", "1,2,90,1,5,0.01"]
SUFFIXES = (".parquet", ".csv", ".jsonl")


def table(*rows: str, head: str = HEAD) -> str:
    """Join lines into the text of a CSV file."""
    return "\n".join((head, *rows)) + "\n"


def put(folder: Path, text: str | bytes, name: str = "runs.csv") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def make_trace(trial: int = 0, rows: int = 4, **changes: Any) -> Trace:
    """A curve of `rows` rows whose last has no score, and four kinds of hyperparameter."""
    count = np.arange(1, rows + 1)
    count[-1] = max(1, rows - 1)
    score = np.linspace(0.1, trial + 1, rows)
    score[-1] = np.nan
    values: dict[str, Any] = {
        "trial": trial,
        "hparams": {"lr": 10.0 ** -(trial + 1), "t_max": trial + 2, "opt": "ad,am", "big": True},
        "end": "complete",
        "seconds": np.arange(1, rows + 1) / 3,
        "steps": count * 100,
        "episodes": count,
        "score": score,
    }
    return Trace(**(values | changes))


def make_set(*traces: Trace, **meta: Any) -> TraceSet:
    """A set of these traces, by default of three."""
    chosen = traces or (make_trace(0), make_trace(1, end="diverged"), make_trace(7, end="censored"))
    return TraceSet("made", None, Metadata(**({"game": "Pong"} | meta)), tuple(chosen))


def assert_same(left: TraceSet, right: TraceSet) -> None:
    """Metadata and traces are equal to the bit, types included."""
    assert [trace.trial for trace in left.traces] == [trace.trial for trace in right.traces]
    for one, other in zip(left.traces, right.traces, strict=True):
        assert one.end == other.end
        assert list(one.hparams.items()) == list(other.hparams.items())
        assert list(map(type, one.hparams.values())) == list(map(type, other.hparams.values()))
        for name in ("seconds", "steps", "episodes", "score"):
            mine, theirs = getattr(one, name), getattr(other, name)
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype


def refusal(path: Path) -> str:
    """The one line that reading gives."""
    with pytest.raises(TraceError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: "), text
    assert text.isprintable()
    assert len(text) < 400
    return text.removeprefix(f"{path}: ")
