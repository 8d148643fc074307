"""`simsched live` by its command line: what it refuses, and the plan of a game."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_live import COMMAND, Recorder
from cli_outcome import Outcome, tree

pytestmark = pytest.mark.usefixtures("space")

Run = Callable[..., Outcome]
SEE = " (see simsched live --help)"


def invalid(option: str, rest: str) -> str:
    return f"Invalid value for '{option}': {rest}{SEE}"


TIMES = "must be a time above 0: 90 (seconds), 20m, 1h30m, 2d"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nodes", "0"], "Invalid value for '--nodes': '0' must be a whole number from 1 to"),
        (["--workers", "2,4"], "Invalid value for '--workers': '2,4' must be a whole number"),
        (["--retries", "-1"], "Invalid value for '--retries': '-1' must be a whole number from 0"),
        (["--seed", "x"], "Invalid value for '--seed': 'x' must be a whole number from 0 to"),
        *[
            (["--max-time", text], invalid("--max-time", f"'{text}' {TIMES}"))
            for text in ("0", "-5", "", "nan", "2 weeks", "m", "1.2.3", "1e9d")
        ],
        (
            ["--checkpoints", "never"],
            "checkpoints: 'never' is no policy (did you mean 'every'?); there are: ",
        ),
        (["--game", "Pong"], "--game and --command exclude each other: name one thing to train"),
        (["--preset", "fast"], "--preset: is for GA3C, not for --command"),
        (["--set", "agents=4"], "--set agents: is for GA3C, not for --command"),
        (["--set", "agnts=4"], "agnts: is no setting (did you mean 'agents'?)"),
        (["--scheduler", "hyperbnd"], "unknown scheduler 'hyperbnd' (did you mean 'hyperband'?)"),
        (["--unit", "steps"], "--phase-length: say how many steps a phase of the command has"),
        (["--first", "no.csv"], "--first no.csv: there is no such file"),
        (["--search-space", "no.toml"], "--search-space no.toml: there is no such file"),
        (["--traces", "no.csv"], "no.csv: there is no such file"),
        (["--json", "no/where"], "--json no/where: there is no folder no"),
        (["--out", "space.toml"], "--out space.toml: it is a file; name a new folder"),
        (["--out", "space.toml/run"], "--out space.toml/run: "),
        (["--out", "full"], "--out full: the folder is not empty; name a new one"),
        (["--out", "run"], "--out run: holds a search already; name a new folder, or go on with"),
        (["--command", "sh {l}"], "--command: {l} is no hyperparameter of the search space (did"),
        (["--command", "no-such {lr}"], "--command: there is no program 'no-such' on the PATH"),
        (["--nodes-per-gpu", "0"], "Invalid value for '--nodes-per-gpu': '0' must be a whole"),
        (["--resume", "nowhere"], "--resume nowhere: not the folder of a live search, settings"),
        (["extra"], f"Got unexpected extra argument (extra){SEE}"),
    ],
)
def test_wrong_use_is_one_line_and_nothing_is_made(
    simsched: Run, recorder: Recorder, here: Path, options: list[str], said: str
) -> None:
    (here / "full").mkdir()
    (here / "full" / "precious").touch()
    (here / "run").mkdir()
    for name in ("settings.json", "journal.jsonl"):
        (here / "run" / name).touch()
    before = tree(here)
    assert simsched("live", *COMMAND, *options).refusal.startswith(said)
    assert tree(here) == before
    assert recorder.calls == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_leave(simsched: Run, recorder: Recorder, here: Path) -> None:
    (here / "locked").mkdir(mode=0o500)
    said = simsched("live", *COMMAND, "--out", "locked/run").refusal
    assert said == f"--out locked/run: nothing can be written in {here}/locked"
    assert recorder.calls == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_cannot_be_made(simsched: Run, recorder: Recorder) -> None:
    outcome = simsched("live", *COMMAND, "--out", "/proc/simsched")
    assert outcome.code == 2
    assert outcome.err.startswith("error: --out /proc/simsched: ")
    assert recorder.calls == []


def test_more_cores_than_there_are(simsched: Run) -> None:
    have = len(os.sched_getaffinity(0))
    said = simsched("live", *COMMAND, "--cores-per-node", have + 1).refusal
    assert said.startswith(f"--cores-per-node {have + 1}: this machine has ")


def test_a_line_of_the_search_space_is_named(simsched: Run, space: Path) -> None:
    space.write_text('[lr]\ntype = "real"\nlow = 1\nhihg = 2\n')
    assert simsched("live", *COMMAND).refusal == (
        "space.toml: line 4: search space: lr: unknown key 'hihg'; a real parameter has low, "
        "high, log, q (did you mean 'high'?)"
    )


@pytest.mark.parametrize("package", ["torch", "ale_py"])
def test_packages_that_are_missing(
    simsched: Run, monkeypatch: pytest.MonkeyPatch, here: Path, package: str
) -> None:
    find = importlib.util.find_spec

    def hidden(name: str, *rest: Any) -> Any:
        return None if name == package else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    before = tree(here)
    said = simsched("live").refusal
    assert said == (
        f"{package.replace('_', '-')} is not installed, training needs it: "
        "pip install 'simsched[live]'"
    )
    assert tree(here) == before


@pytest.mark.torch
class TestGame:
    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        pytest.importorskip("torch")

    def test_the_plan_of_the_defaults(self, simsched: Run, here: Path) -> None:
        before = tree(here)
        outcome = simsched("live", "--nodes", 1, "--dry-run").good
        assert tree(here) == before
        lines = outcome.out.splitlines()
        assert lines[0] == (
            "plan       16 trials of MsPacman, 4 phases of 20,000 steps at most, hypertrick,"
        )
        assert "first      trial 0: learning_rate=0.0003 t_max=5 gamma=0.99, as published" in lines
        assert "default    preset repeatable: a node is one core" in lines
        assert "           phase length 20,000 steps: the default of Atari games on cores" in lines
        assert any(line.startswith("rehearsal  expect 1") for line in lines)
        assert "this is a simulation, of 16 recorded trials of MsPacman" in outcome.out
        assert max(map(len, lines)) <= 80

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--game", "MsPackman"], "game: 'MsPackman' is unknown, did you mean 'MsPacman'?"),
            (["--set", "t_max=9"], "--set t_max: every trial draws its own from the search space"),
            (["--set", "agents=0"], "agents: 0 is too small, use 1 or more"),
            (["--metric", "loss"], "--metric: is for --command; a game's metric is its return"),
            (
                ["--search-space", "space.toml"],
                "space.toml: line 1: search space: lr: is no setting of GA3C",
            ),
            # Found out by a process that makes environment and network:
            (["--game", "Pendulum-v1"], "game: Pendulum-v1 has actions Box"),
        ],
    )
    def test_what_cannot_be_trained(
        self, simsched: Run, recorder: Recorder, here: Path, options: list[str], said: str
    ) -> None:
        before = tree(here)
        assert simsched("live", "--nodes", 1, *options).refusal.startswith(said)
        assert tree(here) == before
        assert recorder.calls == []
