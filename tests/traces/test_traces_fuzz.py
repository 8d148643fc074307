"""Whatever the bytes are, reading gives a trace set that keeps the rules, or a TraceError."""

import functools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_files import SUFFIXES, make_set

from simsched.traces import TraceError, read, write

FUZZ = settings(
    max_examples=150,
    suppress_health_check=[
        *settings.default.suppress_health_check, HealthCheck.function_scoped_fixture,
    ],
)  # fmt: skip
TOKENS = st.sampled_from(
    b'nan|inf|-1|1e999|99999999999999999999|"|,|{|}|[[[|\x00|\xff|hp.|null|true|PAR1|0,|\n|\r|#'.split(
        b"|"
    )
)


@functools.cache
def good(suffix: str, folder) -> bytes:
    write(make_set(), folder / f"good{suffix}")
    return (folder / f"good{suffix}").read_bytes()


def read_or_refuse(path, data: bytes) -> None:
    path.write_bytes(data)
    refusal = None
    try:
        back = read(path)
    except TraceError as error:
        refusal = str(error)
    if refusal is not None:
        assert refusal.isprintable()
        assert refusal.startswith(f"{path}: ")
        return
    for trace in back.traces:
        assert len(trace) >= 1
        assert np.isfinite(trace.score[:-1]).all()
        for values in (trace.seconds, trace.steps, trace.episodes):
            assert np.isfinite(values).all()
            assert (values >= 0).all()
            assert (np.diff(values) >= 0).all()
    write(back, path.with_name("again.parquet"))


@pytest.mark.parametrize("suffix", SUFFIXES)
@FUZZ
@given(data=st.binary(max_size=300))
def test_random_bytes(tmp_path, suffix, data):
    read_or_refuse(tmp_path / f"runs{suffix}", data)


@FUZZ
@given(text=st.text("0123456789.,-e\n\"ntrialsecodhp#'{}: ", max_size=200))
def test_random_csv_rows(tmp_path, text):
    read_or_refuse(tmp_path / "runs.csv", f"trial,seconds,steps,episodes,score\n{text}".encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=3,
)


@FUZZ
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(
                ("trial", "seconds", "steps", "episodes", "score", "hp.a", "game"),
                st.integers(0, 3) | JSON,
            ),
        ),
        max_size=4,
    )
)
def test_json_values_of_every_kind(tmp_path, rows):
    import json

    text = "\n".join(json.dumps(row) for row in rows)
    read_or_refuse(tmp_path / "runs.jsonl", text.encode())


@pytest.mark.parametrize("suffix", SUFFIXES)
@FUZZ
@given(data=st.data())
def test_damaged_files(tmp_path_factory, tmp_path, suffix, data):
    whole = good(suffix, tmp_path_factory.getbasetemp())
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged)))
        length = data.draw(st.integers(0, 12))
        damaged[start : start + length] = data.draw(TOKENS | st.binary(max_size=4))
    if suffix == ".parquet" and data.draw(st.booleans()):
        damaged[:4] = damaged[-4:] = b"PAR1"
    read_or_refuse(tmp_path / f"runs{suffix}", bytes(damaged))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_cut_short_at_every_place(tmp_path, suffix):
    whole = good(suffix, tmp_path)
    step = max(1, len(whole) // 150)
    for length in range(0, len(whole), step):
        read_or_refuse(tmp_path / f"runs{suffix}", whole[:length])
