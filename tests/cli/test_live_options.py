"""`simsched live` by its command line: what it plans, what it refuses, how it calls the run."""

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_curves import ladder
from cli_outcome import Outcome, tree

pytest.importorskip("psutil")

from simsched.live import search
from simsched.live.errors import LiveError
from simsched.live.outcome import Outcome as RunOutcome

Run = Callable[..., Outcome]
SEE = " (see simsched live --help)"
COMMAND = ("--command", "sh train.sh {lr}", "--search-space", "space.toml")


@pytest.fixture(autouse=True)
def space(here: Path) -> Path:
    """A search space of one hyperparameter, `lr`."""
    path = here / "space.toml"
    path.write_text('[lr]\ntype = "real"\nlow = 1e-3\nhigh = 1.0\nlog = true\n')
    return path


class Recorder:
    """Stands in for `run_search`: remembers its call and ends as it is told."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.ended = "done"
        self.error: Exception | None = None

    def __call__(self, settings: Any, nodes: Any, folder: Path, **options: Any) -> RunOutcome:
        self.calls.append({"settings": settings, "nodes": nodes, "folder": folder, **options})
        if self.error is not None:
            raise self.error
        (folder / "settings.json").write_bytes(search._pretty(settings))
        if self.ended == "interrupted":
            return RunOutcome(ended="interrupted", folder=folder)
        (folder / "results.json").write_text('{"runs": []}\n')
        return RunOutcome(
            ended=self.ended,  # type: ignore[arg-type]
            folder=folder,
            report=folder / "report.html",
            best_score=711.4321,
            best_trial=3,
            best_hparams={"lr": 0.0123456},
        )


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(search, "run_search", made)
    return made


def test_a_run_of_a_command(simsched: Run, recorder: Recorder, here: Path) -> None:
    outcome = simsched("live", *COMMAND, "--nodes", 1, "--workers", 3, "--max-time", "1h30m")
    assert (outcome.code, outcome.err) == (0, "sh train.sh {lr}, hypertrick, 3 trials on 1 node\n")
    (call,) = recorder.calls
    assert call["folder"] == Path("runs/live-1")
    assert call["resume"] is False
    assert [node.number for node in call["nodes"]] == [0]
    settings = call["settings"]
    assert (settings.command, settings.workers, settings.nodes) == ("sh train.sh {lr}", 3, 1)
    assert settings.max_time_s == 5400
    assert list(settings.search_space.parameters) == ["lr"]
    assert callable(call["show"].update)
    lines = outcome.out.splitlines()
    assert lines[0] == "plan       3 trials of `sh train.sh {lr}`, 4 phases of 1 report at most,"
    assert "rehearsal  none: there are no recorded curves of a command" in lines
    assert "limits     over after 1 h 30 m at most" in lines
    assert lines[-2:] == [
        "best       trial 3, score 711.43: lr=0.01235",
        "report     runs/live-1/report.html",
    ]
    assert max(map(len, lines)) <= 80
    assert simsched("live", *COMMAND).code == 0
    assert recorder.calls[-1]["folder"] == Path("runs/live-2")


def test_an_interrupted_run_says_how_to_go_on(simsched: Run, recorder: Recorder) -> None:
    recorder.ended = "interrupted"
    outcome = simsched("live", *COMMAND, "--out", "a", "--json", "r.json")
    assert outcome.code == 130
    assert outcome.err.endswith("Interrupted and saved; go on with: simsched live --resume a\n")
    assert not Path("r.json").exists()
    recorder.ended = "done"
    assert simsched("live", "--resume", "a").code == 0
    first, second = recorder.calls
    assert (second["resume"], second["folder"]) == (True, Path("a"))
    assert second["settings"] == first["settings"]
    assert second["nodes"] == first["nodes"]


def test_a_run_that_its_time_ended_says_so(simsched: Run, recorder: Recorder) -> None:
    recorder.ended = "max-time"
    outcome = simsched("live", *COMMAND, "--max-time", 5)
    assert outcome.code == 0
    assert "\nended      by --max-time, before the scheduler was done\n" in outcome.out


def test_json(simsched: Run, recorder: Recorder) -> None:
    outcome = simsched("live", *COMMAND, "--json", "r.json")
    assert outcome.code == 0
    assert json.loads(Path("r.json").read_text()) == {"runs": []}
    outcome = simsched("live", *COMMAND, "--json", "-")
    assert json.loads(outcome.out) == {"runs": []}
    assert "best       trial 3" in outcome.err
    assert len(recorder.calls) == 2


def test_what_fails_at_the_start_leaves_nothing(
    simsched: Run, recorder: Recorder, here: Path
) -> None:
    before = tree(here)
    recorder.error = LiveError("sh: the first worker ended at once")
    for out in ([], ["--out", "deep/er/run"]):
        outcome = simsched("live", *COMMAND, *out)
        assert (outcome.code, outcome.err.splitlines()[-1]) == (
            2,
            "error: sh: the first worker ended at once",
        )
        assert tree(here) == before


def test_a_dry_run_shows_the_plan_and_writes_nothing(
    simsched: Run, recorder: Recorder, here: Path
) -> None:
    ladder("a.csv")
    before = tree(here)
    options = ("--scheduler", "random", "--workers", 4, "--nodes", 1, "--unit", "steps",
               "--phase-length", 100, "--traces", "a.csv", "--dry-run")  # fmt: skip
    outcome = simsched("live", *COMMAND, *options).good
    # By hand: four trials of 40 s one after the other.
    assert "rehearsal  expect 2 m 40 s, 0.0444 node-hours, utilization 100.0 %\n" in outcome.out
    assert "this is a simulation, of 4 recorded trials of a.csv\n" in outcome.out
    assert outcome.out.endswith("dry run    nothing was started\n")
    plan = json.loads(simsched("live", *COMMAND, *options, "--json", "-").out)
    assert plan["rehearsal"]["wall_time_s"] == 160.0
    assert plan["rehearsal"]["utilization"] == 1.0
    assert plan["settings"]["phase_length"] == 100
    assert plan["folder"] == "runs/live-1"
    assert [node["number"] for node in plan["nodes"]] == [0]
    assert tree(here) == before
    assert recorder.calls == []


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


def test_known_configurations_come_first(simsched: Run, recorder: Recorder) -> None:
    Path("known.jsonl").write_text('{"lr": 0.5}\n{"lr": 0.25}\n')
    outcome = simsched("live", *COMMAND, "--first", "known.jsonl")
    assert "first      trial 0: lr=0.5\n           trial 1: lr=0.25\n" in outcome.out
    assert recorder.calls[0]["settings"].first == [{"lr": 0.5}, {"lr": 0.25}]
    Path("known.jsonl").write_text('{"lr": 0.5}\n{"lr": 7}\n')
    said = simsched("live", *COMMAND, "--first", "known.jsonl").refusal
    assert said == "known.jsonl: line 2: lr=7 must be a number from 0.001 to 1"


def test_what_differs_on_resume(simsched: Run, recorder: Recorder) -> None:
    recorder.ended = "interrupted"
    simsched("live", *COMMAND, "--out", "a", "--workers", 5, "--max-time", "2m")
    for options, said in (
        (["--workers", 6], "--workers is 5 there and 6 here"),
        (["--game", "Pong", "--config", "c.toml"], "--phases is 4 there and 5 here"),
        (["--max-time", 60, "--seed", 3], "--seed is 0 there and 3 here; --max-time is 120 s "),
        (["--command", "sh other {lr}"], "--command is sh train.sh {lr} there and sh other {lr} "),
        (["--set", "agents=3"], "--set agents is "),
        (["--complete"], "--complete is False there and True here"),
    ):
        Path("c.toml").write_text("phases = 5\n[live]\ncommand = 'sh train.sh {lr}'\n")
        if "--game" in options:
            options = options[2:]
        refusal = simsched("live", "--resume", "a", *options).refusal
        assert refusal.startswith(f"--resume a: {said}")
    for option, value in (("--out", "b"), ("--traces", "a.csv")):
        said = simsched("live", "--resume", "a", option, value).refusal
        assert said.startswith(option)
        assert said.endswith("; leave it out")
    recorder.ended = "done"
    same = ("--workers", 5, "--max-time", 120, *COMMAND, "--first", "none")
    assert simsched("live", "--resume", "a", *same).code == 0
    assert len(recorder.calls) == 2


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
