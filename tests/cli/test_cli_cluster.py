"""`simsched simulate` on clusters that misbehave: options, results, and what the page says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_outcome import Outcome, tree

from simsched.checkpointing import parse_saving
from simsched.errors import SimschedError

Run = Callable[..., Outcome]
SPOT = """\
[[nodes]]
name = "spot"
count = 3
price_per_hour = 2.0

[nodes.spot]
mean_time_between_s = 100
notice_s = 0

[costs]
save_s = 0.5
"""


def results(simsched: Run, *arguments: object) -> Any:
    outcome = simsched("simulate", "--game", "CartPole-v1", "--phase-length", 60000, *arguments,
                       "--json", "-")  # fmt: skip
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_the_same_cluster_counted_or_described(simsched: Run, here: Path) -> None:
    Path("plain.toml").write_text("[[nodes]]\ncount = 4\n\n[costs]\nsave_s = 1\nload_s = 2\n")
    told = results(simsched, "--nodes", 4, "--save-cost", 1, "--load-cost", 2)
    found = results(simsched, "--cluster", "plain.toml")
    assert found["runs"] == told["runs"]
    assert found["settings"].pop("cluster")["nodes"][0]["count"] == 4
    assert found["settings"].pop("cluster_name") == "plain.toml"
    assert found["settings"] == told["settings"]
    assert "cluster" not in told["settings"]


def test_lost_work_and_cost_are_in_results_table_and_page(simsched: Run, here: Path) -> None:
    Path("spot.toml").write_text(SPOT)
    found = results(simsched, "--cluster", "spot.toml", "--scheduler", "hypertrick")
    (run,) = found["runs"]
    seconds = run["node_seconds"]
    assert run["lost_nodes"] > 0
    assert seconds["redo"] > 0
    assert run["node_hours"] * 3600 == pytest.approx(3 * run["wall_time_s"] - seconds["down"])
    assert run["cost"] == pytest.approx(2.0 * run["node_hours"])
    saved = results(simsched, "--cluster", "spot.toml", "--scheduler", "hypertrick",
                    "--checkpoints", "daly")  # fmt: skip
    assert saved["runs"][0]["node_seconds"]["redo"] < seconds["redo"]
    assert saved["runs"][0]["saves"] > 0
    outcome = simsched("simulate", "--game", "CartPole-v1", "--cluster", "spot.toml",
                       "--phase-length", 60000, "--scheduler", "hypertrick",
                       "--out", "r")  # fmt: skip
    head = outcome.out.splitlines()[0].split()
    assert head[-1] == "cost"
    assert "redo" in head
    page = Path("r/report.html").read_text()
    assert "3 spot, 2 an hour, taken back every" in page
    assert "--cluster spot.toml" in page


def test_costs_of_a_live_run(simsched: Run, here: Path) -> None:
    settings = {"start_s": 3.0, "save_s": 0.5, "load_s": 0.25}
    Path("live").mkdir()
    Path("live/results.json").write_text(json.dumps({"settings": settings, "measured": {}}))
    taken = results(simsched, "--costs-from", "live")
    told = results(simsched, "--start-cost", 3, "--save-cost", 0.5, "--load-cost", 0.25)
    assert taken == told
    Path("live/results.json").write_text(json.dumps({"settings": settings}))
    outcome = simsched("simulate", "--costs-from", "live")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: --costs-from live: is not the folder of a finished live")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "server", "--nodes", "3"], "--cluster and --nodes exclude each other"),
        (["--cluster", "server", "--node-speeds", "1,2"],
         "--cluster and --node-speeds exclude each other"),
        (["--cluster", "server", "--save-cost", "-3"], "Invalid value for '--save-cost': '-3'"),
        (["--costs-from", "nowhere"], "--costs-from nowhere/results.json: there is no such file"),
        (["--cluster", "my.toml"], "my.toml: line 2: count: '3' must be a whole number"),
        (["--checkpoints", "hourly"],
         "checkpoints: 'hourly' is no policy; there are: scheduler, "),
        (["--checkpoints", "every"],
         "checkpoints: 'every' is no policy; there are: scheduler, "),
        (["--checkpoints", "every:-5"], "checkpoints: 'every:-5' is no policy; there are: "),
        (["--checkpoints", "young"],
         "checkpoints: young needs to know how often nodes fail: say young"),
        (["--checkpoints", "daly:1h"],
         "checkpoints: daly: saving costs nothing, so there is no best"),
        (["--preemption", "late"], "Invalid value for '--preemption': 'late' is not one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(
    arguments: list[str], said: str, simsched: Run, here: Path
) -> None:
    Path("my.toml").write_text('[[nodes]]\ncount = "3"\n')
    before = tree(here)
    outcome = simsched("simulate", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {said}")
    assert outcome.err.count("\n") == 1
    assert tree(here) == before


@pytest.mark.parametrize(
    ("text", "kind", "seconds", "milestones"),
    [
        ("scheduler", "scheduler", None, False),
        ("milestone", "milestone", None, True),
        ("every:90", "every", 90.0, False),
        ("every: 1.5h", "every", 5400.0, False),
        ("daly", "daly", None, False),
        ("young:2d", "young", 172_800.0, False),
        ("milestone+every:10m", "every", 600.0, True),
        ("milestone+daly", "daly", None, True),
    ],
)
def test_policies_are_read(text: str, kind: str, seconds: float | None, milestones: bool) -> None:
    found = parse_saving(text)
    assert (found.kind, found.seconds, found.milestones) == (kind, seconds, milestones)
    assert found.save_at == ("milestone" if milestones else "scheduler")


@pytest.mark.parametrize(
    "text", ["", "milestone+", "milestone:3", "scheduler:3", "milestone+scheduler", "every:0",
             "every:1w", "every:", "daly:x", "milestone+milestone"],
)  # fmt: skip
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(SimschedError, match="is no policy"):
        parse_saving(text)
