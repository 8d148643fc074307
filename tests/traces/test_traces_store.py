import hashlib
import itertools
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_files import ROWS, SUFFIXES, assert_same, make_set, make_trace, put, table

import simsched.traces.store as store
from simsched.traces import Metadata, TraceError, TraceSet, load, read, shipped, write

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = st.one_of(FINITE, st.integers(-(2**63), 2**63 - 1), st.booleans(), TEXT)
NAMES = st.text(st.characters(categories=["L", "N", "P"], include_characters=" _"), min_size=1)


@st.composite
def trace_sets(draw: st.DrawFn) -> TraceSet:
    kinds = draw(
        st.dictionaries(
            NAMES.filter(lambda name: name == name.strip()),
            st.sampled_from([FINITE, st.integers(-(2**63), 2**63 - 1), st.booleans(), TEXT]),
            max_size=3,
        )
    )
    traces = []
    for trial in draw(st.lists(st.integers(0, 2**63 - 1), unique=True, min_size=1, max_size=4)):
        rows = draw(st.integers(1, 5))
        counts = draw(st.lists(st.integers(1, 2**40), min_size=rows, max_size=rows))
        pace = draw(st.floats(1e-6, 1e6))
        score = np.array(draw(st.lists(FINITE, min_size=rows, max_size=rows)))
        if draw(st.booleans()):
            score[-1] = np.nan
        traces.append(
            make_trace(
                trial,
                rows,
                hparams={name: draw(kind) for name, kind in kinds.items()},
                end=draw(st.sampled_from(["complete", "diverged", "censored"])),
                seconds=np.cumsum(np.full(rows, pace)),
                steps=np.cumsum(np.array(counts)),
                episodes=np.arange(rows),
                score=score,
            )
        )
    return make_set(*traces, seed=draw(st.none() | st.integers(0, 2**32)), hardware=draw(TEXT))


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(
    max_examples=60,
    suppress_health_check=[
        *settings.default.suppress_health_check, HealthCheck.function_scoped_fixture,
    ],
)  # fmt: skip
@given(made=trace_sets())
def test_what_is_written_is_read_back_and_written_alike(tmp_path, suffix, made):
    path = tmp_path / f"runs{suffix}"
    write(made, path)
    first = path.read_bytes()
    back = read(path)
    assert_same(made, back)
    assert back.meta.hardware == made.meta.hardware
    assert back.meta.ends == {str(trace.trial): trace.end for trace in made.traces}
    assert back.sha256 == hashlib.sha256(first).hexdigest()
    write(back, path)
    assert path.read_bytes() == first


def test_all_metadata_is_kept(tmp_path):
    meta = Metadata(
        game="MsPacman",
        metric="loss",
        mode="min",
        resource_note="steps are agent steps (4 frames each)",
        space={"t_max": {"type": "integer", "low": 2, "high": 100}, "a": {"choices": [0.5, "x"]}},
        seed=3,
        hardware="2 cores, ünïcode",
        versions={"torch": "2.13", "ale-py": "0.11"},
        date="2026-01-02",
        recorded_by="simsched record",
        synthetic=True,
        ends={"0": "complete", "1": "diverged", "7": "censored"},
    )
    made = TraceSet("made", None, meta, make_set().traces)
    for suffix in SUFFIXES:
        write(made, tmp_path / f"runs{suffix}")
        back = read(tmp_path / f"runs{suffix}")
        assert back.meta == meta
        assert list(back.meta.space or {}) == ["t_max", "a"], "the order of the space is kept"


def test_metadata_is_under_one_key_of_the_parquet_schema(tmp_path):
    write(make_set(), tmp_path / "runs.parquet")
    schema = pq.read_schema(tmp_path / "runs.parquet")
    assert list(schema.metadata) == [b"simsched"]
    assert schema.names[:5] == ["trial", "seconds", "steps", "episodes", "score"]


def test_a_trial_may_lack_a_hyperparameter_and_numbers_may_be_mixed(tmp_path):
    made = make_set(
        make_trace(0, hparams={"lr": 1, "depth": 3}), make_trace(1, hparams={"lr": 0.5})
    )
    for suffix in SUFFIXES:
        write(made, tmp_path / f"runs{suffix}")
        first, second = read(tmp_path / f"runs{suffix}").traces
        assert first.hparams == {"lr": 1.0, "depth": 3}
        assert type(first.hparams["lr"]) is float
        assert type(first.hparams["depth"]) is int
        assert second.hparams == {"lr": 0.5}


def test_numpy_scalars_are_taken_as_hyperparameters(tmp_path):
    made = make_set(make_trace(hparams={"lr": np.float64(0.5), "n": np.int64(3), "b": np.True_}))
    write(made, tmp_path / "runs.jsonl")
    assert read(tmp_path / "runs.jsonl").traces[0].hparams == {"lr": 0.5, "n": 3, "b": True}


def test_plain_csv_is_complete_up_to_its_last_row(tmp_path):
    rows = [row for row in ROWS if ",," not in row]
    back = read(put(tmp_path, table(*rows)))
    assert [trace.end for trace in back.traces] == ["complete", "complete"]
    assert back.traces[0].score.tolist() == [10, 20]
    assert back.name == "runs"
    assert back.meta == Metadata(ends={"0": "complete", "1": "complete"})


def test_csv_types_of_hyperparameters_are_found_out(tmp_path):
    head = "trial,seconds,steps,episodes,score,hp.i,hp.f,hp.b,hp.s,hp.none"
    back = read(put(tmp_path, table("0,1,1,1,1,3,1e-3,True,3x,", head=head)))
    assert back.traces[0].hparams == {"i": 3, "f": 1e-3, "b": True, "s": "3x"}


@pytest.mark.parametrize(
    "text",
    [
        table(*ROWS).replace("\n", "\r\n"),
        table(*ROWS).replace("\n", "\r"),
        "\ufeff" + table(*ROWS),
        table(*ROWS).replace(",", " , "),
        table(*ROWS) + "\n\n",
        table(*ROWS).rstrip("\n"),
        table(*[row.replace("100", "100.0").replace("90", "9e1") for row in ROWS]),
    ],
    ids=["crlf", "cr", "bom", "spaces", "blank end", "no newline", "floats"],
)
def test_csv_dialects(tmp_path, text):
    expected = read(put(tmp_path, table(*ROWS), "plain.csv"))
    assert_same(read(put(tmp_path, text)), expected)


def test_jsonl_with_other_key_order_blank_lines_and_nulls(tmp_path):
    lines = (
        '{"simsched": {"game": "Pong", "ends": {"4": "diverged"}}}\n\n'
        '{"score": 2, "trial": 4, "seconds": 1, "steps": 5, "episodes": 1, "hp.x": null}\n'
        '{"trial": 4, "seconds": 2, "steps": 6, "episodes": 1, "score": null}\n'
    )
    back = read(put(tmp_path, lines, "runs.jsonl"))
    assert back.meta.game == "Pong"
    (trace,) = back.traces
    assert trace.end == "diverged"
    assert trace.hparams == {}
    np.testing.assert_array_equal(trace.score, [2, np.nan])


def test_parquet_with_other_column_types(tmp_path):
    columns = {
        "trial": pa.array([3, 3], pa.uint8()),
        "seconds": pa.array([1, 2], pa.float32()),
        "steps": pa.array([10.0, 20.0], pa.float64()),
        "episodes": pa.array([1, 2], pa.int32()),
        "score": pa.array([1.5, float("nan")], pa.float32()),
        "hp.opt": pa.array(["a", "a"]).dictionary_encode(),
        "hp.lr": pa.array([0.5, 0.5], pa.float32()),
        "game": pa.array(["Pong", "Pong"], pa.large_string()),
    }
    pq.write_table(pa.table(columns), tmp_path / "runs.parquet")
    back = read(tmp_path / "runs.parquet")
    assert back.meta.game == "Pong"
    assert back.traces[0].steps.tolist() == [10, 20]
    assert back.traces[0].hparams == {"opt": "a", "lr": 0.5}


def test_arrays_cannot_be_changed(tmp_path):
    write(make_set(), tmp_path / "runs.csv")
    with pytest.raises(ValueError, match="read-only"):
        read(tmp_path / "runs.csv").traces[0].score[0] = 1.0


def test_sha256_in_memory_is_of_the_content():
    base = make_set()
    assert base.sha256 == make_set().sha256
    changed = [
        make_set(game="Boxing"),
        make_set(make_trace(0)),
        make_set(make_trace(0, end="diverged"), *base.traces[1:]),
        make_set(make_trace(0, hparams={}), *base.traces[1:]),
        make_set(make_trace(0, seconds=np.arange(4) / 2), *base.traces[1:]),
    ]
    digests = [base.sha256, *(other.sha256 for other in changed)]
    assert all(one != other for one, other in itertools.combinations(digests, 2))


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "runs.csv"
    write(make_set(), path)
    old = path.read_bytes()
    bad = make_set(make_trace(hparams={"opt": ""}))
    with pytest.raises(TraceError, match=r"hp\.opt is an empty text, which a CSV file cannot hold"):
        write(bad, path)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["runs.csv"]


def test_write_replaces_by_renaming(tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    path.write_text("old")
    seen = []

    def replace(self, target):
        seen.append((self.parent, target, path.read_text(), self.read_bytes()[:10]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.Path, "replace", replace)
    with pytest.raises(TraceError, match=r"runs\.csv: cannot be written: No space left"):
        write(make_set(), path)
    assert seen == [(tmp_path, path, "old", b"# simsched")]
    assert [file.name for file in tmp_path.iterdir()] == ["runs.csv"]


def test_load_finds_shipped_sets_in_any_case_and_offers_the_nearest(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_data", lambda: tmp_path)
    write(make_set(), tmp_path / "MsPacman.parquet")
    write(make_set(), tmp_path / "CartPole-v1.parquet")
    (tmp_path / "README.md").write_text("no traces")
    assert shipped() == ["CartPole-v1", "MsPacman"]
    assert load("mspacman").name == "MsPacman"
    assert load(tmp_path / "MsPacman.parquet").rows == 12
    with pytest.raises(TraceError, match=r"'MsPackman'; did you mean MsPacman\? shipped: CartPole"):
        load("MsPackman")
    with pytest.raises(TraceError, match=r"runs\.csv: there is no such file"):
        load("runs.csv")
    with pytest.raises(TraceError, match=r"it is a folder"):
        load(tmp_path)


def test_importing_the_package_loads_no_arrow():
    code = "import sys, simsched.traces; print('pyarrow' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_unknown_name_of_the_package():
    import simsched.traces

    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        _ = simsched.traces.reed
    for name in simsched.traces.__all__:
        assert getattr(simsched.traces, name) is not None
