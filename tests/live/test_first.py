"""Known configurations from a file: three formats, and each checked against the search space."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.errors import SimschedError
from simsched.live.errors import LiveError
from simsched.live.first import member, read_first
from simsched.space import PUBLISHED_GA3C, Categorical, Integer, Real, SearchSpace, draw

SPACE = SearchSpace({"lr": Real(1e-4, 1.0, log=True), "units": Integer(8, 64, q=8)})


def configurations(text: str, folder: Path, suffix: str = ".csv") -> list[dict[str, Any]]:
    path = folder / f"known{suffix}"
    path.write_text(text)
    return read_first(path, SPACE)


def test_three_formats_give_the_same(tmp_path: Path) -> None:
    wanted = [{"units": 16, "lr": 0.5}, {"units": 64, "lr": 0.001}]
    lines = [json.dumps(one) for one in wanted]
    assert configurations("lr, units\n0.5,16\n\n1e-3,64\n", tmp_path) == wanted
    assert configurations("\n".join(lines) + "\n", tmp_path, ".jsonl") == wanted
    assert configurations(f"[{', '.join(lines)}]", tmp_path, ".json") == wanted
    found = configurations("units,lr\n64,1\n", tmp_path)
    assert list(found[0]) == ["lr", "units"]  # in the space's order, with the space's types
    assert [type(value) for value in found[0].values()] == [float, int]


@pytest.mark.parametrize(
    ("text", "suffix", "said"),
    [
        ("lr,units\n2,16\n", ".csv", "line 2: lr=2 must be a number from 0.0001 to 1"),
        ("lr,units\n\n0.5,17\n", ".csv", "line 3: units=17 must be a whole number from 8 "),
        ("lr,units\n0.5,8.5\n", ".csv", "line 2: units=8.5 must be a whole number from 8"),
        ("lr,units\nx,8\n", ".csv", "line 2: lr=x must be a number"),
        ("lr,units\nnan,8\n", ".csv", "line 2: lr=nan must be a number"),
        ("lr,units\n0.5\n", ".csv", "line 2: it has 1 values, the header 2 names"),
        ("lr,lr\n0.5,1\n", ".csv", "line 1: the header has 'lr' twice"),
        ("lr,unit\n0.5,8\n", ".csv", "line 2: 'unit' is no hyperparameter of the search "),
        ("lr\n0.5\n", ".csv", "line 2: units is missing; a configuration has lr, units"),
        ("lr,units\n0.5,\n", ".csv", "line 2: units is missing"),
        ('lr,units\n"0.5,8\n', ".csv", "line 2: it is not CSV: "),
        ('\n{"lr": 1}\n', ".jsonl", "line 2: units is missing"),
        ('{"lr": 1,\n', ".jsonl", "line 1: it is not JSON: "),
        ("3\n", ".jsonl", "line 1: it must be an object with a value per hyperparameter"),
        ('[{"lr": 1, "units": 8}, {"lr": true, "units": 8}]', ".json", "item 2: lr=True must"),
        ('{"lr": 1, "units": 8}', ".json", "line 1: it must be a list of objects"),
        ("[1,\n2", ".json", "line 2: it is not JSON: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(text: str, suffix: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(LiveError) as caught:
        configurations(text, tmp_path, suffix)
    assert str(caught.value).startswith(f"{tmp_path}/known{suffix}: {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no.csv", "--first no.csv: there is no such file"),
        ("no.txt", "--first no.txt: the suffix must be .csv, .jsonl, .json"),
        ("empty.csv", "--first empty.csv: it has no configuration"),
    ],
)
def test_files_of_no_use(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_text("lr,units\n")
    with pytest.raises(SimschedError) as caught:
        read_first(Path(name), SPACE)
    assert str(caught.value) == said


def test_choices() -> None:
    space = SearchSpace({"a": Categorical((0.9, 1, "x", True)), "b": Categorical((False, 2))})
    assert member(space, {"a": "0.90", "b": "2"}) == {"a": 0.9, "b": 2}
    assert member(space, {"a": "x", "b": "false"}) == {"a": "x", "b": False}
    found = member(space, {"a": "1", "b": False})
    assert type(found["a"]) is int
    assert member(space, {"a": True, "b": 2.0})["a"] is True
    with pytest.raises(LiveError, match=r"a=y is none of 0.9, 1, x, True"):
        member(space, {"a": "y", "b": 2})


@given(st.integers(0, 2**32), st.booleans())
def test_what_a_space_draws_is_in_it(seed: int, as_text: bool) -> None:

    spaces = {**SPACE.parameters, **PUBLISHED_GA3C.parameters, "q": Real(0.0, 1.0, q=0.1)}
    rng = np.random.default_rng(seed)
    drawn = {name: draw(parameter, rng) for name, parameter in spaces.items()}
    fields = {name: str(value) for name, value in drawn.items()} if as_text else drawn
    assert member(SearchSpace(spaces), dict(fields)) == drawn
