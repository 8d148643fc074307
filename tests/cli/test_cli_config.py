"""`--config`: one experiment file for `simulate` and `live`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_curves import ladder
from cli_outcome import Outcome, results, tree

pytest.importorskip("psutil")

Run = Callable[..., Outcome]


def config(text: str) -> str:
    Path("exp.toml").write_text(text)
    return "exp.toml"


def plan(outcome: Outcome) -> dict[str, Any]:
    """The plan of `live --dry-run --json -`."""
    assert outcome.code == 0, outcome
    found: dict[str, Any] = json.loads(outcome.out)
    return found


SPACE = '[search-space.lr]\ntype = "real"\nlow = 0.01\nhigh = 1\n'
BOTH = f"""
workers = 4
scheduler = "asha:eta=2"
phases = 2
phase_length = 100
unit = "steps"
seed = 3
traces = "a.csv"

[simulate]
nodes = [1, 2]
save-cost = 1.5
resample = true
replications = 2

[live]
nodes = 1
command = "sh train.sh {{lr}}"
max-time = "1h30m"
retries = 1
complete = true
metric = "loss"
mode = "min"

{SPACE}"""


def test_one_file_is_rehearsed_and_run(simsched: Run, here: Path) -> None:
    ladder("a.csv")
    config(BOTH)
    assert simsched("simulate", "--config", "exp.toml", "--out", "s").good
    settings = results("s")["settings"]
    assert settings["nodes"] == [1, 2]
    assert settings["workers"] == [4]
    assert settings["schedulers"] == ["asha:eta=2"]
    assert (settings["phases"], settings["phase_length"]) == (2, 100)
    assert (settings["save_s"], settings["load_s"]) == (1.5, 0.0)
    assert (settings["resample"], settings["replications"], settings["seed"]) == (True, 2, 3)

    before = tree(here)
    found = plan(simsched("live", "--config", "exp.toml", "--dry-run", "--json", "-"))
    live = found["settings"]
    assert (live["workers"], live["scheduler"], live["phases"]) == (4, "asha:eta=2", 2)
    assert (live["phase_length"], live["unit"], live["seed"]) == (100, "steps", 3)
    assert (live["command"], live["metric"], live["mode"]) == ("sh train.sh {lr}", "loss", "min")
    assert (live["nodes"], live["max_time_s"], live["retries"]) == (1, 5400.0, 1)
    assert live["complete"] is True
    assert live["space"] == {"lr": {"type": "real", "low": 0.01, "high": 1.0, "log": False}}
    # By hand: a phase is 10 s. Trial 0 is paused after one, for good; each later trial is better
    # than those before it, so it goes on.
    assert found["rehearsal"]["curves"] == "a.csv"
    assert found["rehearsal"]["wall_time_s"] == 70.0
    assert tree(here) == before


def test_the_file_gives_what_its_options_give(simsched: Run) -> None:
    ladder("a.csv")
    config("workers = 3\nschedulers = ['random', 'asha']\nnodes = [1, 3]\ntraces = 'a.csv'\n")
    assert simsched("simulate", "--config", "exp.toml", "--out", "one").good
    options = ("--workers", 3, "--scheduler", "random", "--scheduler", "asha", "--nodes", "1,3")
    assert simsched("simulate", "--traces", "a.csv", *options, "--out", "two").good
    assert tree(Path("one")) == tree(Path("two"))


def test_the_command_line_wins(simsched: Run) -> None:
    ladder("a.csv")
    config(BOTH)
    options = ("--nodes", "3", "--scheduler", "random", "--seed", "5", "--save-cost", "0")
    assert simsched("simulate", "--config", "exp.toml", *options, "--out", "s").good
    settings = results("s")["settings"]
    assert (settings["nodes"], settings["schedulers"]) == ([3], ["random"])
    assert (settings["seed"], settings["save_s"]) == (5, 0.0)
    # Wherever --config stands.
    found = plan(
        simsched("live", "--workers", 2, "--dry-run", "--json", "-", "--config", "exp.toml")
    )
    assert found["settings"]["workers"] == 2


def test_an_option_given_replaces_the_files_rival(simsched: Run) -> None:
    ladder("a.csv")
    ladder("b.csv", trials=3)
    config("game = 'Nothing'\ntraces = 'a.csv'\n[simulate]\npreemption-cost = 8\n")
    assert simsched("simulate", "--config", "exp.toml", "--out", "one").good
    settings = results("one")["settings"]
    assert settings["traces"] == "a.csv"  # the game is what live would train
    assert (settings["save_s"], settings["load_s"]) == (4.0, 4.0)
    assert simsched("simulate", "--config", "exp.toml", "--traces", "b.csv", "--save-cost", 1,
             "--out", "two").good  # fmt: skip
    settings = results("two")["settings"]
    assert settings["traces"] == "b.csv"
    assert (settings["save_s"], settings["load_s"]) == (1.0, 0.0)
    config("[simulate]\nsave-cost = 8\nload-cost = 2\ntraces = 'a.csv'\n")
    assert simsched(
        "simulate", "--config", "exp.toml", "--preemption-cost", 3, "--out", "three"
    ).good
    assert (results("three")["settings"]["load_s"]) == 1.5
    assert simsched(
        "simulate", "--config", "exp.toml", "--game", "CartPole-v1", "--out", "four"
    ).good
    assert results("four")["settings"]["traces"] == "CartPole-v1"


def test_a_games_own_name_finds_its_curves(simsched: Run) -> None:
    config("game = 'MinAtar/Breakout-v1'\nworkers = 2\nscheduler = 'random'\n")
    assert simsched("simulate", "--config", "exp.toml", "--out", "s").good
    assert results("s")["settings"]["game"] == "MinAtar/Breakout-v1"


IN_FILE = [
    ("nodes = 0\n", "line 1: nodes: '0' must be a whole number from 1 to 100,000"),
    ("\nphases = 'x'\n", "line 2: phases: 'x' must be a whole number from 1 to 1,000,000"),
    ("phases = true\n", "line 1: phases: true must be a number or text"),
    ("unit = 'step'\n", "line 1: unit: 'step' is not one of 'episodes', 'steps', 'seconds'"),
    ("nodes = [2, 2]\n", "line 1: nodes: '2,2' has 2 more than once"),
    ("nodes = []\n", "line 1: nodes: [] must have a value at least"),
    ("nodes = {a = 1}\n", "line 1: nodes: it must be a value, not a table"),
    ("seed = [[1]]\n", "line 1: seed: a list must be a number or text"),
    (
        "# x\nscheduler = 'hyperbnd'\n",
        "line 2: scheduler: unknown scheduler 'hyperbnd' (did you mean 'hyperband'?)",
    ),
    (
        "schedulers = [\n'asha',\n'asha:et=3']\n",
        "line 1: schedulers: asha: unknown parameter 'et' (did you mean 'eta'?)",
    ),
    ("[simulate]\nresample = 1\n", "line 2: resample: '1' must be true or false"),
    ("[simulate]\nsave-cost = -1\n", "line 2: save-cost: '-1' must be a number of seconds"),
    ("[simulate]\nretries = 1\n", "line 2: retries: belongs in [live]"),
    # The other command's table is checked, too.
    ("[live]\nretries = -1\n", "line 2: retries: '-1' must be a whole number from 0 to 1,000"),
    ("[live]\nmax-time = '3 weeks'\n", "line 2: max-time: '3 weeks' must be a time above 0"),
    ("[live]\nretrys = 1\n", "line 2: retrys: is not known in [live] (did you mean 'retries'?)"),
    ("[live]\npreset = 'fast'\n", "line 2: preset: belongs in [training]"),
    (
        "[training]\npreset = 'fats'\n",
        "line 2: preset: 'fats' is not one of 'fast', 'published', 'repeatable'",
    ),
    ("[training]\nagents = 'x'\n", "line 2: agents: 'x' must be a whole number"),
    ("[training]\nvtrace = 'x'\n", "line 2: vtrace: 'x' must be true or false"),
    ("[training]\ngame = 'x'\n", "line 2: game: belongs to the top of the file"),
    ("[search-space.lr]\ntype = 'real'\n", "line 1: search space: lr: low is missing"),
    ("resume = 'x'\n", "line 1: resume: is not known"),
    ("out = 'x'\n", "line 1: out: belongs in [simulate] or [live]"),
]


@pytest.mark.parametrize("command", ["simulate", "live"])
@pytest.mark.parametrize(("text", "said"), IN_FILE, ids=lambda value: str(value)[:30])
def test_what_is_wrong_in_the_file(
    simsched: Run, here: Path, command: str, text: str, said: str
) -> None:
    config(text)
    before = tree(here)
    if (command, text) in [("live", "nodes = [2, 2]\n")]:
        said = "line 1: nodes: several are given (2, 2), but simsched live takes one"
    refusal = simsched(command, "--config", "exp.toml").refusal
    assert refusal.startswith(f"exp.toml: {said}")
    assert tree(here) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--config", "no.toml"], "--config no.toml: there is no such file"),
        (["--config", "."], "--config .: it is a folder; name a file"),
        (["--config", ""], "Invalid value for '--config': '' must not be empty"),
    ],
)
def test_no_file(simsched: Run, options: list[str], said: str) -> None:
    assert simsched("simulate", *options).refusal.startswith(said)


def test_what_only_simulating_finds_out_names_the_file(simsched: Run) -> None:
    config("\ngame = 'Pongg'\n")
    said = simsched("simulate", "--config", "exp.toml").refusal
    assert said.startswith("exp.toml: line 2: game: no recorded curves are named 'Pongg'")
    config("[simulate]\npreemption-cost = 2\nsave-cost = 2\n")
    said = simsched("simulate", "--config", "exp.toml").refusal
    assert said == "exp.toml: line 2: preemption-cost: already sets --save-cost and --load-cost"


def test_live_takes_one_scheduler(simsched: Run) -> None:
    live = ("live", "--config", "exp.toml", "--dry-run", "--json", "-")
    text = BOTH.replace('scheduler = "asha:eta=2"', 'schedulers = ["asha", "pbt"]')
    ladder("a.csv")
    config(text)
    assert simsched(*live).refusal == (
        "exp.toml: line 3: schedulers: several are given (asha, pbt), but simsched live takes "
        "one: choose it with --scheduler, or write scheduler into [live]"
    )
    assert plan(simsched(*live, "--scheduler", "random"))["settings"]["scheduler"] == "random"
    config(text.replace("[live]\n", "[live]\nscheduler = 'pbt'\n"))
    assert plan(simsched(*live))["settings"]["scheduler"] == "pbt"
    config(BOTH.replace('"asha:eta=2"', '["asha"]'))
    assert plan(simsched(*live))["settings"]["scheduler"] == "asha"
