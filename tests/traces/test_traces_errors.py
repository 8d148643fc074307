"""What JSON Lines, Parquet files and sets in memory are refused for; CSV files have more cases."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_files import FIVE, ROWS, make_set, make_trace, put, refusal, table

from simsched.traces import TraceError, read, write

GOOD = '{"trial":0,"seconds":1,"steps":1,"episodes":1,"score":1}\n'
JSONL_CASES = {
    "empty": ("", "the file is empty"),
    "metadata only": ('{"simsched":{}}\n', "there is no column 'trial'"),
    "not JSON": (GOOD + "\n{'a': 1}\n", "line 3: not a JSON object: JSON is malformed"),
    "cut short": (GOOD + GOOD[:-9], "line 2: not a JSON object: Input data was truncated"),
    "a list": (GOOD + "[1]\n", "line 2: not a JSON object: Expected `object`, got `array`"),
    "NaN": (GOOD.replace("1}", "NaN}"), "line 1: not a JSON object"),
    "two lines in one": (GOOD + GOOD.strip() + GOOD, "line 2: not a JSON object"),
    "over two lines": (GOOD.replace(",", ",\n", 1), "line 1: not a JSON object"),
    "not UTF-8": (GOOD.encode() + b'{"trial":"\xff"}', "line 2: not a JSON object"),
    "text": (
        GOOD + GOOD.replace('"seconds":1', '"seconds":"x"'),
        "line 2: seconds is 'x'; it must be a number",
    ),
    "list as a value": (
        GOOD + "\n" + GOOD.replace('"seconds":1', '"seconds":[1]'),
        "line 3: seconds is '[1]'; it must be a number",
    ),
    "bool": (GOOD.replace('"steps":1', '"steps":true'), "line 1: steps is True; it must be"),
    "missing in a row": (
        GOOD + GOOD.replace('"trial":0', '"trial":1').replace('"steps":1,', ""),
        "line 2: steps is missing; it must be a number in every row",
    ),
    "overflow": (
        GOOD.replace('"steps":1', '"steps":18446744073709551615'),
        "line 1: steps is 1.8446744073709552e+19; it must be a whole number of at most",
    ),
    "after metadata": (
        '{"simsched":{}}\n' + GOOD + GOOD,
        "line 3: seconds 1.0, steps 1 and episodes 1 repeat the row before",
    ),
    "bad metadata": ('{"simsched":{"mode":1}}\n' + GOOD, "line 1: metadata: Expected `str`"),
    "deep": ('{"a":' + "[" * 100_000 + "\n", "line 1: not a JSON object"),
}


@pytest.mark.parametrize("case", JSONL_CASES)
def test_jsonl(tmp_path, case):
    text, expected = JSONL_CASES[case]
    assert refusal(put(tmp_path, text, "runs.jsonl")).startswith(expected)


def columns(**changes):
    """The columns of a good Parquet file of two rows, with changes; None takes one away."""
    plain = {
        "trial": [0, 0],
        "seconds": [1.0, 2.0],
        "steps": [1, 2],
        "episodes": [1, 2],
        "score": [1.0, None],
    }
    return {name: values for name, values in (plain | changes).items() if values is not None}


BIG = pa.array([1, 2**63], pa.uint64())
DAYS = pa.array([datetime.date(2026, 1, 1)] * 2)
PARQUET_CASES = {
    "no rows": (columns(**{n: pa.array([], "int64") for n in columns()}), "it has columns but no"),
    "no column": (columns(steps=None), "there is no column 'steps'"),
    "overflow": (columns(steps=BIG), "row 2: steps is 9223372036854775808; it must be a whole"),
    "hyperparameter overflow": (
        columns(**{"hp.n": BIG}),
        "row 2: hp.n is 9223372036854775808; it must be at most 9223372036854775807",
    ),
    "time back": (columns(seconds=[2.0, 1.0]), "row 2: seconds is 1.0 after 2.0"),
    "NaN steps": (
        columns(steps=[1.0, float("nan")]),
        "row 2: steps is nan; it must be a",
    ),
    "null steps": (columns(steps=[None, 2]), "row 1: steps is missing"),
    "date": (columns(seconds=DAYS), "row 1: seconds is datetime.date(2026, 1, 1); it must be a"),
    "date as hyperparameter": (columns(**{"hp.d": DAYS}), "row 1: hp.d is datetime.date(2026, 1"),
    "list": (columns(**{"hp.l": [[1], [1]]}), "row 1: hp.l is [1]; it must be a number, a text or"),
    "game is a number": (columns(game=[1, 2]), "row 2: game is 2, before it was 1"),
    "game is a list": (columns(game=[["a"], ["a"]]), "row 1: game is ['a'], it must be a text"),
}


@pytest.mark.parametrize("case", PARQUET_CASES)
def test_parquet(tmp_path, case):
    data, expected = PARQUET_CASES[case]
    path = tmp_path / "runs.parquet"
    pq.write_table(pa.table(data), path)
    assert refusal(path).startswith(expected)


def test_damaged_parquet(tmp_path):
    path = tmp_path / "runs.parquet"
    write(make_set(), path)
    data = path.read_bytes()
    assert "cut short" in refusal(put(tmp_path, data[: len(data) // 2], "half.parquet"))
    assert "is not a Parquet file" in refusal(put(tmp_path, table(*ROWS), "text.parquet"))
    assert "is not a Parquet file" in refusal(put(tmp_path, b"PAR1", "short.parquet"))
    both = data[:200] + data[-4:]
    assert "is damaged: " in refusal(put(tmp_path, both, "middle.parquet"))
    flipped = bytearray(data)
    flipped[60] ^= 255
    assert "is damaged: " in refusal(put(tmp_path, bytes(flipped), "flipped.parquet"))


def test_parquet_with_a_column_twice(tmp_path):
    good = pa.table(columns())
    doubled = good.append_column("steps", good["steps"])
    pq.write_table(doubled, tmp_path / "runs.parquet")
    assert refusal(tmp_path / "runs.parquet") == "there are 2 columns 'steps'"


EMPTY = np.array([])


def test_files_that_are_none(tmp_path):
    assert refusal(tmp_path / "gone.csv") == "there is no such file"
    (tmp_path / "folder.csv").mkdir()
    assert refusal(tmp_path / "folder.csv") == "it is a folder; give one trace file"
    suffix = "the suffix '.txt' is not known; it must be .parquet, .csv, .jsonl"
    assert refusal(put(tmp_path, "x", "runs.txt")) == suffix
    with pytest.raises(TraceError, match=r"suffix '\.txt' is not known"):
        write(make_set(), tmp_path / "runs.txt")
    with pytest.raises(TraceError, match="cannot be written: No such file or directory"):
        write(make_set(), tmp_path / "no" / "runs.csv")
    with pytest.raises(TraceError, match="cannot be read: embedded null byte"):
        read("a\0b.csv")


def test_a_name_with_line_breaks_stays_on_one_line(tmp_path):
    with pytest.raises(TraceError) as caught:
        read(tmp_path / "two\nlines\udcff.csv")
    assert r"two\nlines\udcff.csv: there is no such file" in str(caught.value)


def test_a_scoreless_last_row_may_repeat_the_counters(tmp_path):
    back = read(put(tmp_path, table("0,1,5,1,3", "0,1,5,1,", head=FIVE)))
    assert back.rows == 2


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        ([make_trace(0), make_trace(1), make_trace(0)], "trial 0 is there more than once"),
        ([make_trace(-1)], "trial -1, its row 1: trial is -1; it must be 0 or more"),
        ([make_trace(steps=np.arange(3))], r"trial 0: seconds, .* have shapes \(4,\), \(3,\), "),
        ([make_trace(seconds=np.zeros((4, 1)))], r"shapes \(4, 1\), "),
        ([make_trace(seconds=EMPTY, score=EMPTY, steps=EMPTY, episodes=EMPTY)],
         r"shapes \(0,\), .* must be one \(rows,\) with rows"),
        ([make_trace(1), make_trace(0, seconds=np.array([1, 2, 3, 2.0]))],
         "trial 0, its row 4: seconds is 2.0 after 3.0"),
        ([make_trace(steps=np.array([1, 2.5, 3, 4]))], "its row 2: steps is 2.5; it must be a who"),
        ([make_trace(steps=np.array([1, "a", None, {}], object))], "trace set 'made': "),
        ([make_trace(end="died")], "trial 0 ended 'died'"),
        ([make_trace(hparams={"lr": float("nan")})], "hp.lr is nan; it must be finite"),
        ([make_trace(hparams={"lr": [1]})], r"trial 0: lr is \[1\]; it must be a number, a text"),
        ([make_trace(hparams={"lr": 2**64})], "trace set 'made': lr: "),
        ([make_trace(hparams={"a\nb": 1})], r"column 'hp\.a\\nb' is none of trial, .* or hp.NAME"),
        ([make_trace(0), make_trace(1, hparams={"lr": "high"})],
         "trial 1: lr is 'high'; it must be a number, a text or a bool, and of one kind"),
    ],
)  # fmt: skip
def test_sets_made_in_memory(tmp_path, traces, expected):
    with pytest.raises(TraceError, match=expected):
        write(make_set(*traces), tmp_path / "runs.parquet")
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_is_no_json(tmp_path):
    with pytest.raises(TraceError, match="trace set 'made': "):
        write(make_set(space={"lr": object()}), tmp_path / "runs.csv")
    with pytest.raises(TraceError, match="metadata: Expected `str`, got `int`"):
        write(make_set(versions={"torch": 2}), tmp_path / "runs.csv")


def test_no_trials(tmp_path):
    empty = make_set()
    with pytest.raises(TraceError, match="it has no trials"):
        write(type(empty)("none", None, empty.meta, ()), tmp_path / "runs.csv")
