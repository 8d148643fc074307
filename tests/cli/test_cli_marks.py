"""What a reader must know to judge the numbers is said, in the table and on the page."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_curves import ladder
from cli_outcome import Outcome, results

Run = Callable[..., Outcome]
REPORTS = ("--traces", "a.csv", "--unit", "reports", "--phase-length", 1)
RANDOM = ("--scheduler", "random")


def notes(outcome: Outcome) -> str:
    """What stands under the table."""
    return outcome.good.out.split("\n\n", 1)[1]


def page(folder: str = "r") -> str:
    return (Path(folder) / "report.html").read_text()


def test_one_replication_has_no_interval(simsched: Run) -> None:
    ladder("a.csv")
    assert "±" not in simsched("simulate", *REPORTS).good.out


def test_replications_have_the_t_interval_of_their_mean(simsched: Run) -> None:
    """Of 8 recorded trials 4 are drawn each time; two nodes, so that wall times differ."""
    ladder("a.csv", trials=8, rows=4)
    options = ("--workers", 3, "--nodes", 2, "--replications", 5, "--scheduler", "hypertrick")
    outcome = simsched("simulate", *REPORTS, *options, "--out", "r")
    (row,) = outcome.table
    runs = results("r")["runs"]
    assert [run["replication"] for run in runs] == [0, 1, 2, 3, 4]
    best = np.array([run["best_score"] for run in runs])
    assert len(set(best)) > 1
    half = 2.7764 * best.std(ddof=1) / np.sqrt(5)  # Student's t, 4 degrees of freedom, 97.5 %
    mean, spread = row["best score"].split(" ±")
    assert float(mean) == pytest.approx(best.mean(), abs=0.005)
    assert float(spread) == pytest.approx(half, abs=0.006)
    assert "intervals: ± is half the 95 % t interval of the mean over 5 replications" in notes(
        outcome
    )
    assert "order only" not in outcome.out


def test_the_first_replication_takes_the_file_s_order_the_others_draw_it(simsched: Run) -> None:
    ladder("a.csv", trials=6)
    options = ("--replications", 4, *RANDOM, "--scheduler", "hypertrick", "--out", "r")
    outcome = simsched("simulate", *REPORTS, *options)
    orders: dict[str, list[list[int]]] = {}
    for run in results("r")["runs"]:
        order = [trial["trace"] for trial in run["trials"]]
        orders.setdefault(run["scheduler"], []).append(order)
    assert orders["random"] == orders["hypertrick"]  # each scheduler sees the same
    first, *others = orders["random"]
    assert first == list(range(6))
    assert all(sorted(order) == first for order in others)
    assert len({tuple(order) for order in orders["random"]}) == 4
    assert "order only" in notes(outcome)


def test_order_only_is_said_where_all_recorded_trials_are_used_each_time(simsched: Run) -> None:
    ladder("a.csv", trials=4)
    run = ("simulate", *REPORTS, *RANDOM, "--nodes", 2, "--replications", 3)
    some = simsched(*run, "--workers", 3)
    assert "order only" not in some.good.out
    assert some.table[0]["scheduler"] == "random"
    every = simsched(*run, "--workers", 4, "--out", "r")
    assert every.table[0]["scheduler"] == "random‡"
    assert "‡ order only: " in notes(every)
    assert "order only" in page()
    once = simsched("simulate", *REPORTS, *RANDOM, "--workers", 4)
    assert "order only" not in once.good.out


def test_resampled(simsched: Run) -> None:
    ladder("a.csv", trials=4)
    options = ("--resample", "--workers", 10, "--nodes", 2, *RANDOM, "--replications", 2)
    outcome = simsched("simulate", *REPORTS, *options, "--out", "r")
    assert "resampled: Trials are drawn with replacement from the 4 recorded ones" in notes(outcome)
    assert "order only" not in outcome.out
    assert "drawn with replacement from the 4 recorded ones" in page()
    first, second = results("r")["runs"]
    drawn = [trial["trace"] for trial in first["trials"]]
    assert drawn[:4] == [0, 1, 2, 3]
    assert len(drawn) == 10
    assert set(drawn) <= {0, 1, 2, 3}
    assert [trial["trace"] for trial in second["trials"]] != drawn
    assert results("r")["settings"]["resample"] is True
    assert first["wall_time_s"] == 5 * 40


def test_resample_alone_changes_no_number_of_workers(simsched: Run) -> None:
    ladder("a.csv", trials=20)
    for options in ((), ("--resample",)):
        assert simsched("simulate", *REPORTS, *options, *RANDOM, "--out", f"r{len(options)}").good
    assert results("r0")["settings"]["workers"] == results("r1")["settings"]["workers"] == [16]


def test_censored_trials_are_counted_and_marked(simsched: Run) -> None:
    """Trials 1 and 3 of 4 were cut short after 2 of 4 reports."""
    ladder("a.csv", ends=("complete", "censored"))
    outcome = simsched("simulate", *REPORTS, *RANDOM, "--scheduler", "asha-stop", "--out", "r")
    assert outcome.table[0]["scheduler"] == "random†"
    assert "† censored: " in notes(outcome)
    assert "cut short" in notes(outcome)
    assert "censored" in page()
    run, stopped = results("r")["runs"]
    assert run["censored"] == 2
    assert [trial["fate"] for trial in run["trials"]] == ["finished", "censored"] * 2
    assert [trial["milestones"] for trial in run["trials"]] == [4, 2, 4, 2]
    assert run["completion_rate"] == 12 / 16
    assert stopped["censored"] == sum(t["fate"] == "censored" for t in stopped["trials"])


def test_diverged_trials_are_told_apart(simsched: Run) -> None:
    ladder("a.csv", ends=("complete", "diverged"))
    outcome = simsched("simulate", *REPORTS, *RANDOM, "--out", "r")
    assert "censored" not in outcome.good.out
    (run,) = results("r")["runs"]
    assert [trial["fate"] for trial in run["trials"]] == ["finished", "diverged"] * 2
    # Trial 3 reported once; in its last row, the second, it had diverged and has no score.
    assert [trial["step"] for trial in run["trials"]] == [4, 1, 4, 1]
    assert (run["best_score"], run["best_trial"]) == (3.1, 3)


@pytest.mark.parametrize("synthetic", [True, False])
def test_synthetic_curves_are_called_so(simsched: Run, synthetic: bool) -> None:
    ladder("a.csv", synthetic=synthetic)
    outcome = simsched("simulate", *REPORTS, *RANDOM, "--out", "r")
    begins = "synthetic: The learning curves" if synthetic else "recorded: The learning curves"
    assert notes(outcome).startswith(begins)
    assert results("r")["settings"]["synthetic"] is synthetic
    assert ("generated, not recorded" in page().split("<script")[0]) is synthetic


def test_what_synth_makes_is_synthetic(simsched: Run) -> None:
    assert simsched("traces", "synth", "--to", "s.parquet", "--trials", 6, "--rows", 30).code == 0
    outcome = simsched("simulate", "--traces", "s.parquet", *RANDOM)
    assert notes(outcome).startswith("synthetic: The learning curves (s.parquet) were generated")


def test_approximate_is_said_of_pbt_alone(simsched: Run) -> None:
    ladder("a.csv", trials=8, rows=8)
    outcome = simsched("simulate", *REPORTS, "--phases", 8, "--out", "r")
    names = [row["scheduler"] for row in outcome.table]
    assert names == ["successive-halving", "hyperband", "hypertrick", "pbt*"]
    assert "* approximate: Rests on curves nobody recorded" in notes(outcome)
    assert "approximate" in page().split("<script")[0]
    runs = {run["scheduler"]: run for run in results("r")["runs"]}
    assert {name: run["approximate"] for name, run in runs.items()} == {
        "successive-halving": False, "hyperband": False, "hypertrick": False, "pbt": True
    }  # fmt: skip
    figures = runs["pbt"]["approximation"]
    assert figures["exploits"] > 0
    assert 0 <= figures["own_curve_share"] <= 1
    assert f"{figures['exploits']:.0f} exploit" in notes(outcome)
    assert runs["random" if "random" in runs else "hypertrick"]["approximation"] == {}


def test_smaller_is_better(simsched: Run) -> None:
    """The same curves as a loss: the smallest is the best, in the metric's own sign, and the
    trials that the others lost to go on."""
    ladder("a.csv", trials=4, mode="min")
    table = simsched("simulate", *REPORTS, *RANDOM, "--scheduler", "successive-halving",
                     "--nodes", 2, "--out", "r").table  # fmt: skip
    run, halving = results("r")["runs"]
    # Trial 0's first row, 0.1, is the smallest of all: scores rise here.
    assert (run["best_score"], run["best_trial"], run["time_to_best_s"]) == (0.1, 0, 10)
    assert [trial["best_score"] for trial in run["trials"]] == pytest.approx([0.1, 1.1, 2.1, 3.1])
    assert table[0]["best score"] == "0.100"
    assert [trial["milestones"] for trial in halving["trials"]] == [3, 2, 1, 1]
    assert results("r")["settings"]["mode"] == "min"


def test_notes_that_schedulers_have_on_the_plan(simsched: Run) -> None:
    """Two trials are too few for HyperBand's three brackets at 4 phases."""
    ladder("a.csv", trials=2)
    outcome = simsched("simulate", *REPORTS, "--scheduler", "hyperband", "--out", "r")
    (note,) = results("r")["runs"][0]["notes"]
    assert "bracket" in note
    assert note.removeprefix("hyperband: ") in notes(outcome)


def test_pbt_that_never_exploits_is_not_approximate(simsched: Run) -> None:
    ladder("a.csv", trials=2)
    outcome = simsched("simulate", *REPORTS, "--scheduler", "pbt:interval=4", "--out", "r")
    assert "approximate" not in outcome.good.out
    assert json.loads(Path("r/results.json").read_text())["runs"][0]["approximate"] is False
