"""A checked `Raw` table into the bytes of a Parquet, CSV or JSON Lines file.

The same table gives the same bytes: nothing depends on the clock or on hash order.
"""

import csv as csv_module
import io

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from simsched.traces.format import HPARAM_PREFIX, TraceError
from simsched.traces.readers import CSV_MARK, JSONL_KEY, METADATA_KEY
from simsched.traces.table import Header, Raw

_ENCODINGS = {
    "seconds": "PLAIN",
    "steps": "DELTA_BINARY_PACKED",
    "episodes": "DELTA_BINARY_PACKED",
}
_BLOCK = 50_000
"""Rows turned into Python objects at a time."""


def parquet(raw: Raw) -> bytes:
    """Return a Parquet file: zstd, page checksums, the metadata under one key of the schema.

    Counters differ from row to row by little: as differences the file is half as large.
    """
    metadata = {METADATA_KEY: msgspec.json.encode(raw.header)}
    table = pa.table(raw.columns).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=[
            name for name in raw.columns if name not in ("seconds", "steps", "episodes")
        ],
        column_encoding={
            "seconds": "PLAIN",
            "steps": "DELTA_BINARY_PACKED",
            "episodes": "DELTA_BINARY_PACKED",
        },
        write_page_checksum=True,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def csv(raw: Raw) -> bytes:
    """Return comma-separated text with the metadata in a comment line at the top.

    Raises TraceError for an empty text, which a CSV cannot tell from a missing value.
    """
    types = {}
    for name, column in raw.columns.items():
        if not name.startswith(HPARAM_PREFIX):
            continue
        types[name.removeprefix(HPARAM_PREFIX)] = _TYPE_NAMES[str(column.type)]
        if pa.types.is_string(column.type) and "" in column.unique().to_pylist():
            raise TraceError(
                f"{raw.source}: {name} is an empty text, which a CSV file cannot hold; "
                "write .parquet or .jsonl"
            )
    header = msgspec.structs.replace(raw.header, types=types)
    head = io.StringIO()
    csv_module.writer(head, lineterminator="\n").writerow(raw.columns)
    sink = io.BytesIO()
    sink.write(f"{CSV_MARK} {msgspec.json.encode(header).decode()}\n{head.getvalue()}".encode())
    options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
    pa_csv.write_csv(pa.table(raw.columns), sink, options)
    return sink.getvalue()


_TYPE_NAMES = {"bool": "bool", "int64": "int", "double": "float", "string": "str"}


def jsonl(raw: Raw) -> bytes:
    """Return one JSON object per row after one with the metadata, without what is missing."""
    encoder = msgspec.json.Encoder()
    header: Header = raw.header
    parts = [encoder.encode_lines([{JSONL_KEY: header}])]
    names = list(raw.columns)
    for start in range(0, raw.rows, _BLOCK):
        block = [raw.columns[name][start : start + _BLOCK].to_pylist() for name in names]
        parts.append(
            encoder.encode_lines(
                [
                    {
                        name: value
                        for name, value in zip(names, row, strict=True)
                        if value is not None or name == "score"
                    }
                    for row in zip(*block, strict=True)
                ]
            )
        )
    return b"".join(parts)
