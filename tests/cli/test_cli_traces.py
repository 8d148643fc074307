"""Trace files that cannot be used: one line with file and place, exit code 2, nothing made."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_curves import HEAD, ladder, lines
from cli_outcome import Outcome, tree

Run = Callable[..., Outcome]
GOOD = ("0,10,100,1,1,0.1", "0,20,200,2,2,0.1", "1,10,100,1,3,0.2", "1,20,200,2,4,0.2")


def broken(row: int, text: str) -> str:
    """The good rows with one of them (from 0) changed."""
    return "\n".join((HEAD, *GOOD[:row], text, *GOOD[row + 1 :])) + "\n"


BAD_TEXTS = {
    "nothing": ("", "the file is empty"),
    "blank": (" \n\n", "the file is empty"),
    "header only": (HEAD + "\n", "it has columns but no rows"),
    "no score": ("trial,seconds,steps,episodes\n0,1,1,1\n", "there is no column 'score'"),
    "score misspelt": (
        "trial,seconds,steps,episodes,scores\n0,1,1,1,1\n",
        "there is no column 'score'; rename 'scores'",
    ),
    "no steps": (
        "trial,seconds,episodes,score\n0,1,1,1\n",
        "there is no column 'steps'; if each row is one of them: simsched traces import",
    ),
    "unknown column": (
        HEAD + ",lr\n0,1,1,1,1,0.1,5\n",
        "column 'lr' is none of trial, seconds, steps, episodes, score or hp.NAME",
    ),
    "column twice": ("trial,seconds,seconds\n0,1,1\n", "line 1: there are 2 columns 'seconds'"),
    "semicolons": (HEAD.replace(",", ";") + "\n", "line 1: the columns are parted by ';'"),
    "text in a number": (broken(1, "0,20,two,2,2,0.1"), "line 3: steps is 'two'"),
    "text in seconds": (broken(3, "1,abc,200,2,4,0.2"), "line 5: seconds is 'abc'"),
    "half a trial": (broken(0, "0.5,10,100,1,1,0.1"), "line 2: trial is '0.5'"),
    "NaN in mid-trial": (broken(0, "0,10,100,1,nan,0.1"), "line 2: score is missing or NaN"),
    "gap in mid-trial": (broken(2, "1,10,100,1,,0.2"), "line 4: score is missing or NaN"),
    "NaN seconds": (broken(1, "0,nan,200,2,2,0.1"), "line 3: seconds is nan"),
    "infinite score": (broken(1, "0,20,200,2,inf,0.1"), "line 3: score is inf"),
    "negative time": (broken(0, "0,-10,100,1,1,0.1"), "line 2: seconds is -10.0"),
    "time goes back": (broken(1, "0,9.5,200,2,2,0.1"), "line 3: seconds is 9.5 after 10.0"),
    "steps go back": (broken(3, "1,20,99,2,4,0.2"), "line 5: steps is 99 after 100"),
    "episodes go back": (broken(1, "0,20,200,0,2,0.1"), "line 3: episodes is 0 after 1"),
    "row repeated": (broken(1, GOOD[0]), "line 3: seconds 10.0, steps 100 and episodes 1 repeat"),
    "trial in two places": (
        broken(2, "1,10,100,1,3,0.2\n0,30,300,3,3,0.1"),
        "line 5: trial 0 begins again",
    ),
    "hyperparameter changes": (broken(1, "0,20,200,2,2,0.5"), "line 3: hp.lr is 0.5 after 0.1"),
    "ragged": (broken(2, "1,10,100,1,3"), "line 4: 5 values; there are 6 columns"),
    "mixed games": (
        "game,trial,seconds,steps,episodes,score\nPong,0,1,1,1,1\nBreakout,1,1,1,1,1\n",
        "line 3: game is 'Breakout', before it was 'Pong'; a file holds one game",
    ),
    "metadata that is no JSON": ("# simsched: {oops\n" + HEAD + "\n", "line 1: "),
    "milliseconds": (broken(1, "0,2e12,200,2,2,0.1"), "line 3: seconds is 2000000000000.0"),
}


def refused(simsched: Run, path: Path, *options: object) -> str:
    """The reason that is given for a bad file; nothing is made and nothing changed."""
    before = tree(Path())
    said = simsched("simulate", "--traces", path, "--json", "r.json", *options).refusal
    assert tree(Path()) == before
    assert said.startswith(f"{path}: "), said
    return said.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_csv(simsched: Run, name: str) -> None:
    text, said = BAD_TEXTS[name]
    path = Path("bad.csv")
    path.write_text(text)
    assert refused(simsched, path).startswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{oops", "line 2: not a JSON object"),
        ('{"trial": 0, "seconds": "x", "steps": 2, "episodes": 2, "score": 1}', "line 2: seconds"),
        ("[1, 2]", "line 2: not a JSON object"),
        (('{"trial": 0, "seconds": 2, "steps": 2, "episodes": 2}\n{"trial": 0, "seconds": 3, '
         '"steps": 3, "episodes": 3, "score": 1}'), "line 2: score is missing or NaN"),
    ],
)  # fmt: skip
def test_bad_json_lines(simsched: Run, line: str, said: str) -> None:
    path = Path("bad.jsonl")
    path.write_text(
        '{"trial": 0, "seconds": 1, "steps": 1, "episodes": 1, "score": 1}\n' + line + "\n"
    )
    assert refused(simsched, path).startswith(said)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (0, "the file is empty"),
        (8, "it is not a Parquet file"),
        (0.5, "cut short"),
        (-1, "cut short"),
    ],
)
def test_truncated_parquet(simsched: Run, kept: float, said: str) -> None:
    ladder("whole.parquet")
    path = Path("cut.parquet")
    data = Path("whole.parquet").read_bytes()
    path.write_bytes(data[: int(len(data) * kept) if 0 < kept < 1 else int(kept)])
    assert said in refused(simsched, path)


@pytest.mark.parametrize("seed", range(5))
def test_damaged_parquet(simsched: Run, seed: int) -> None:
    """Forty bytes overwritten: the pages' checksums tell."""
    ladder("whole.parquet", trials=6)
    path = Path("damaged.parquet")
    data = np.frombuffer(Path("whole.parquet").read_bytes(), np.uint8).copy()
    rng = np.random.default_rng(seed)
    data[rng.integers(4, len(data) - 4, 40)] = rng.integers(0, 256, 40)
    path.write_bytes(data.tobytes())
    assert refused(simsched, path)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_random_bytes(simsched: Run, suffix: str) -> None:
    """A game's ROM, say, instead of its curves."""
    path = Path(f"rom.{suffix}")
    path.write_bytes(np.random.default_rng(7).bytes(4096))
    said = refused(simsched, path)
    assert said.isprintable()
    assert len(said) < 300


def test_a_parquet_of_something_else(simsched: Run) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path("other.parquet")
    pq.write_table(pa.table({"name": ["a"], "price": [2.5]}), path)
    assert refused(simsched, path).startswith("there is no column 'trial'")


def test_too_short_for_the_phases_asked_for(simsched: Run, here: Path) -> None:
    ladder("short.csv", rows=3)
    before = tree(here)
    run = ("simulate", "--traces", "short.csv", "--unit", "reports", "--phase-length", 1)
    assert simsched(*run, "--json", "r.json").refusal == (
        "recorded trial 0 of short.csv has 3 reports, fewer than the 4 that 4 phases of 1 need; "
        "ask for fewer or shorter phases"
    )
    assert tree(here) == before


@pytest.mark.parametrize(
    ("hparam", "said"),
    [
        (
            "",
            "recorded trial 1 of a.csv has hyperparameters none; ",
        ),
        ("0.3", ""),
    ],
)
def test_a_trial_that_lacks_a_hyperparameter(simsched: Run, hparam: str, said: str) -> None:
    path = lines("a.csv", *GOOD[:2], f"1,10,100,1,3,{hparam}", f"1,20,200,2,4,{hparam}")
    before = tree(Path())
    outcome = simsched("simulate", "--traces", path, "--phases", 1, "--scheduler", "random")
    if said:
        assert outcome.refusal.startswith(said)
        assert "lr" in outcome.refusal
        assert tree(Path()) == before
    else:
        assert outcome.table[0]["scheduler"] == "random"


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (
            '{"lr": {"type": "real", "low": 0.01, "high": 1, "log": true}}',
            (
                "recorded trial 1 of a.csv has lr=-1.0; that is not in its search space: "
                '{"lr":{"type":"real","low":0.01,"high":1,"log":true}}'
            ),
        ),
        (
            '{"momentum": {"type": "real", "low": 0.01, "high": 1}}',
            "recorded trial 0 of a.csv has hyperparameters lr; the search space has momentum, ",
        ),
    ],
)
def test_a_trial_outside_the_declared_search_space(
    simsched: Run, here: Path, space: str, said: str
) -> None:
    Path("a.csv").write_text(
        f'# simsched: {{"space": {space}}}\n{HEAD}\n0,1,1,1,1,0.1\n1,1,1,1,1,-1\n'
    )
    before = tree(here)
    assert simsched("simulate", "--traces", "a.csv", "--phases", 1).refusal.startswith(said)
    assert tree(here) == before


@pytest.mark.parametrize(
    "space", ['{"lr": {"type": "bogus"}}', '{"lr": 5}', "[]", '{"lr": {"type": "real"}}']
)
def test_a_search_space_that_is_none(simsched: Run, here: Path, space: str) -> None:
    Path("a.csv").write_text(f'# simsched: {{"space": {space}}}\n{HEAD}\n0,1,1,1,1,0.1\n')
    before = tree(here)
    assert "space" in simsched("simulate", "--traces", "a.csv", "--phases", 1).refusal
    assert tree(here) == before


def test_the_folders_made_for_a_run_that_is_refused_are_removed_again(
    simsched: Run, here: Path
) -> None:
    ladder("short.csv", rows=3)
    (here / "kept").mkdir()
    before = tree(here)
    run = ("simulate", "--traces", "short.csv", "--phases", 9, "--phase-length", 900)
    assert "fewer than" in simsched(*run, "--out", "kept/new/deep/run").refusal
    assert "fewer than" in simsched(*run).refusal
    assert tree(here) == before


def test_a_file_name_with_odd_characters_stays_on_one_line(simsched: Run) -> None:
    path = Path("two\nlines.csv")
    path.write_text("")
    said = simsched("simulate", "--traces", path).refusal
    assert said.startswith("two")
    assert said.endswith("lines.csv: the file is empty")


def test_a_million_rows(simsched: Run, here: Path) -> None:
    """1,000 trials of 1,000 rows."""
    ladder("big.parquet", trials=1000, rows=1000)
    options = ("--unit", "reports", "--phases", 10, "--workers", 50, "--scheduler", "hypertrick")
    rows = simsched("simulate", "--traces", "big.parquet", *options).table
    # Ranks do not change, so of 50 trials the best goes on to the end: trial 49 at its last row.
    assert rows[0]["best score"] == f"{49 + np.mean(np.arange(901, 1001)) / 10:.1f}"
    data = (here / "big.parquet").read_bytes()
    assert len(data) > 1000
    with Path("big.csv").open("w") as file:
        file.write("trial,seconds,steps,episodes,score\n")
        for trial in range(1000):
            file.writelines(f"{trial},{i},{i},{i},1\n" for i in range(1, 1001))
        file.write("999,5,1001,1001,1\n")
    assert simsched("simulate", "--traces", "big.csv").refusal.startswith(
        "big.csv: line 1000002: seconds is 5.0 after 1000.0"
    )
