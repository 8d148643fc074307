"""`simsched live`: how it calls the search, what it says of its end, and what it writes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_curves import ladder
from cli_live import COMMAND, Recorder
from cli_outcome import Outcome, tree

from simsched.live.errors import LiveError

pytestmark = pytest.mark.usefixtures("space")

Run = Callable[..., Outcome]


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
