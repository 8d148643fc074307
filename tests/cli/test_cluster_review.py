"""Clusters on the command line: beside experiment files, costs of a live run, results by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_outcome import Outcome, tree

Run = Callable[..., Outcome]
FLAT = "trial,seconds,steps,episodes,score,hp.lr\n" + "".join(
    f"{trial},{100 * k},{100 * k},{k},{10 * trial + k},0.1\n" for trial in (0, 1) for k in (1, 2)
)
"""Two trials of two phases, each of which takes 100 s."""


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    Path("flat.csv").write_text(FLAT)
    Path("one.toml").write_text("[[nodes]]\nspeed = 2\nprice_per_hour = 36\n")
    Path("live").mkdir()
    settings = {"start_s": 3.0, "save_s": 0.5, "load_s": 0.0}
    runs = [{"saves": 2, "loads": 0}]
    text = json.dumps({"settings": settings, "measured": {}, "runs": runs})
    Path("live/results.json").write_text(text)


def one(simsched: Run, *arguments: object) -> tuple[Any, str]:
    outcome = simsched("simulate", "--traces", "flat.csv", "--phases", 2, "--phase-length", 100,
                       "--scheduler", "random", "--json", "-", *arguments)  # fmt: skip
    assert outcome.code == 0, outcome.err
    (run,) = json.loads(outcome.out)["runs"]
    return run, outcome.err


def test_one_fast_node_by_hand(simsched: Run) -> None:
    run, _ = one(simsched, "--cluster", "one.toml")
    assert run["wall_time_s"] == 200.0
    assert run["node_hours"] == pytest.approx(200 / 3600)
    assert run["cost"] == pytest.approx(2.0)


def test_scaling_with_notice_by_hand(simsched: Run) -> None:
    # Node 1 goes at 150 s; its trial is saved in the notice, from 130 s on, and goes on at 200 s.
    Path("less.toml").write_text("""\
[[nodes]]
count = 2
price_per_hour = 36

[[scale]]
at_s = 150
count = 1
notice_s = 20

[costs]
save_s = 5
load_s = 2
""")
    run, _ = one(simsched, "--cluster", "less.toml")
    assert run["wall_time_s"] == 272.0
    assert run["cost"] == pytest.approx((272 + 150) * 0.01)
    kinds = {kind: seconds for kind, seconds in run["node_seconds"].items() if seconds}
    assert kinds == {"train": 400, "save": 5, "load": 2, "grace": 15, "down": 122}


def test_the_command_line_wins_over_the_file(simsched: Run) -> None:
    Path("e.toml").write_text('nodes = 1\n[simulate]\ncluster = "one.toml"\n')
    assert one(simsched, "--config", "e.toml")[0]["wall_time_s"] == 200.0
    run, _ = one(simsched, "--config", "e.toml", "--nodes", 2)
    assert (run["nodes"], run["wall_time_s"], run.get("cost")) == (2, 200.0, None)
    for text in ('costs-from = "nowhere"', "save-cost = 9\nnode-speeds = 3"):
        Path("e.toml").write_text(f"[simulate]\n{text}\n")
        run, _ = one(simsched, "--config", "e.toml", "--cluster", "one.toml")
        assert run["wall_time_s"] == 200.0
    Path("e.toml").write_text("[simulate]\nstart-cost = 9\n")
    run, _ = one(simsched, "--config", "e.toml", "--costs-from", "live", "--nodes", 2)
    assert run["wall_time_s"] == 203.0


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ('cluster = "one.toml"\nnode-speeds = [1, 2]', [],
         "line 3: node-speeds: --cluster and --node-speeds exclude each other"),
        ("preemption-cost = 3\nload-cost = 3", [],
         "line 2: preemption-cost: already sets --save-cost and --load-cost"),
        ('checkpoints = "hourly"', [], "line 2: checkpoints: 'hourly' is no policy; there are: "),
    ],
)  # fmt: skip
def test_what_the_file_says_twice_is_one_line(
    text: str, arguments: list[object], said: str, simsched: Run, here: Path
) -> None:
    Path("e.toml").write_text(f"[simulate]\n{text}\n")
    before = tree(here)
    outcome = simsched("simulate", "--config", "e.toml", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: e.toml: {said}")
    assert outcome.err.count("\n") == 1
    assert tree(here) == before


def test_what_a_live_run_never_did_is_said_to_be_unknown(simsched: Run) -> None:
    _, err = one(simsched, "--costs-from", "live")
    assert "note: live loaded no checkpoint, so what that costs is not known" in err
    assert "saved no checkpoint" not in err


@pytest.mark.parametrize(
    ("run", "text", "said"),
    [
        ("live/results.json", None, "live/results.json: is a file; name the folder of a live run"),
        ("live", '{"settings": 3, "measured": {}}', "live: is not the folder of a finished live"),
        ("live", '{"settings": {"start_s": -1, "save_s": 1, "load_s": 1}, "measured": {}}',
         "live: is not the folder of a finished live run"),
    ],
)  # fmt: skip
def test_what_is_no_live_run_is_one_line(
    run: str, text: str | None, said: str, simsched: Run
) -> None:
    if text is not None:
        Path("live/results.json").write_text(text)
    outcome = simsched("simulate", "--costs-from", run)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: --costs-from {said}")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "[[nodes]]\ncount = 2\n\n[[scale]]\nat_s = 10\ncount = 0\n",
        "[[nodes]]\ncount = 2\n\n[[maintenance]]\nfrom_s = 10\nto_s = 1e15\n",
        "[[nodes]]\n\n[nodes.failures]\noutages = [{node = 0, from_s = 10, to_s = 1e15}]\n",
        "[[nodes]]\n\n[nodes.failures]\nmean_time_between_s = 0.001\n",
        "[[nodes]]\n\n[nodes.failures]\nmean_time_between_s = 9\nrepair_s = 1\n",
    ],
    ids=["scaled to none", "maintenance", "an outage", "no time to train", "too little time"],
)
def test_what_can_never_end_is_said_and_leaves_nothing(
    text: str, simsched: Run, here: Path
) -> None:
    Path("gone.toml").write_text(text)
    before = tree(here)
    outcome = simsched("simulate", "--traces", "flat.csv", "--phases", 2, "--phase-length", 100,
                       "--scheduler", "random", "--cluster", "gone.toml")  # fmt: skip
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: the search cannot end: ")
    assert outcome.err.count("\n") == 1
    assert tree(here) == before
