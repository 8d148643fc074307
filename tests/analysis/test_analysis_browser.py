"""The report in a real browser, offline: drawn, quiet, narrow enough, and usable."""

import os
from pathlib import Path

import pytest
from analysis_browser import CHROMIUM, DRAWN, Opened, opened
from analysis_cluster import FULL, on, run_of
from analysis_runs import KNOWN, comparison
from playwright.sync_api import Browser

from simsched.analysis import write_report
from simsched.results import Comparison

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("SIMSCHED_REQUIRE_BROWSER"),
        reason="no Chromium on this machine",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports to open: one cluster, a sweep, one too large for bars, and an unreliable one."""
    folder = tmp_path_factory.mktemp("reports")
    one = comparison(["hypertrick", "pbt"], replications=2, recorded_trials=16)
    write_report(one, folder / "one.html")
    write_report(comparison(KNOWN[:2], nodes=(2, 8)), folder / "sweep.html")
    large = comparison(KNOWN[:2], nodes=(128,), workers=(1000,), phases=27)
    write_report(large, folder / "large.html")
    write_report(Comparison(on(FULL), (run_of(FULL.size),)), folder / "cluster.html")
    return folder


@pytest.mark.parametrize("name", ["one.html", "sweep.html", "large.html", "cluster.html"])
def test_every_chart_is_drawn_offline_and_without_complaint(
    browser: Browser, folder: Path, name: str
) -> None:
    it = opened(browser, folder / name)
    drawn = it.page.evaluate(DRAWN)
    count = {"one.html": 6, "sweep.html": 9, "large.html": 6, "cluster.html": 4}
    assert len(drawn) == count[name]
    assert [each for each in drawn if not each[1] or each[2] < 2] == []
    assert it.complaints == []
    outside = [url for url in it.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
    assert sum(url.startswith("file:") for url in it.requests) == 1


@pytest.mark.parametrize("width", [360, 1280, 3840])
def test_the_page_never_scrolls_sideways(browser: Browser, folder: Path, width: int) -> None:
    for name in ("one.html", "sweep.html", "cluster.html"):
        it = opened(browser, folder / name, width)
        wide, charts = it.page.evaluate(
            "[document.documentElement.scrollWidth,"
            " [...document.querySelectorAll('.js-plotly-plot .main-svg')]"
            ".map((svg) => svg.getBoundingClientRect().right)]"
        )
        assert wide <= width
        assert charts
        assert max(charts) <= width
        if width == 360:
            box = "(() => { const b = document.querySelector('.scroll');"
            scrolls = it.page.evaluate(box + " return b.scrollWidth > b.clientWidth; })()")
            assert scrolls


def test_the_theme_follows_the_system_and_can_be_switched(browser: Browser, folder: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    paper = "document.querySelector('#gantt-0-0 .main-svg').style.background"
    seen = {}
    for scheme in ("light", "dark"):
        it = opened(browser, folder / "one.html", scheme=scheme)
        seen[scheme] = (it.page.evaluate(ground), it.page.evaluate(paper))
        it.page.click("#theme")
        it.ready()
        seen[f"{scheme}, switched"] = (it.page.evaluate(ground), it.page.evaluate(paper))
        assert it.complaints == []
    assert seen["light"][0] != seen["dark"][0]
    assert seen["light"][1] != seen["dark"][1]
    assert seen["light, switched"] == seen["dark"]
    assert seen["dark, switched"] == seen["light"]


def test_charts_of_another_cluster_can_be_chosen(browser: Browser, folder: Path) -> None:
    it = opened(browser, folder / "sweep.html")
    shown = "[...document.querySelectorAll('.plot')].filter((b) => b.offsetParent).map((b) => b.id)"
    before = it.page.evaluate(shown)
    it.page.select_option("#place", "1")
    it.ready()
    after = it.page.evaluate(shown)
    assert "gantt-0-0" in before
    assert "gantt-1-0" not in before
    assert "gantt-1-0" in after
    assert "gantt-0-0" not in after
    assert [each for each in it.page.evaluate(DRAWN) if not each[1] or each[2] < 2] == []
    assert it.complaints == []


def test_zooming_pointing_and_resizing(browser: Browser, folder: Path) -> None:
    it = opened(browser, folder / "one.html")
    check_that_a_bar_says_what_it_is(it)
    check_that_charts_on_one_time_axis_zoom_together(it)
    check_that_type_and_charts_grow_with_the_screen(it)
    assert it.complaints == []


def check_that_charts_on_one_time_axis_zoom_together(it: Opened) -> None:
    ranges = (
        "['gantt-0-0', 'gantt-0-1', 'utilization-0']"
        ".map((id) => document.getElementById(id).layout.xaxis.range.map(Math.round))"
    )
    whole = it.page.evaluate(ranges)
    assert whole[0] == whole[1] == whole[2]
    it.page.evaluate("Plotly.relayout('gantt-0-0', {'xaxis.range[0]': 5, 'xaxis.range[1]': 9})")
    it.until(f"JSON.stringify({ranges}) === '[[5,9],[5,9],[5,9]]'")
    # A zoom outlives a change of theme.
    it.page.click("#theme")
    it.ready()
    assert it.page.evaluate(ranges) == [[5, 9]] * 3


def check_that_a_bar_says_what_it_is(it: Opened) -> None:
    text = it.said_of("#gantt-0-0")
    assert "trial 0" in text
    assert "node 0" in text
    assert "phase 1 of 10" in text


def test_a_bar_names_the_kind_of_its_node(browser: Browser, folder: Path) -> None:
    it = opened(browser, folder / "cluster.html")
    labels = it.page.locator("#gantt-0-0 .ytick text").all_text_contents()
    assert labels == ["own 0", "1", "spot 2", "3", "4", "5", "6", "spare 7"]
    assert "node 1 (own)" in it.said_of("#gantt-0-0", bar=2)
    assert it.complaints == []


def check_that_type_and_charts_grow_with_the_screen(it: Opened) -> None:
    size = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    tick = "parseFloat(getComputedStyle(document.querySelector('#gantt-0-0 .xtick text')).fontSize)"
    before = it.page.evaluate(size), it.page.evaluate(tick)
    it.page.set_viewport_size({"width": 3840, "height": 2160})
    it.until(f"{tick} > {before[1]} * 1.2")
    it.ready()
    growth = it.page.evaluate(size) / before[0]
    assert growth > 1.3
    assert it.page.evaluate(tick) / before[1] == pytest.approx(growth, rel=0.05)


def test_names_do_not_run_as_code(browser: Browser, tmp_path: Path) -> None:
    evil = (
        "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
    )
    write_report(comparison([evil, "random"], game=evil), tmp_path / "evil.html")
    it = opened(browser, tmp_path / "evil.html")
    assert it.page.title() != "owned"
    assert it.page.locator("img").count() == 0
    assert it.complaints == []
    assert [each for each in it.page.evaluate(DRAWN) if not each[1] or each[2] < 2] == []
