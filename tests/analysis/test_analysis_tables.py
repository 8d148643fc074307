"""The summary in a terminal of 80 columns, in a pipe, and in Markdown."""

import io
import re

import pytest
from analysis_runs import KNOWN, comparison, hand_made, settings
from rich.console import Console

from simsched.analysis import markdown, table
from simsched.analysis.tables import summary
from simsched.results import Comparison

LONG = "hypertrick:eviction_rate=0.25,and_another=1"
COMPARISONS = {
    "plain": comparison(KNOWN),
    "replicated": comparison([LONG, *KNOWN[1:]], replications=5, recorded_trials=16),
    "nodes": comparison(KNOWN, nodes=(2, 8, 128), replications=3),
    "trials": comparison(KNOWN, workers=(8, 256), replications=2),
    "nodes and trials": comparison(KNOWN[:3], nodes=(2, 128), workers=(16, 1000), replications=2),
    "mode min": comparison(KNOWN[:2], mode="min"),
}


def terminal(given: Comparison, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(summary(given))
    return out.getvalue()


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_terminal_table_fits_80_columns_and_cuts_nothing(name: str) -> None:
    text = terminal(COMPARISONS[name])
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    joined = re.sub(r"\s+", "", text)
    for run in COMPARISONS[name].runs:
        for word in run.scheduler.replace(":", ",").split(","):
            assert word.replace("-", "") in joined.replace("-", "")


def test_the_terminal_table_of_a_run_by_hand() -> None:
    text = terminal(Comparison(settings(nodes=(2,), workers=(3,)), (hand_made(),)))
    (row,) = [line for line in text.splitlines() if line.strip().startswith("hypertrick")]
    cells = "hypertrick 1 m 40 s 62.5 80.0 66.7 300.0 1 m 35 s 1 0.0556"
    assert " ".join(row.split()) == cells
    assert "Ms Pacman on 2 nodes, 3 trials" in text
    assert "±" not in text


def test_spreads_stand_under_their_means() -> None:
    lines = terminal(COMPARISONS["replicated"]).splitlines()
    place = next(i for i, line in enumerate(lines) if line.strip().startswith("asha"))
    assert lines[place + 1].count("±") == 8
    assert "order only" in "\n".join(lines)


def test_marks_are_explained_under_the_table() -> None:
    run = hand_made(scheduler="pbt", approximate=True, censored=2)
    text = terminal(Comparison(settings(), (run,)))
    assert "pbt*†" in text
    assert "* approximate: " in text
    assert re.search(r"† censored: 2 trials", text)
    assert "‡" not in text


def test_a_table_without_marks_explains_none() -> None:
    text = terminal(COMPARISONS["mode min"])
    assert not set("*†‡±") & set(text)


def test_synthetic_curves_are_said_to_be_synthetic() -> None:
    assert "synthetic: " in terminal(comparison(["random"], synthetic=True))
    assert "recorded: " in terminal(comparison(["random"]))


def test_notes_of_the_schedulers_are_shown_but_not_without_end() -> None:
    run = hand_made(notes=tuple(f"note number {index}" for index in range(9)))
    text = terminal(Comparison(settings(), (run,)))
    assert "hypertrick: note number 2" in text
    assert "note number 3" not in text
    assert "and 6 more notes" in text


def test_a_pipe_gets_one_line_a_row_and_no_colour() -> None:
    given = COMPARISONS["nodes"]
    text = table(given)
    assert "\x1b" not in text
    head, *rest = text.splitlines()
    rows = rest[: rest.index("")]
    assert len(rows) == 18
    fields = [re.split(r" {2,}", line) for line in (head, *rows)]
    assert {len(each) for each in fields} == {11}
    assert fields[0][:3] == ["scheduler", "nodes", "trials"]
    assert [each[1] for each in fields[1:4]] == ["2", "8", "128"]
    assert all("±" in each[3] for each in fields[1:])


def test_a_pipe_reads_back_the_figures_of_the_run() -> None:
    given = comparison(["random"])
    head, row = [re.split(r" {2,}", line) for line in table(given).splitlines()[:2]]
    cells = dict(zip(head, row, strict=True))
    assert float(cells["util. %"]) == pytest.approx(100 * given.runs[0].utilization, abs=0.05)
    assert float(cells["preemptions"]) == given.runs[0].preemptions


def test_markdown_is_a_table_whose_names_cannot_break_it() -> None:
    given = comparison(["a|b_c:<x>=`1`", "random"], replications=2)
    lines = markdown(given).splitlines()
    rows = lines[: lines.index("")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {10}
    assert rows[1].startswith("| --- | ---: |")
    assert r"a\|b\_c:\<x>=\`1\`" in rows[2]


def test_the_rows_of_a_scheduler_stand_together() -> None:
    given = comparison(["b", "a"], nodes=(2, 4))
    mixed = Comparison(given.settings, tuple(sorted(given.runs, key=lambda run: run.nodes)))
    rows = table(mixed).splitlines()[1:5]
    assert [row.split()[0] for row in rows] == ["b", "b", "a", "a"]
