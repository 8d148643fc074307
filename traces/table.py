"""A table as a reader found it, and what becomes of it: typed columns.

Every reader (CSV, JSON Lines, Parquet, memory) makes a `Raw`; from there on there
is one path, so the same fault gives the same line of text in each kind of file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from simsched.traces.format import Floats, Ints, Metadata, TraceError

FORMAT: Final = 1
"""The number of the file format that this version writes, and the newest that it reads."""


class Header(Metadata, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metadata as the file holds it: with the format's number and column types."""

    format: int = FORMAT
    types: dict[str, str] = msgspec.field(default_factory=dict)
    """Hyperparameter name to float, int, str or bool, where the file itself cannot say."""

    def metadata(self) -> Metadata:
        """Return the part that belongs to the traces, not to the file."""
        return Metadata(**{name: getattr(self, name) for name in Metadata.__struct_fields__})


@dataclass
class Raw:
    """A table that is not yet checked.

    Attributes:
        source: the file as error messages name it.
        columns: name to Arrow array, all of one length; texts where `inferred`.
        where: row index to the words that say where the row stands ("line 7").
        header: the file's metadata, if it has any.
        inferred: every column came as text, so types are guessed from the values (CSV).
    """

    source: str
    columns: dict[str, Any]
    where: Callable[[int], str]
    header: Header = field(default_factory=Header)
    inferred: bool = False

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def error(self, row: int, reason: str) -> TraceError:
        """Return the error for one row."""
        return TraceError(f"{self.source}: {self.where(row)}: {reason}")


@dataclass(frozen=True, eq=False)
class Table:
    """The typed columns of `raw`, each of shape (rows,). `score` is NaN where it is missing."""

    raw: Raw
    trial: Ints
    seconds: Floats
    steps: Ints
    episodes: Ints
    score: Floats
    hparams: dict[str, Any]
    """Name without its prefix to an Arrow array of float64, int64, bool or text."""


def shown(value: object) -> str:
    """Return `value` as an error message quotes it: short and on one line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"


def decode_header(source: str, text: bytes | str) -> Header:
    """Read the metadata of a file. Raises TraceError when it is not what `Header` says."""
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceError(f"{source}: metadata: {error}") from None
    if header.format != FORMAT:
        raise TraceError(
            f"{source}: metadata: format is {header.format}; this version reads format {FORMAT}"
        )
    return header
