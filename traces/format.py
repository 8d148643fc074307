"""The trace format: what one recorded learning curve is, and what a set of them is.

One tidy table, a row per finished episode or per report, with the columns
`trial, seconds, steps, episodes, score` and one `hp.<name>` per hyperparameter.
`seconds`, `steps` and `episodes` are cumulative within the trial; `score` is
that of the row. A trial's last row may have no score: it then holds the final
counters. What the table cannot say stands in the file's metadata.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
import numpy as np
import numpy.typing as npt

End: TypeAlias = Literal["complete", "diverged", "censored"]
"""How a trial ended: at its full length, with NaN or infinity, or stopped early by someone."""

HparamValue: TypeAlias = float | int | str | bool
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

ENDS: Final[tuple[str, ...]] = get_args(End)
COLUMNS: Final[tuple[str, ...]] = ("trial", "seconds", "steps", "episodes", "score")
HPARAM_PREFIX: Final = "hp."


class TraceError(ValueError):
    """A trace file or set that cannot be used. `str()` is one line: file, line and reason."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in message))


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a set of traces beside its table. Kept in the file as JSON."""

    game: str = ""
    """The environment, e.g. "MsPacman" or "CartPole-v1"."""
    metric: str = "return"
    """What `score` is."""
    mode: Literal["max", "min"] = "max"
    """Whether a larger or a smaller score is better. Scores are kept as they came."""
    resource_note: str = ""
    """Units that need saying, e.g. "steps are agent steps (4 frames each)"."""
    space: dict[str, Any] | None = None
    """The search space that the hyperparameters were drawn from, as JSON."""
    seed: int | None = None
    hardware: str = ""
    versions: dict[str, str] = {}
    date: str = ""
    """ISO date of the recording."""
    recorded_by: str = ""
    """The command, or how it was recorded."""
    synthetic: bool = False
    """Made up by a generator, not recorded."""
    ends: dict[str, str] = {}
    """Trial number, as text, to how it ended. A trial that is not named is complete."""


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """One trial's curve: four arrays of one length, one row per episode or report.

    Attributes:
        trial: the trial's number in the file, 0 or more.
        hparams: hyperparameter name to value.
        end: how the trial ended.
        seconds: cumulative training seconds, shape (rows,).
        steps: cumulative steps, shape (rows,).
        episodes: cumulative finished episodes, shape (rows,).
        score: score of each row, shape (rows,). NaN only in the last row, which
            then holds the final counters.
    """

    trial: int
    hparams: dict[str, HparamValue]
    end: End
    seconds: Floats
    steps: Ints
    episodes: Ints
    score: Floats

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True, eq=False, slots=True)
class TraceSet:
    """The traces of one game, in the order of their file.

    Attributes:
        name: the file's name without its suffix, or what the maker called it.
        path: the file, or None for a set made in memory.
        meta: the metadata. Where `meta.ends` and a trace's `end` differ, the trace is right.
        traces: the trials.
        sha256: of the file's bytes; for a set made in memory, of its content.
    """

    name: str
    path: Path | None
    meta: Metadata
    traces: tuple[Trace, ...]
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.sha256:
            try:
                sha256 = content_sha256(self.meta, self.traces)
            except (TypeError, ValueError) as error:
                raise TraceError(f"trace set {self.name!r}: {error}") from None
            object.__setattr__(self, "sha256", sha256)

    def __len__(self) -> int:
        return len(self.traces)

    @property
    def rows(self) -> int:
        """Rows of all trials together."""
        return sum(map(len, self.traces))


def content_sha256(meta: Metadata, traces: tuple[Trace, ...]) -> str:
    """Return the SHA-256 of metadata and traces, whatever kind of file they are kept in."""
    digest = hashlib.sha256(msgspec.json.encode(meta))
    for trace in traces:
        head = (trace.trial, trace.end, len(trace), sorted(trace.hparams.items()))
        digest.update(msgspec.json.encode(head, enc_hook=_plain))
        for values, kind in (
            (trace.seconds, "<f8"),
            (trace.steps, "<i8"),
            (trace.episodes, "<i8"),
            (trace.score, "<f8"),
        ):
            digest.update(np.ascontiguousarray(values, kind).tobytes())
    return digest.hexdigest()


def _plain(value: object) -> object:
    """Turn a NumPy scalar into Python's own number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TraceError(f"a hyperparameter is {value!r}; it must be a number, a text or a bool")
