"""Parquet, CSV and JSON Lines into a `Raw` table. Nothing about the values is checked here."""

import csv
import io
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from simsched.traces.format import TraceError
from simsched.traces.table import Header, Raw, decode_header, shown

METADATA_KEY: Final = b"simsched"
CSV_MARK: Final = "# simsched:"
JSONL_KEY: Final = "simsched"
SUFFIXES: Final = (".parquet", ".csv", ".jsonl")


def read_raw(path: Path) -> tuple[bytes, Raw]:
    """Return a file's bytes and its table, by suffix. Raises TraceError."""
    if path.is_dir():
        raise TraceError(f"{path}: it is a folder; give one trace file")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise TraceError(
            f"{path}: the suffix {path.suffix!r} is not known; it must be {', '.join(SUFFIXES)}"
        )
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TraceError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"{path}: cannot be read: {reason}") from None
    if not data or data.isspace():
        raise TraceError(f"{path}: the file is empty")
    return data, reader(str(path), data)


def read_parquet(source: str, data: bytes) -> Raw:
    """Read a Parquet table, with its page checksums where it has them."""
    if len(data) < 12 or data[:4] != b"PAR1":
        raise TraceError(f"{source}: it is not a Parquet file (it does not begin with PAR1)")
    if data[-4:] != b"PAR1":
        raise TraceError(f"{source}: the Parquet file is cut short (it does not end with PAR1)")
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table = file.read()
        table.validate(full=True)
        columns = _columns(source, table.column_names, [_array(c) for c in table.columns])
    except TraceError:
        raise
    except (pa.ArrowException, ValueError, TypeError, LookupError, OSError, MemoryError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise TraceError(f"{source}: the Parquet file is damaged: {reason}") from None
    text = (table.schema.metadata or {}).get(METADATA_KEY)
    header = decode_header(source, text) if text is not None else Header()
    return Raw(source, columns, lambda row: f"row {row + 1}", header)


def _columns(source: str, names: list[str], arrays: list[Any]) -> dict[str, Any]:
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"{source}: there are {names.count(name)} columns {shown(name)}")
    return dict(zip(names, arrays, strict=True))


def _array(column: Any) -> Any:
    """Make one array of a chunked column, and plain text of every kind of text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        kind = pa.string()
    if kind != column.type:
        column = column.cast(kind)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)


def read_csv(source: str, data: bytes) -> Raw:
    """Read comma-separated text, every column as text; the types are found out later."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(f"{source}: line {line}: not UTF-8 text: {error.reason}") from None
    first = 1
    header = Header()
    if text.startswith(CSV_MARK):
        mark, _, text = text.partition("\n")
        header = decode_header(f"{source}: line 1", mark.removeprefix(CSV_MARK))
        first = 2
    if "\n" not in text:
        text = text.replace("\r", "\n")
    head, _, body = text.partition("\n")
    names = _csv_names(source, first, head.rstrip("\r"))
    where = _CsvLines(body, first)
    if not body.strip():
        return Raw(source, {n: pa.array([], pa.string()) for n in names}, where, header, True)
    table = _csv_table(source, names, body, where)
    return Raw(source, _columns(source, names, [_array(c) for c in table]), where, header, True)


def _csv_names(source: str, line: int, head: str) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader([head], strict=True), [])]
    except csv.Error as error:
        raise TraceError(f"{source}: line {line}: column names: {error}") from None
    if not any(names):
        raise TraceError(f"{source}: line {line}: it is blank; the column names must stand there")
    for mark in ";\t":
        if len(names) == 1 and mark in head:
            raise TraceError(
                f"{source}: line {line}: the columns are parted by {mark!r}; commas are needed"
            )
    _columns(f"{source}: line {line}", names, names)
    return names


def _csv_table(source: str, names: list[str], body: str, where: Callable[[int], str]) -> Any:
    ragged: list[Any] = []

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        return pa_csv.read_csv(
            pa.BufferReader(body.encode()),
            pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=1 << 24),
            pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, ValueError) as error:
        if ragged and ragged[0].number is not None:
            row = ragged[0]
            raise TraceError(
                f"{source}: {where(row.number - 1)}: {row.actual_columns} values; "
                f"there are {row.expected_columns} columns"
            ) from None
        reason = str(error).partition("\n")[0]
        raise TraceError(f"{source}: not a CSV file: {reason}") from None


class _CsvLines:
    """Row index to "line 7", counted only when an error needs it."""

    def __init__(self, body: str, lines_before: int) -> None:
        self.body, self.lines_before = body, lines_before

    def __call__(self, row: int) -> str:
        reader = csv.reader(io.StringIO(self.body, newline=""))
        index = -1
        line = 1
        try:
            for values in reader:
                index += bool(values)
                if index == row:
                    return f"line {self.lines_before + line}"
                line = reader.line_num + 1
        except csv.Error:
            pass  # this reader is stricter than Arrow's: the row's number has to do
        return f"row {row + 1}"


_Row = dict[str, Any]
_ROW_DECODER: Final = msgspec.json.Decoder(_Row)


def read_jsonl(source: str, data: bytes) -> Raw:
    """Read one JSON object per line. A column is what any row names; elsewhere it is missing."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    first, _, rest = data.partition(b"\n")
    header, skipped = Header(), 0
    record = _json_row(source, 1, first) if first.strip() else {}
    if list(record) == [JSONL_KEY]:
        header = decode_header(f"{source}: line 1", msgspec.json.encode(record[JSONL_KEY]))
        data, skipped = rest, 1

    def where(row: int) -> str:
        full = (n for n, line in enumerate(data.split(b"\n"), 1 + skipped) if line.strip())
        return f"line {next((n for i, n in enumerate(full) if i == row), row + 1)}"

    columns: dict[str, list[Any]] = {}
    done, line = 0, 1 + skipped
    for block in _blocks(data):
        rows = _json_rows(source, line, block)
        for name in dict.fromkeys(chain(columns, chain.from_iterable(rows))):
            values = columns.setdefault(name, [None] * done)
            values.extend([row.get(name) for row in rows])
        done += len(rows)
        line += block.count(b"\n")
    return Raw(source, {name: _json_array(v) for name, v in columns.items()}, where, header)


def _blocks(data: bytes) -> Iterator[bytes]:
    """Cut `data` into parts of whole lines, of about a megabyte."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + 1_000_000) + 1 or len(data)
        yield data[start:end]
        start = end


def _json_rows(source: str, first_line: int, block: bytes) -> list[_Row]:
    try:
        rows: list[_Row] = _ROW_DECODER.decode_lines(block)
        one_a_line = len(rows) == block.count(b"\n") + (not block.endswith(b"\n"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        one_a_line = False
    if one_a_line:
        return rows
    # A fault, or only blank lines: line by line it is slower, but the fault has its place.
    numbered = enumerate(block.split(b"\n"), first_line)
    return [_json_row(source, number, line) for number, line in numbered if line.strip()]


def _json_row(source: str, line: int, text: bytes) -> _Row:
    try:
        return _ROW_DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceError(f"{source}: line {line}: not a JSON object: {error}") from None


def _json_array(values: list[Any]) -> Any:
    """Make an Arrow array. Mixed and nested values become texts, as they would in a CSV file."""
    types = set(map(type, values)) - {type(None)}
    if types <= {int, float}:
        try:
            return pa.array(values, pa.float64() if float in types else pa.int64())
        except (pa.ArrowInvalid, OverflowError):  # an integer of more than 63 bits
            return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if types == {bool}:
        return pa.array(values, pa.bool_())
    if types != {str}:
        values = [v if v is None or isinstance(v, str) else _json_text(v) for v in values]
    return pa.array(values, pa.string())


def _json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


READERS: Final[dict[str, Callable[[str, bytes], Raw]]] = {
    ".parquet": read_parquet,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
}
