import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_files import FIVE, HEAD, ROWS, assert_same, put, table

from simsched.traces import TraceError, import_file, read

THEIRS = table(
    "run-b,3.5,7,0.5,0.1,x",
    "run-a,1.5,9,0.7,0.2,x",
    "run-b,4.5,8,0.6,0.1,y",
    "run-a,2.5,12,,0.2,y",
    head="run_id,wall_s,global_step,episode_return,config/lr,note",
)
COLUMNS = {
    "trial": "run_id",
    "seconds": "wall_s",
    "steps": "global_step",
    "score": "episode_return",
}


def test_foreign_table(tmp_path):
    path = put(tmp_path, THEIRS)
    done = import_file(
        path,
        columns=COLUMNS,
        hparams={"lr": "config/lr"},
        count=["episodes"],
        game="Pong",
        metric="episode return",
        mode="min",
    )
    first, second = done.traceset.traces
    assert (first.trial, second.trial) == (0, 1)
    assert first.hparams == {"lr": 0.1}
    assert first.seconds.tolist() == [3.5, 4.5]
    assert first.episodes.tolist() == [1, 2]
    assert second.steps.tolist() == [9, 12]
    assert second.episodes.tolist() == [1, 1], "the final row without a score is no episode"
    np.testing.assert_array_equal(second.score, [0.7, np.nan])
    meta = done.traceset.meta
    assert (meta.game, meta.metric, meta.mode) == ("Pong", "episode return", "min")
    assert meta.recorded_by == "imported from runs.csv"
    assert done.notes == (
        "left out: note",
        "trials numbered: 0 = run-b, 1 = run-a",
        "rows of different trials were mixed; they were grouped by trial",
    )


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_other_kinds_of_files_give_the_same(tmp_path, suffix):
    lines = THEIRS.splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    typed = [
        {n: v if n in ("run_id", "note") else float(v) if v else None for n, v in row.items()}
        | {"config": {"nested": [1]}}
        for row in rows
    ]
    path = tmp_path / f"runs{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, typed)))
    else:
        pq.write_table(pa.Table.from_pylist(typed), path)
    options = {"columns": COLUMNS, "hparams": {"lr": "config/lr"}, "count": ["episodes"]}
    expected = import_file(put(tmp_path, THEIRS), **options)
    done = import_file(path, **options)
    assert_same(done.traceset, expected.traceset)
    assert done.notes[0] == "left out: note, config"


def test_our_own_files_come_through_unchanged(tmp_path):
    path = put(tmp_path, '# simsched: {"game":"Pong","recorded_by":"me"}\n' + table(*ROWS))
    done = import_file(path)
    assert_same(done.traceset, read(path))
    assert done.traceset.meta == read(path).meta
    assert done.notes == ()


def test_numeric_trial_ids_are_kept_though_they_are_texts(tmp_path):
    done = import_file(put(tmp_path, table("12,1,1,1,1", "3,1,1,1,1", head=FIVE)))
    assert [trace.trial for trace in done.traceset.traces] == [12, 3]


def test_counting_both(tmp_path):
    path = put(tmp_path, table("a,1,2", "a,2,3", "b,1,1", head="trial,seconds,score"))
    first, second = import_file(path, count=["steps", "episodes"]).traceset.traces
    assert first.steps.tolist() == first.episodes.tolist() == [1, 2]
    assert second.steps.tolist() == [1]


def test_a_column_of_the_same_name_may_be_counted_anew(tmp_path):
    path = put(tmp_path, table("a,1,7,0,2", "a,2,8,0,3", head=FIVE))
    assert import_file(path, count=["episodes"]).traceset.traces[0].episodes.tolist() == [1, 2]


def test_games(tmp_path):
    rows = ("0,1,1,1,1,Pong", "1,1,1,1,1,Pong")
    path = put(tmp_path, table(*rows, head=FIVE + ",env"))
    assert import_file(path, columns={"game": "env"}).traceset.meta.game == "Pong"
    path = put(tmp_path, table(*rows, "2,1,1,1,1,Boxing", head=FIVE + ",env"))
    with pytest.raises(TraceError, match=r"line 4: game is 'Boxing', before it was 'Pong'"):
        import_file(path, columns={"game": "env"})


ERRORS = {
    "no such column": (
        {"columns": {"score": "episode_returns"}},
        r"no column 'episode_returns' for score; did you mean 'episode_return'\? there are: run_id",
    ),
    "no such hyperparameter": ({"hparams": {"x": "zzz"}}, "no column 'zzz' for hp.x; there are: r"),
    "not a column of ours": ({"columns": {"reward": "note"}}, "a map for column 'reward': it must"),
    "mapped and counted": (
        {"columns": COLUMNS | {"episodes": "note"}, "count": ["episodes"]},
        "episodes is both mapped to 'note' and to be counted",
    ),
    "not mapped": ({"columns": COLUMNS}, "there is no column 'episodes'; if each row is one"),
    "no trial": ({"count": ["steps"]}, "there is no column 'trial'; the columns must be trial"),
    "text as score": (
        {"columns": COLUMNS | {"score": "note"}, "count": ["episodes"]},
        "line 2: score is 'x'; it must be a number",
    ),
    "hyperparameter changes": (
        {"columns": COLUMNS, "count": ["episodes"], "hparams": {"n": "note"}},
        "line 4: hp.n is 'y' after 'x'; it must stay the same within trial 0",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_refusals_name_the_place_in_their_file(tmp_path, case):
    options, expected = ERRORS[case]
    with pytest.raises(TraceError, match=expected):
        import_file(put(tmp_path, THEIRS), **options)


def test_missing_trial_ids_and_times_of_day(tmp_path):
    with pytest.raises(TraceError, match="line 3: trial is missing"):
        import_file(put(tmp_path, table("a,1,1,1,1", ",1,1,1,1", head=FIVE)))
    with pytest.raises(TraceError, match="which looks like a time of day; it must be"):
        import_file(put(tmp_path, table("a,1790000000,1,1,1", head=FIVE)))
    with pytest.raises(TraceError, match="there is no such file"):
        import_file(tmp_path / "gone.csv")
    with pytest.raises(TraceError, match="it has columns but no rows"):
        import_file(put(tmp_path, HEAD))
    with pytest.raises(TraceError, match="it has columns but no rows"):
        import_file(put(tmp_path, "trial,seconds,score\n"), count=["steps", "episodes"])


def test_trials_that_a_search_stopped_early_are_censored(tmp_path) -> None:
    rows = table("0,1,10,1,1", "0,2,20,2,1", "1,1,10,1,1", "2,1,20,1,1", head=FIVE)
    done = import_file(put(tmp_path, rows), stopped_early=True)
    assert [trace.end for trace in done.traceset.traces] == ["complete", "censored", "complete"]
    assert done.traceset.meta.ends == {"0": "complete", "1": "censored", "2": "complete"}
    assert done.notes == ("1 of 3 trials have under 20 steps: censored",)
    plain = import_file(put(tmp_path, rows)).traceset
    assert [trace.end for trace in plain.traces] == ["complete"] * 3
