"""Experiment and search space files: what is read, and the line of what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from simsched.errors import SimschedError
from simsched.experiment import read_experiment, read_space
from simsched.space import PUBLISHED_GA3C, Categorical, Integer, Real, SearchSpace

KNOWN = {
    "": ["nodes", "workers", "phase-length", "scheduler", "schedulers"],
    "simulate": ["nodes", "workers", "phase-length", "scheduler", "schedulers", "save-cost"],
    "live": ["nodes", "workers", "phase-length", "scheduler", "schedulers", "max-time", "out"],
    "training": ["preset", "agents", "t_max"],
}


def experiment(text: str, folder: Path) -> Any:
    path = folder / "exp.toml"
    path.write_text(text)
    return read_experiment(path, KNOWN)


def refused(text: str, folder: Path) -> str:
    with pytest.raises(SimschedError) as caught:
        experiment(text, folder)
    said = str(caught.value)
    assert said.startswith(f"{folder / 'exp.toml'}: line ")
    assert "\n" not in said
    return said.removeprefix(f"{folder / 'exp.toml'}: ")


def test_tables_are_told_apart_and_a_commands_own_wins(tmp_path: Path) -> None:
    read = experiment(
        """
nodes = 6
schedulers = ["asha", "pbt"]
phase_length = 100

[live]
nodes = 2
"max-time" = "2h"

[training]
t-max = 7

[search-space.lr]
type = "real"
low = 0.1
high = 1
""",
        tmp_path,
    )
    live = {name: entry.value for name, entry in read.of("live").items()}
    simulate = {name: entry.value for name, entry in read.of("simulate").items()}
    assert live == {
        "nodes": 2, "scheduler": ["asha", "pbt"], "phase_length": 100, "max_time": "2h",
    }  # fmt: skip
    assert simulate == {"nodes": 6, "scheduler": ["asha", "pbt"], "phase_length": 100}
    assert {name: entry.value for name, entry in read.tables["training"].items()} == {"t_max": 7}
    assert read.space is not None
    assert read.space.space == SearchSpace({"lr": Real(0.1, 1.0)})
    said = str(read.refusal(read.of("live")["max_time"], "too long"))
    assert said == f"{tmp_path / 'exp.toml'}: line 8: max-time: too long"
    assert str(read.space.refusal("lr", "no")).endswith("line 13: search space: lr: no")


def test_an_empty_file_is_an_experiment(tmp_path: Path) -> None:
    read = experiment("# nothing\n", tmp_path)
    assert read.of("live") == {}
    assert read.space is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nods = 3\n", "line 1: nods: is not known (did you mean 'nodes'?)"),
        (
            "\n\nmax-tim = 3\n",
            "line 3: max-tim: is not known (did you mean 'max-time' in [live]?)",
        ),
        ("max-time = 3\n", "line 1: max-time: belongs in [live]"),
        ("[live]\nsave_cost = 3\n", "line 2: save_cost: belongs in [simulate]"),
        ("nodes = 1\n[live]\nagents = 3\n", "line 3: agents: belongs in [training]"),
        (
            "[training]\npreset = 'fast'\nnodes = 3\n",
            "line 3: nodes: belongs to the top of the file, before the first table",
        ),
        (
            "[training]\n# a comment\nagnts = 3\n",
            "line 3: agnts: is not known in [training] (did you mean 'agents'?)",
        ),
        (
            "zzzzz = 1\n",
            (
                "line 1: zzzzz: is not known; there are: nodes, phase-length, scheduler, "
                "schedulers, workers"
            ),
        ),
        (
            "nodes = 1\n\n[liv]\nx = 1\n",
            (
                "line 3: [liv] is no table of an experiment (did you mean 'live'?); there are: "
                "simulate, live, training, search-space"
            ),
        ),
        ("live = 3\n", "line 1: live: it must be a table: [live]"),
        (
            "search-space = 'x.toml'\n",
            "line 1: search-space: it must have a table per hyperparameter: [search-space.NAME]",
        ),
        (
            "[live]\nsearch-space = 'x.toml'\n",
            "line 2: search-space: a search space is a table of its own: [search-space.NAME]",
        ),
        (
            "phase-length = 3\nphase_length = 4\n",
            "line 2: phase_length: the same as phase-length, which is given already",
        ),
        (
            "scheduler = 'asha'\nnodes = 2\nschedulers = ['pbt']\n",
            "line 3: schedulers: the same as scheduler, which is given already",
        ),
        (
            "[search-space]\n",
            "line 1: the search space is empty; give a hyperparameter at least",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    assert refused(text, tmp_path) == said


@pytest.mark.parametrize(
    ("text", "line"),
    [("nodes = 1\nnodes = 2\n", 2), ("nodes = \n", 1), ("nodes = [1,\n2,", 2), ("a = 1\nx", 2)],
)
def test_what_is_not_toml(text: str, line: int, tmp_path: Path) -> None:
    assert refused(text, tmp_path).startswith(f"line {line}: it is not TOML: ")


SPACE_ERRORS = [
    ('[lr]\ntype = "reel"\n', 2, "type 'reel' is not one of real, integer, categorical"),
    ('[lr]\ntype = "real"\nlow = 1\nhihg = 2\n', 4, "unknown key 'hihg'; a real parameter has"),
    ('[lr]\ntype = "real"\nlow = "x"\nhigh = 2\n', 3, "low must be a number, not text"),
    ('[lr]\nlow = 1\ntype = "integer"\nhigh = 1.5\n', 4, "high must be a whole number, not a"),
    ('[lr]\ntype = "real"\nlow = 1\n', 1, "high is missing"),
    ('[lr]\ntype = "real"\nlow = 3\nhigh = 2\n', 3, "low 3.0 must be a number not above high"),
    ('[lr]\ntype = "real"\nlow = 0\nhigh = 2\nlog = true\n', 3, "low 0.0 must be above 0"),
    ('[lr]\ntype = "real"\nlow = 0\nhigh = 2\nq = 5\n', 5, "q 5.0 must be above 0 and at most"),
    ('[a]\ntype = "categorical"\nchoices = []\n', 3, "choices is empty"),
    ('[a]\ntype = "categorical"\nchoices = [1, [2]]\n', 3, "an item of choices must be"),
    ("x = 3\n", 1, 'it must be a table like {type = "real"'),
    ('["a b"]\ntype = "real"\n', 1, "a name has letters, digits and _ . - only"),
]


@pytest.mark.parametrize(("text", "line", "said"), SPACE_ERRORS)
def test_a_bad_line_of_a_search_space(text: str, line: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    before = '[ok]\ntype = "real"\nlow = 0\nhigh = 1\n'
    path.write_text(before + text if text[0] == "[" else text + before)
    line += 4 if text[0] == "[" else 0
    with pytest.raises(SimschedError) as caught:
        read_space(path)
    assert str(caught.value).startswith(f"{path}: line {line}: search space: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"lr": {\n"type": "real",\n"low": "x", "high": 1}}', "line 3: search space: lr: low"),
        ('{"lr": 1}', "line 1: search space: lr: it must be a table"),
        ('{"lr": {"type": "real"},\n"lr": {}}', "line 2: 'lr' is given twice"),
        ('{"lr": {"type": "real"}\n', "line 2: it is not JSON: "),
        ("[1]", "line 1: it must be an object: {…}"),
    ],
)
def test_a_bad_line_of_a_search_space_in_json(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "space.json"
    path.write_text(text)
    with pytest.raises(SimschedError) as caught:
        read_space(path)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_toml_and_json_give_the_same_space(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(PUBLISHED_GA3C.to_json()))
    (tmp_path / "a.toml").write_text(
        '[learning_rate]\ntype = "real"\nlow = 1e-5\nhigh = 1e-2\nlog = true\n'
        '[t_max]\ntype = "integer"\nlow = 2\nhigh = 100\nlog = true\n'
        '[gamma]\ntype = "categorical"\n'
        "choices = [0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999]\n"
    )
    spaces = [read_space(tmp_path / name).space for name in ("a.json", "a.toml")]
    assert spaces == [PUBLISHED_GA3C, PUBLISHED_GA3C]
    assert list(spaces[1].parameters) == ["learning_rate", "t_max", "gamma"]


def test_a_text_choice_and_whole_bounds(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'net = {type = "categorical", choices = ["small", "large", true]}\n'
        'units = {type = "integer", low = 8, high = 64, q = 8}\n'
    )
    assert read_space(path).space == SearchSpace(
        {"net": Categorical(("small", "large", True)), "units": Integer(8, 64, q=8)}
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no.toml", "--search-space no.toml: there is no such file"),
        ("no.yaml", "--search-space no.yaml: the suffix must be .toml or .json"),
        ("folder.toml", "--search-space folder.toml: it is a folder; name a file"),
        ("bytes.toml", "--search-space bytes.toml: it is not a text file (UTF-8)"),
    ],
)
def test_files_that_cannot_be_read(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.toml").mkdir()
    Path("bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SimschedError) as caught:
        read_space(Path(name))
    assert str(caught.value) == said
