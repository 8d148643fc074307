"""What a good run prints and writes; the numbers of small cases are worked out by hand."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_curves import ladder, lines
from cli_outcome import Outcome, duration_s, results, tree

Run = Callable[..., Outcome]
ALPHA = "\N{GREEK SMALL LETTER ALPHA} %"
ALPHA = "\N{GREEK SMALL LETTER ALPHA} %"
COLUMNS = [
    "scheduler", "wall time", "util. %", "occup. %", ALPHA, "best score", "time to best",
    "preemptions", "node-hours",
]  # fmt: skip
ALL = (
    "successive-halving", "hyperband", "hypertrick", "pbt", "asha", "asha-stop",
    "median-stopping", "random",
)  # fmt: skip
EVERY = [part for name in ALL for part in ("--scheduler", name)]
KEYS = {
    "scheduler", "replication", "wall_time_s", "utilization", "occupancy", "completion_rate",
    "best_score", "best_trial", "time_to_best_s", "node_seconds", "preemptions", "milestones",
    "approximate", "trials",
}  # fmt: skip
TRIAL_KEYS = {"trial", "trace", "hparams", "milestones", "step", "best_score", "fate"}
REPORTS = ("--traces", "a.csv", "--unit", "reports", "--phase-length", 1)


def the_run(folder: str, scheduler: str) -> dict[str, Any]:
    """The one run of a scheduler in a folder's results."""
    (found,) = [run for run in results(folder)["runs"] if run["scheduler"] == scheduler]
    assert isinstance(found, dict)
    return found


def test_random_search_by_hand(simsched: Run) -> None:
    """Four trials of 40 s on two nodes: two at a time, 80 s in all; the last is the best."""
    ladder("a.csv")
    run = ("simulate", *REPORTS, "--nodes", 2, "--scheduler", "random", "--out", "r")
    (row,) = simsched(*run).table
    assert row == {
        "scheduler": "random",
        "wall time": "1 m 20 s",
        "util. %": "100.0",
        "occup. %": "100.0",
        ALPHA: "100.0",
        "best score": "3.40",
        "time to best": "1 m 20 s",
        "preemptions": "0",
        "node-hours": "0.0444",
    }
    result = the_run("r", "random")
    assert result["node_seconds"]["train"] == 160
    assert sum(result["node_seconds"].values()) == 160
    assert [trial["fate"] for trial in result["trials"]] == ["finished"] * 4
    assert [trial["best_score"] for trial in result["trials"]] == [0.4, 1.4, 2.4, 3.4]


def test_successive_halving_by_hand(simsched: Run) -> None:
    """Rungs end after 1, 2 and 4 reports and hold 4, 2 and 1 trials. All four are saved at the
    first rung's end, trials 2 and 3 at one instant on nodes 0 and 1. So node 0 is free when only
    trial 2 can be loaded, and reports it first at the second rung's end: it is saved, too, and
    loses when trial 3 reports, which is saved as it survives. Saving takes 2 s, loading 3 s, a
    start 1 s.
    """
    ladder("a.csv")
    costs = ("--save-cost", 2, "--load-cost", 3, "--start-cost", 1)
    run = ("simulate", *REPORTS, "--nodes", 2, "--scheduler", "successive-halving", *costs)
    simsched(*run, "--out", "r")
    result = the_run("r", "successive-halving")
    assert [trial["milestones"] for trial in result["trials"]] == [1, 1, 2, 3]
    assert [trial["fate"] for trial in result["trials"]] == ["stopped"] * 3 + ["finished"]
    assert (result["saves"], result["loads"], result["best_trial"]) == (6, 3, 3)
    spent = result["node_seconds"]
    # Seven starts; four times 10 s in the first rung, twice 10 s in the second, 20 s in the last.
    assert (spent["save"], spent["load"], spent["start"], spent["train"]) == (12, 9, 7, 80)
    # Rung by rung: (1 + 10 + 2) twice, 1 + 3 + 10 + 2, and 1 + 3 + 20 to the end.
    assert result["wall_time_s"] == 26 + 16 + 24
    assert sum(spent.values()) == 2 * result["wall_time_s"]


def test_table_has_the_numbers_of_the_json(simsched: Run) -> None:
    ladder("a.csv", trials=9, rows=9, ends=("complete", "complete", "censored", "diverged"))
    run = ("simulate", *REPORTS, "--phases", 9, "--preemption-cost", 3, "--nodes", 3, *EVERY)
    table = simsched(*run, "--out", "r").table
    assert [row["scheduler"].rstrip("*†‡") for row in table] == list(ALL)
    for row in table:
        run_ = the_run("r", row["scheduler"].rstrip("*†‡"))
        assert list(row) == COLUMNS
        for name, key in (("wall time", "wall_time_s"), ("time to best", "time_to_best_s")):
            shown_s, off_by_s = duration_s(row[name])
            assert shown_s == pytest.approx(run_[key], abs=off_by_s)
        for name, key in (
            ("util. %", "utilization"), ("occup. %", "occupancy"), (ALPHA, "completion_rate")
        ):  # fmt: skip
            assert row[name] == f"{100 * run_[key]:.1f}"
        assert float(row["best score"]) == pytest.approx(run_["best_score"], abs=0.005)
        assert row["preemptions"] == str(run_["preemptions"])
        assert float(row["node-hours"]) == pytest.approx(run_["node_hours"], rel=0.005)
        assert run_["node_hours"] == 3 * run_["wall_time_s"] / 3600


def test_json_has_what_the_design_names(simsched: Run) -> None:
    ladder("a.csv", trials=5, ends=("complete", "complete", "diverged"))
    simsched("simulate", *REPORTS, "--phases", 4, "--out", "r")
    read = results("r")
    assert list(read) == ["settings", "runs"]
    for run in read["runs"]:
        assert set(run) >= KEYS
        assert {"train", "redo", "start", "save", "load", "wait", "held", "idle"} <= set(
            run["node_seconds"]
        )
        assert sum(run["node_seconds"].values()) == pytest.approx(6 * run["wall_time_s"])
        for trial in run["trials"]:
            assert set(trial) == TRIAL_KEYS
            assert trial["fate"] in ("finished", "stopped", "diverged", "censored", "lost")
            assert set(trial["hparams"]) == {"lr", "t_max"}
        assert [trial["trial"] for trial in run["trials"]] == list(range(5))
        assert sorted(trial["trace"] for trial in run["trials"]) == list(range(5))


def test_the_folder_and_the_json_file(simsched: Run, here: Path) -> None:
    ladder("a.csv")
    outcome = simsched("simulate", *REPORTS, "--out", "some/run", "--json", "r.json").good
    assert outcome.out.endswith("\nreport: some/run/report.html\n")
    found = tree(here / "some" / "run")
    names = [
        f"journals/{scheduler}.nodes-6.workers-4.replication-0.jsonl"
        for scheduler in ("hyperband", "hypertrick", "pbt", "successive-halving")
    ]
    assert list(found) == ["journals", *names, "report.html", "results.json", "settings.json"]
    assert sorted(path.name for path in here.iterdir()) == ["a.csv", "r.json", "some"]
    assert found["results.json"] == (here / "r.json").read_bytes()
    settings = json.loads(found["settings.json"] or b"")
    assert settings == results("some/run")["settings"]
    assert settings["traces"] == "a.csv"
    assert (settings["nodes"], settings["workers"], settings["phases"]) == ([6], [4], 4)
    page = (found["report.html"] or b"").decode()
    assert page.startswith(("<!doctype html>", "<!DOCTYPE html>"))
    assert not re.search(r"<(script|link|img)[^>]*\s(src|href)=[\"']https?:", page)


def test_the_journal_lists_every_report(simsched: Run) -> None:
    ladder("a.csv")
    simsched("simulate", *REPORTS, "--scheduler", "random", "--out", "r")
    (journal,) = Path("r/journals").iterdir()
    header, *records = [json.loads(line) for line in journal.read_text().splitlines()]
    assert header["run"] == {"scheduler": "random", "nodes": 6, "workers": 4, "replication": 0}
    events = [record["event"] for record in records]
    reports = [event for event in events if event["type"] == "reported"]
    assert len(reports) == 4 * 4
    assert max(report["at"] for report in reports) == 40_000_000  # microseconds


def test_json_on_standard_output_is_nothing_but_json(simsched: Run) -> None:
    ladder("a.csv")
    outcome = simsched("simulate", *REPORTS, "--json", "-")
    assert outcome.code == 0
    assert outcome.out == Path("runs/simulate-1/results.json").read_text()
    assert outcome.err == "report: runs/simulate-1/report.html\n"
    assert set(json.loads(outcome.out)) == {"settings", "runs"}


def test_runs_are_numbered_and_earlier_ones_stay(simsched: Run, here: Path) -> None:
    ladder("a.csv")
    first = simsched("simulate", *REPORTS).good
    assert first.out.endswith("report: runs/simulate-1/report.html\n")
    before = tree(here / "runs" / "simulate-1")
    second = simsched("simulate", *REPORTS, "--seed", 5, "--nodes", 1).good
    assert second.out.endswith("report: runs/simulate-2/report.html\n")
    assert tree(here / "runs" / "simulate-1") == before
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["simulate-1", "simulate-2"]


def test_the_same_seed_gives_the_same_bytes(simsched: Run, here: Path) -> None:
    ladder("a.csv", trials=9, ends=("complete", "diverged", "complete"))
    run = ("simulate", *REPORTS, *EVERY, "--replications", 3, "--preemption-cost", 1)
    first = simsched(*run, "--out", "x").good.out
    assert simsched(*run, "--out", "y").good.out == first.replace("x/report", "y/report")
    assert tree(here / "x") == tree(here / "y")
    simsched(*run, "--seed", 1, "--out", "z")
    assert tree(here / "x")["results.json"] != tree(here / "z")["results.json"]


def test_a_sweep_over_nodes(simsched: Run) -> None:
    ladder("a.csv", trials=8)
    run = ("simulate", *REPORTS, "--scheduler", "random", "--scheduler", "hypertrick")
    table = simsched(*run, "--nodes", "2,4,8", "--out", "r").table
    assert [(row["scheduler"], row["nodes"], row["trials"]) for row in table] == [
        (scheduler, nodes, "8") for scheduler in ("random", "hypertrick") for nodes in "248"
    ]
    assert list(table[0]) == ["scheduler", "nodes", "trials", *COLUMNS[1:]]
    # Eight trials of 40 s: 160, 80 and 40 s; always 320 s of node time.
    assert [row["wall time"] for row in table[:3]] == ["2 m 40 s", "1 m 20 s", "40.0 s"]
    assert {row["node-hours"] for row in table[:3]} == {"0.0889"}
    assert "Cluster size" in Path("r/report.html").read_text()


def test_a_sweep_over_workers(simsched: Run) -> None:
    ladder("a.csv", trials=8)
    run = ("simulate", *REPORTS, "--scheduler", "random", "--nodes", 2)
    table = simsched(*run, "--workers", "8,2").table
    assert [(row["nodes"], row["trials"], row["wall time"]) for row in table] == [
        ("2", "8", "2 m 40 s"),
        ("2", "2", "40.0 s"),
    ]


@pytest.mark.parametrize(
    ("unit", "length", "score"),
    [("episodes", 2, 3.5), ("steps", 200, 3.5), ("seconds", 20, 3.5), ("reports", 2, 3.5)],
)
def test_every_unit_counts_the_same_curve(
    simsched: Run, unit: str, length: int, score: float
) -> None:
    """Two rows are 2 episodes, 200 steps, 20 s; the last phase's mean is that of rows 7 and 8
    of the best of four trials."""
    ladder("a.csv", rows=8)
    run = ("simulate", "--traces", "a.csv", "--unit", unit, "--scheduler", "random", "--out", "r")
    simsched(*run)
    result = results("r")
    assert result["settings"]["phase_length"] == length  # the longest that fits, by default
    assert result["settings"]["unit"] == unit
    (ran,) = result["runs"]
    assert ran["best_score"] == pytest.approx(3 + (0.7 + 0.8) / 2)
    assert [trial["step"] for trial in ran["trials"]] == [4 * length] * 4
    assert ran["wall_time_s"] == 80


def test_node_speeds_are_dealt_out_in_turn(simsched: Run) -> None:
    """Node 1 is half as fast: trial 1 takes 80 s there, while node 0 does two others."""
    ladder("a.csv", trials=3)
    run = ("simulate", *REPORTS, "--scheduler", "random", "--nodes", 2, "--node-speeds", "1,0.5")
    (row,) = simsched(*run).table
    assert row["wall time"] == "1 m 20 s"
    assert row["util. %"] == "100.0"


def test_preemption_costs_are_paid_by_those_who_preempt(simsched: Run) -> None:
    """With costs, save and load time is exactly counts times costs; who never preempts is
    exactly as without costs."""
    ladder("a.csv", trials=16, rows=8)
    run = ("simulate", *REPORTS, "--phases", 8, "--nodes", 6, *EVERY)
    simsched(*run, "--out", "free")
    simsched(*run, "--preemption-cost", 5, "--out", "paid")
    for name in ALL:
        free, paid = the_run("free", name), the_run("paid", name)
        assert paid["node_seconds"]["save"] == 2.5 * paid["saves"]
        assert paid["node_seconds"]["load"] == 2.5 * paid["loads"]
        if name in ("hypertrick", "random", "median-stopping", "asha-stop"):
            assert paid == free
            assert (paid["saves"], paid["loads"], paid["preemptions"]) == (0, 0, 0)
        else:
            assert paid["preemptions"] > 0
            assert paid["saves"] >= max(1, paid["loads"])
            assert sum(paid["node_seconds"].values()) == 6 * paid["wall_time_s"]


def test_curves_without_hyperparameters(simsched: Run, here: Path) -> None:
    """All schedulers can do without them, but PBT, which is about changing them."""
    rows = [f"{t},{i},{i},{i},{t}" for t in range(4) for i in range(1, 5)]
    lines("a.csv", *rows, head="trial,seconds,steps,episodes,score")
    run = ("simulate", "--traces", "a.csv")
    others = [name for name in ALL if name != "pbt"]
    table = simsched(*run, *[part for name in others for part in ("--scheduler", name)]).table
    assert [row["scheduler"] for row in table] == others
    assert {row["best score"] for row in table if row["scheduler"] == "random"} == {"3.00"}
    assert [row["scheduler"] for row in simsched(*run).table] == [
        "successive-halving", "hyperband", "hypertrick"
    ]  # fmt: skip
    before = tree(here)
    said = simsched(*run, "--scheduler", "random", "--scheduler", "pbt").refusal
    assert said.startswith("pbt changes hyperparameters, but a.csv has none")
    assert tree(here) == before


def test_trials_that_all_diverge_have_no_best_score(simsched: Run) -> None:
    ladder("a.csv", rows=2, ends=("diverged",))
    table = simsched("simulate", *REPORTS, "--phases", 2, *EVERY, "--out", "r").table
    for row in table:
        assert row["best score"] == row["time to best"] == "–"
    assert {run["best_score"] for run in results("r")["runs"]} == {None}


def test_defaults_on_the_curves_that_come_with_it(simsched: Run) -> None:
    table = simsched("simulate", "--game", "cartpole-V1", "--out", "r").table
    names = ["successive-halving", "hyperband", "hypertrick", "pbt*"]
    assert [row["scheduler"] for row in table] == names
    settings = results("r")["settings"]
    assert (settings["traces"], settings["nodes"], settings["workers"]) == (
        "CartPole-v1",
        [6],
        [16],
    )
    assert settings["schedulers"] == ["successive-halving", "hyperband", "hypertrick", "pbt"]
