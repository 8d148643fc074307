"""Options that make no sense: one clear line, exit code 2, nothing made or overwritten."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_curves import ladder
from cli_outcome import Outcome, tree

Run = Callable[..., Outcome]
SEE = " (see simsched simulate --help)"
NUMBERS = "must be a whole number from 1 to 100,000, or several separated by commas: 2,4,8"
SECONDS = "must be a number of seconds from 0 to 1,000,000,000"
SPEEDS = "must be numbers from 0.001 to 1000, separated by commas: 1,1,0.5"
SCHEDULERS = (
    "there are: successive-halving, hyperband, hypertrick, pbt, asha, asha-stop, "
    "median-stopping, random"
)


def invalid(option: str, rest: str) -> str:
    return f"Invalid value for '{option}': {rest}{SEE}"


BAD_VALUES = [
    *[
        (["--nodes", value], invalid("--nodes", f"'{value}' {NUMBERS}"))
        for value in ("0", "-1", "six", "", "2,,4", "1.5", "2;4", "100001", "99999999999999")
    ],
    (["--nodes", "2,4,2"], invalid("--nodes", "'2,4,2' has 2 more than once")),
    (["--workers", "0"], invalid("--workers", f"'0' {NUMBERS}".replace("100,000", "1,000,000"))),
    (["--workers", "3,3"], invalid("--workers", "'3,3' has 3 more than once")),
    (["--phases", "0"], invalid("--phases", "'0' must be a whole number from 1 to 1,000,000")),
    (["--phases", "x"], invalid("--phases", "'x' must be a whole number from 1 to 1,000,000")),
    (
        ["--phase-length", "-5"],
        invalid("--phase-length", "'-5' must be a whole number from 1 to 1,000,000,000,000,000"),
    ),
    (
        ["--replications", "0"],
        invalid("--replications", "'0' must be a whole number from 1 to 100,000"),
    ),
    (["--jobs", "0"], invalid("--jobs", "'0' must be a whole number from 1 to 1,024")),
    (
        ["--seed", "-1"],
        invalid("--seed", "'-1' must be a whole number from 0 to 9,223,372,036,854,775,807"),
    ),
    *[
        ([f"--{name}-cost", value], invalid(f"--{name}-cost", f"'{value}' {SECONDS}"))
        for name in ("preemption", "save", "load", "start")
        for value in ("-1", "nan", "inf", "ten", "")
    ],
    *[
        (["--node-speeds", value], invalid("--node-speeds", f"'{value}' {SPEEDS}"))
        for value in ("0", "-1", "1,x", "nan", "inf", "", "1e-300")
    ],
    (
        ["--unit", "step"],
        invalid("--unit", "'step' is not one of 'episodes', 'steps', 'seconds', 'reports'"),
    ),
    *[
        ([option, ""], invalid(option, "'' must not be empty"))
        for option in ("--game", "--traces", "--scheduler", "--out", "--json")
    ],
    (
        ["--preemption-cost", "3", "--save-cost", "1"],
        f"--preemption-cost already sets --save-cost and --load-cost{SEE}",
    ),
    (
        ["--preemption-cost", "0", "--load-cost", "0"],
        f"--preemption-cost already sets --save-cost and --load-cost{SEE}",
    ),
    (
        ["--game", "CartPole-v1"],
        f"--game and --traces exclude each other: name one set of curves{SEE}",
    ),
    (["extra"], f"Got unexpected extra argument (extra){SEE}"),
]


@pytest.mark.parametrize(("options", "said"), BAD_VALUES, ids=lambda value: str(value)[:40])
def test_bad_values(simsched: Run, here: Path, options: list[str], said: str) -> None:
    ladder("a.csv")
    before = tree(here)
    assert simsched("simulate", "--traces", "a.csv", *options).refusal == said
    assert tree(here) == before


def test_a_very_long_value_is_not_quoted_whole(simsched: Run) -> None:
    said = simsched("simulate", "--nodes", "9" * 5000).refusal
    assert len(said) < 250
    assert f"'{'9' * 30}" in said


@pytest.mark.parametrize(
    ("scheduler", "said"),
    [
        ("hyperbnd", f"unknown scheduler 'hyperbnd' (did you mean 'hyperband'?); {SCHEDULERS}"),
        (
            "HyperTrick",
            f"unknown scheduler 'HyperTrick' (did you mean 'hypertrick'?); {SCHEDULERS}",
        ),
        ("zzz", f"unknown scheduler 'zzz'; {SCHEDULERS}"),
        (
            "hypertrick:eviction=0.2",
            (
                "hypertrick: unknown parameter 'eviction' (did you mean 'eviction_rate'?); "
                "it has: eviction_rate"
            ),
        ),
        ("random:eta=2", "random: unknown parameter 'eta'; it has: none"),
        (
            "hypertrick:eviction_rate=1",
            "hypertrick: eviction_rate=1 must be a number above 0 and below 1",
        ),
        ("hypertrick:eviction_rate", "hypertrick: 'eviction_rate' must read key=value"),
        ("asha:eta=3,eta=4", "asha: eta is given twice"),
        ("successive-halving:eta=1", "successive-halving: eta=1 must be a number above 1"),
        ("asha:eta=nan", "asha: eta=nan must be a number above 1"),
    ],
)
def test_bad_schedulers(simsched: Run, here: Path, scheduler: str, said: str) -> None:
    ladder("a.csv")
    before = tree(here)
    assert simsched("simulate", "--traces", "a.csv", "--scheduler", scheduler).refusal == said
    assert tree(here) == before


def test_a_scheduler_twice(simsched: Run) -> None:
    ladder("a.csv")
    twice = ["--scheduler", "asha", "--scheduler", "asha"]
    assert "none twice" in simsched("simulate", "--traces", "a.csv", *twice).refusal


@pytest.mark.parametrize("value", ["asha:eta=1e308", "asha:base=1e308", "asha-stop:eta=1e308"])
def test_a_parameter_beyond_all_bounds(simsched: Run, here: Path, value: str) -> None:
    ladder("a.csv")
    said = simsched("simulate", "--traces", "a.csv", "--scheduler", value).refusal
    assert value.partition(":")[0] in said
    assert not (here / "runs").exists()


def test_every_scheduler_is_checked_before_the_first_is_simulated(
    simsched: Run, here: Path
) -> None:
    """A rung of less than one unit is found out when the scheduler meets the plan."""
    ladder("a.csv")
    options = ["--scheduler", "random", "--scheduler", "asha:eta=1.01"]
    said = simsched("simulate", "--traces", "a.csv", "--phase-length", 10, *options).refusal
    assert said.startswith("asha: ")
    assert "eta=1.01" in said
    assert "less than one resource unit" in said
    assert not (here / "runs").exists()


def test_phases_longer_than_the_traces_name_the_trial_and_both_lengths(simsched: Run) -> None:
    ladder("a.csv", trials=3, rows=5)
    run = ("simulate", "--traces", "a.csv", "--unit", "steps", "--phases", 6)
    assert simsched(*run, "--phase-length", 100).refusal == (
        "recorded trial 0 of a.csv has 500 steps, fewer than the 600 that 6 phases of 100 need; "
        "ask for fewer or shorter phases"
    )
    reports = ("simulate", "--traces", "a.csv", "--unit", "reports", "--phases", 6)
    assert simsched(*reports).refusal == (
        "recorded trial 0 of a.csv has 5 reports, fewer than the 6 that 6 phases of 1 need; "
        "ask for fewer phases"
    )


def test_the_shortest_trial_is_the_one_that_is_named(simsched: Run) -> None:
    with Path("a.csv").open("w") as file:
        file.write("trial,seconds,steps,episodes,score\n")
        file.writelines(f"4,{i},{i}0,{i},1\n" for i in range(1, 9))
        file.writelines(f"9,{i},{i}0,{i},1\n" for i in range(1, 4))
    run = ("simulate", "--traces", "a.csv", "--unit", "episodes")
    said = "recorded trial 9 of a.csv has 3 episodes, fewer than the 4 that 4 phases of 1 need"
    assert simsched(*run).refusal.startswith(said)
    assert simsched(*run, "--phase-length", 1).refusal.startswith(said)


def test_more_workers_than_recorded_trials(simsched: Run, here: Path) -> None:
    ladder("a.csv", trials=5)
    assert simsched("simulate", "--traces", "a.csv", "--workers", "2,6").refusal == (
        "workers=6 is more than the 5 recorded trials of a.csv; "
        "ask for at most 5, or draw with replacement (--resample)"
    )
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--game", "CartPole"],
            "no recorded curves are named 'CartPole'; did you mean CartPole-v1?",
        ),
        (["--game", "zzzzzz"], "no recorded curves are named 'zzzzzz'; shipped: Boxing"),
        (["--traces", "no.csv"], "no.csv: there is no such file"),
        (["--traces", "no.txt"], "no.txt: the suffix '.txt' is not known; it must be .parquet"),
        (["--traces", "."], ".: it is a folder; give one trace file"),
        (
            ["--traces", "CartPole-v1"],
            "CartPole-v1: there is no such file; did you mean --game CartPole-v1?",
        ),
    ],
)
def test_curves_that_are_not_there(
    simsched: Run, here: Path, options: list[str], said: str
) -> None:
    assert simsched("simulate", *options).refusal.startswith(said)
    assert tree(here) == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["simulat"],
            (
                "there is no command 'simulat' (did you mean 'simulate'?); "
                "there are: simulate, live, replay, play, schedulers, traces, train, record, nodes "
                "(see simsched --help)"
            ),
        ),
        (["SCHEDULERS"], "there is no command 'SCHEDULERS' (did you mean 'schedulers'?)"),
        (
            ["zzz"],
            "there is no command 'zzz'; there are: simulate, live, ",
        ),
        (["--zzz"], "No such option"),
        (["simulate", "--nods", "3"], "No such option"),
        (["simulate", "--nodes"], "Option '--nodes' requires an argument"),
        (["schedulers", "hypertrik"], "unknown scheduler 'hypertrik' (did you mean 'hypertrick'?)"),
        (["schedulers", "a", "b"], "Got unexpected extra argument (b)"),
    ],
)
def test_unknown_commands_and_options(simsched: Run, arguments: list[str], said: str) -> None:
    assert simsched(*arguments).refusal.startswith(said)


def test_an_option_is_offered_for_one_that_is_misspelt(simsched: Run) -> None:
    said = simsched("simulate", "--nods", "3").refusal
    assert "--nods" in said
    assert "--nodes" in said


def test_no_command_shows_the_help_and_is_an_error(simsched: Run) -> None:
    outcome = simsched()
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("Usage: simsched [OPTIONS] COMMAND [ARGS]...")
