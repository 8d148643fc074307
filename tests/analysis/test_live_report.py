"""The report of a search that really ran: it says so, and shows how busy its nodes were."""

import io
import json
import os
import re
from pathlib import Path

import msgspec
import pytest
from analysis_browser import CHROMIUM, DRAWN, opened
from analysis_live import COMMAND, large, live, measured, samples, usage_of
from analysis_runs import hand_made
from playwright.sync_api import Browser
from rich.console import Console
from test_analysis_report import EVIL, Page

import simsched.analysis.report as report_module
from simsched.analysis import report_html, table, write_report
from simsched.analysis.describe import PROGRAM_LENGTH, costs, sentence, tags, title
from simsched.analysis.figures import MEASURES, usage
from simsched.analysis.page_parts import NODES_NAMED
from simsched.analysis.statistics import summarize
from simsched.analysis.tables import summary
from simsched.results import Comparison, results_json


@pytest.fixture
def _small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Plotly's five megabytes out."""
    monkeypatch.setattr(report_module, "get_plotlyjs", lambda: "/* plotly.js */")


def test_results_say_on_what_they_were_measured_and_simulations_do_not() -> None:
    given = live(failures=3)
    simulated = Comparison(given.settings, given.runs)
    ours, theirs = (json.loads(results_json(each)) for each in (given, simulated))
    assert list(theirs) == ["settings", "runs"]
    assert (ours["settings"], ours["runs"]) == (theirs["settings"], theirs["runs"])
    assert ours["measured"] == {
        "program": None, "command": COMMAND, "date": "2026-11-21",
        "hardware": "a processor, 16 cores; a GPU",
        "versions": {"simsched": "0.1.0", "torch": "2.13.0"}, "nodes": ["GPU 0", "GPU 1"],
        "failures": 3,
    }  # fmt: skip


def test_words_for_a_search_that_ran() -> None:
    given = live()
    rows = summarize(given)
    assert title(given.settings, given.measured) == "MsPacman, live on 2 nodes, 3 trials"
    assert sentence(given.settings, rows, given.measured) == (
        "hypertrick ran on 2 nodes, 3 trials of up to 2 phases of 2\u00a0500 episodes each; starts "
        "and checkpoints: start 5.0 s, save 5.0 s, load 45.1 ms (measured medians)."
    )
    (tag,) = tags(given.settings, rows, given.measured)
    assert (tag.name, tag.mark) == ("measured", "")
    assert tag.text == (
        "Not a simulation: real workers trained, from 2026-11-21 on, and every time is as it was "
        "measured (a processor, 16 cores; a GPU)."
    )
    free = msgspec.structs.replace(given.settings, start_s=0.0, save_s=0.0, load_s=0.0)
    assert costs(free, given.measured) == "too short to be measured"
    # The same settings without measurements are a simulation's.
    assert title(given.settings) == "MsPacman on 2 nodes, 3 trials"
    assert costs(given.settings) == "start 5 s, save 5 s, load 0.0451 s"


def test_a_program_is_named_where_there_is_no_game() -> None:
    program = "python train.py --lr {lr}"
    given = live(game="", program=program)
    assert title(given.settings, given.measured) == f"{program}, live on 2 nodes, 3 trials"
    page = Page(report_html(given)).words()
    assert f"Program {program}" in page
    given = live(game="", program="python " + "x" * 100)
    assert title(given.settings, given.measured).index(",") == PROGRAM_LENGTH


def test_failures_and_time_that_was_up_are_told() -> None:
    run = hand_made(censored=1)
    lost = msgspec.structs.replace(run.trials[1], fate="lost")
    run = msgspec.structs.replace(run, trials=(run.trials[0], lost, run.trials[2]))
    given = live(run=run, failures=4)
    found = tags(given.settings, summarize(given), given.measured)
    assert [tag.name for tag in found] == ["measured", "failures", "censored"]
    assert found[1].text.startswith("4 workers failed; ")
    assert found[1].text.endswith(" 1 trial used up all retries and ended there (lost).")
    assert found[2].text.startswith("1 trial had to end because the search's time was up")
    assert found[2].mark == "†"
    only = tags(given.settings, summarize(live()), measured(run, failures=1))
    assert only[1].text.startswith("1 worker failed; ")
    assert "lost)" not in only[1].text


def test_tables_say_that_it_was_measured() -> None:
    given = live(failures=1)
    text = table(given)
    assert "measured: Not a simulation: real workers trained" in text
    assert "failures: 1 worker failed" in text
    assert "record" not in text
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(summary(given))
    shown = console.export_text()
    assert shown.split("\n")[1].strip() == "MsPacman, live on 2 nodes, 3 trials"
    assert max(len(line) for line in shown.split("\n")) <= 80


@pytest.mark.usefixtures("_small_plotly")
def test_the_page_speaks_of_measurements_and_of_nothing_simulated() -> None:
    html = report_html(live(failures=2))
    assert report_html(live(failures=2)) == html
    page = Page(html)
    words = page.words()
    for text in (
        "MsPacman, live on 2 nodes, 3 trials", "Scheduler hypertrick", "Nodes 2: GPU 0, GPU 1",
        "Costs start 5.0 s, save 5.0 s, load 45.1 ms (measured medians)", "Failures 2 workers",
        "Began 2026-11-21", "Hardware a processor, 16 cores; a GPU",
        "Software simsched 0.1.0, torch 2.13.0", "Curves curves.parquet, 3 trials",
        f"To search again {COMMAND}", "trial 0, after 1 m 35 s", "0.0556 node-hours",
        "occupancy 80.0 %", "4 milestones of 3 trials", "Use of the nodes",
    ):  # fmt: skip
        assert text in words
    for text in ("recordings", "replay", "Replications", "Node speeds", "Trials drawn", "simulate"):
        assert text not in words
    assert {"tag-measured", "tag-failures", "use"} <= set(page.ids())
    assert "tag-recorded" not in page.ids()
    assert [each["id"] for each in page.charts if each["id"].startswith("use")] == [
        "use-cpu", "use-gpu", "use-memory",
    ]  # fmt: skip


@pytest.mark.usefixtures("_small_plotly")
def test_a_simulation_has_no_use_of_nodes() -> None:
    given = live()
    page = Page(report_html(Comparison(given.settings, given.runs)))
    assert not any(name.startswith("use") for name in page.ids())
    assert "CPU use" not in page.words()
    assert all(usage(Comparison(given.settings, given.runs), each) is None for each in MEASURES)


@pytest.mark.usefixtures("_small_plotly")
@pytest.mark.parametrize("given", [live(), large()], ids=["panels", "picture"])
def test_use_stands_on_the_time_axis_of_the_schedule(given: Comparison) -> None:
    page = Page(report_html(given))
    linked = [chart for chart in page.charts if chart["linked"]]
    assert len(linked) == 5  # utilization, schedule, three of use
    assert len({tuple(chart["layout"]["xaxis"]["range"]) for chart in linked}) == 1
    dark = json.loads(page.data)["dark"]
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps([chart["layout"] for chart in linked])))
    use = [chart["data"] for chart in page.charts if chart["id"].startswith("use")]
    used |= set(re.findall(r"#[0-9a-f]{6}", json.dumps(use)))
    assert used <= set(dark)


@pytest.mark.usefixtures("_small_plotly")
def test_what_was_not_sampled_has_no_chart() -> None:
    run = hand_made()
    for gpu, names in ((False, {"use-cpu"}), (True, {"use-cpu", "use-gpu", "use-memory"})):
        given = live(usage=samples(2, run.wall_time_s, every_s=1.0, gpu=gpu))
        ids = Page(report_html(given)).ids()
        assert {name for name in ids if name.startswith("use-")} - {"use-heading"} == names
    assert "use" not in Page(report_html(live(usage=()))).ids()


@pytest.mark.usefixtures("_small_plotly")
def test_texts_from_outside_are_escaped() -> None:
    given = live(
        game="", program=EVIL, command=EVIL, hardware=EVIL, date=EVIL, nodes=(EVIL, EVIL),
        versions={EVIL: EVIL},
    )  # fmt: skip
    html = report_html(given)
    assert "<img" not in html
    assert html.count("<script") == 3
    assert not any("onerror" in attrs for _, attrs in Page(html).elements)
    names = {trace["name"] for trace in usage_of(given, "cpu").to_dict()["data"] if "name" in trace}
    assert not any("<" in name for name in names)


@pytest.mark.usefixtures("_small_plotly")
def test_many_nodes_are_not_all_named_in_the_settings() -> None:
    words = Page(report_html(large(40))).words()
    assert f"GPU {NODES_NAMED - 1}, …" in words
    assert f"GPU {NODES_NAMED}," not in words


@pytest.mark.browser
@pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("SIMSCHED_REQUIRE_BROWSER"),
    reason="no Chromium on this machine",
)
@pytest.mark.parametrize("nodes", [2, 40])
def test_a_live_report_in_a_browser(browser: Browser, tmp_path: Path, nodes: int) -> None:
    write_report(live() if nodes == 2 else large(nodes), tmp_path / "live.html")
    it = opened(browser, tmp_path / "live.html", scheme="dark")
    drawn = it.page.evaluate(DRAWN)
    assert {"use-cpu", "use-gpu", "use-memory"} <= {name for name, _, _ in drawn}
    assert [each for each in drawn if not each[1] or each[2] < 1] == []
    # The use of the nodes is zoomed with the schedule.
    it.page.evaluate("Plotly.relayout('gantt-0-0', {'xaxis.range[0]': 5, 'xaxis.range[1]': 9})")
    ranges = "['use-cpu', 'use-memory'].map((id) => document.getElementById(id).layout.xaxis.range)"
    it.until(f"JSON.stringify({ranges}) === '[[5,9],[5,9]]'")
    wide = it.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 1280
    assert it.complaints == []
