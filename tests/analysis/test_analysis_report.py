"""The report as text: complete, repeatable, safe, and free of the network."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from analysis_runs import KNOWN, comparison, hand_made, settings

import simsched.analysis.report as report_module
from simsched.analysis import AnalysisError, report_html, write_report
from simsched.analysis.describe import command_line, sentence, tags
from simsched.analysis.page_charts import PLACES
from simsched.analysis.statistics import summarize
from simsched.results import Comparison

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Page(HTMLParser):
    """What a test asks of a page: its elements, ids, text, and data."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.data = ""
        self._inside: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            kind = dict(attrs).get("type") or tag
            self._inside.append(kind)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "application/json":
            self.data += data
        elif not self._inside:
            self.text.append(data)

    @property
    def charts(self) -> list[dict[str, Any]]:
        charts: list[dict[str, Any]] = json.loads(self.data)["charts"]
        return charts

    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.elements if "id" in attrs]

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Plotly's five megabytes out: the browser's tests use the real one."""
    monkeypatch.setattr(report_module, "get_plotlyjs", lambda: "/* plotly.js */")


def test_the_same_comparison_gives_the_same_bytes() -> None:
    first = report_html(comparison(KNOWN[2:4], nodes=(2, 6), replications=2))
    assert report_html(comparison(KNOWN[2:4], nodes=(2, 6), replications=2)) == first
    assert report_html(comparison(KNOWN[2:4], nodes=(2, 6), replications=2, seed=1)) != first


def test_every_chart_has_a_box_and_says_what_it_shows() -> None:
    page = Page(report_html(comparison(KNOWN[:4], nodes=(2, 6))))
    names = [chart["id"] for chart in page.charts]
    # 3 of the sweep, then for each of 2 clusters: best, utilization, 4 schedules, 4 curves.
    assert len(names) == 3 + 2 * (2 + 4 + 4)
    boxes = [each for each in page.of("div") if each.get("role") == "img"]
    assert sorted(str(each["id"]) for each in boxes) == sorted(names)
    assert all(len(each["aria-label"] or "") > 20 for each in boxes)
    assert len(page.ids()) == len(set(page.ids()))
    assert page.of("html")[0]["lang"] == "en"
    scopes = {attrs.get("scope") for attrs in page.of("th")}
    assert scopes == {"col", "row"}


def test_links_inside_the_page_lead_somewhere() -> None:
    page = Page(report_html(comparison(KNOWN, replications=2, recorded_trials=16)))
    targets = {(attrs["href"] or "") for attrs in page.of("a")}
    assert all(target.startswith("#") for target in targets)
    assert {target[1:] for target in targets} <= set(page.ids())


def test_the_page_has_the_figures_of_the_table() -> None:
    page = Page(report_html(Comparison(settings(nodes=(2,), workers=(3,)), (hand_made(),))))
    text = page.words()
    for figure in ("1 m 40 s", "62.5", "80.0", "66.7", "300.0", "1 m 35 s", "0.0556"):
        assert figure in text
    assert "Ms Pacman on 2 nodes, 3 trials" in text


def test_names_are_escaped_wherever_they_stand() -> None:
    run = hand_made(scheduler=f"x:{EVIL}", notes=(EVIL,))
    place = settings(
        game=EVIL, traces=EVIL, metric=EVIL, nodes=(2,), workers=(3,), schedulers=(run.scheduler,)
    )
    html = report_html(Comparison(place, (run,)))
    page = Page(html)
    assert "<img" not in html
    assert html.count("<script") == 3
    assert page.of("img") == []
    assert not any("onerror" in attrs for _, attrs in page.elements)
    assert page.words().count("onerror=alert(2)>\"'&") >= 5


def test_what_the_figures_rest_on_is_tagged_and_explained() -> None:
    runs = comparison(KNOWN[:4], replications=2, recorded_trials=16, synthetic=True)
    page = Page(report_html(runs))
    for name in ("synthetic", "approximate", "order-only", "intervals"):
        assert f"tag-{name}" in page.ids()
    assert "tag-recorded" not in page.ids()
    assert "tag-resampled" not in page.ids()
    assert "25.0 % of them along the donor's own curve" in page.words()
    titles = [chart for chart in page.charts if chart["id"].startswith("best")]
    assert "pbt (approximate)" in json.dumps(titles)


def test_nothing_is_loaded_from_anywhere() -> None:
    page = Page(report_html(comparison(KNOWN[:2])))
    loaded = [attrs for _, attrs in page.elements if "src" in attrs or "srcset" in attrs]
    assert loaded == []
    assert page.of("link") == []
    (policy,) = [each for each in page.of("meta") if "http-equiv" in each]
    assert "default-src 'none'" in (policy["content"] or "")
    style_and_script = "".join(
        (Path(report_module.__file__).parent / "assets" / name).read_text()
        for name in ("report.css", "report.js", "report.html")
    )
    assert not re.search(r"https?:|@import|url\(|\bfetch\(", style_and_script)


def test_colours_of_the_charts_have_partners_on_a_dark_page() -> None:
    page = Page(report_html(comparison(KNOWN, nodes=(2, 4))))
    dark = json.loads(page.data)["dark"]
    layouts = json.dumps([chart["layout"] for chart in page.charts])
    used = set(re.findall(r"#[0-9a-f]{6}", layouts))
    assert used
    assert used <= set(dark) | {"#14181f"}


def test_time_axes_of_a_place_are_one() -> None:
    page = Page(report_html(comparison(KNOWN[:4])))
    linked = [chart for chart in page.charts if chart["linked"]]
    assert len(linked) == 5
    assert len({tuple(chart["layout"]["xaxis"]["range"]) for chart in linked}) == 1


def test_more_clusters_than_the_page_holds_are_said_to_be_left_out() -> None:
    given = comparison(["random"], nodes=tuple(range(1, PLACES + 3)), workers=(4,), phases=2)
    page = Page(report_html(given))
    assert sum(name.startswith("gantt") for name in page.ids()) == PLACES
    assert f"first {PLACES} of {PLACES + 2} cluster sizes" in page.words()
    assert len(page.of("option")) == PLACES


def test_a_report_stays_small_however_much_there_is() -> None:
    given = comparison(KNOWN[:4], nodes=(64, 128), workers=(1000,), phases=9)
    assert sum(len(run.timeline.intervals) for run in given.runs) > 30_000
    assert len(report_html(given)) < 12_000_000


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"nodes": (2, 4), "workers": (8, 16), "replications": 3, "resample": True, "seed": 7},
        {"node_speeds": (1.0, 0.5), "start_s": 0.0, "save_s": 0.125, "load_s": 0.0},
        {"schedulers": ("asha:eta=3", "random"), "unit": "steps", "phases": 1},
    ],
)
def test_the_command_line_says_the_settings_again(changes: dict[str, Any]) -> None:
    from simsched.cli.simulate import simulate

    given = settings(**changes)
    words = shlex.split(command_line(given).replace("\\\n", ""))
    assert words[:2] == ["simsched", "simulate"]
    read = simulate.make_context("simulate", words[2:]).params
    assert (read["game"] or read["trace_file"]) == given.traces
    costs = tuple(read[f"{name}_cost"] or 0 for name in ("start", "save", "load"))
    assert costs == (given.start_s, given.save_s, given.load_s)
    same = (
        "nodes", "workers", "schedulers", "phases", "phase_length", "unit", "node_speeds",
        "replications", "resample", "seed",
    )  # fmt: skip
    assert {name: read[name] for name in same} == {name: getattr(given, name) for name in same}
    assert (
        command_line(given).splitlines()[2].strip(" \\")
        in Page(report_html(Comparison(given, comparison(["random"]).runs))).words()
    )


def test_the_sentence_names_schedulers_cluster_lengths_and_costs() -> None:
    given = comparison(KNOWN[:3], nodes=(2, 6), replications=4)
    assert sentence(given.settings, summarize(given)) == (
        "hypertrick, successive-halving and asha on 2 and 6 nodes, 16 trials of up to 10 phases "
        "of 2\u00a0500 episodes each, 4 replications; start 4 s, save 10 s, load 10 s."
    )


def test_tags_say_what_is_the_case() -> None:
    given = comparison(["random"], replications=3, resample=True)
    names = [tag.name for tag in tags(given.settings, summarize(given))]
    assert names == ["recorded", "resampled", "intervals"]
    run = hand_made(censored=1)
    (tag,) = tags(settings(), summarize(Comparison(settings(), (run,))))[1:]
    assert (tag.name, tag.mark) == ("censored", "†")
    assert tag.text.startswith("1 trial reached")


def test_writing_replaces_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    given = comparison(["random"])
    write_report(given, path)
    assert path.read_text() == report_html(given)
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_file_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "not there" / "report.html"
    with pytest.raises(AnalysisError, match=r"not there/report\.html: the report cannot be") as e:
        write_report(comparison(["random"]), path)
    assert "\n" not in str(e.value)
    folder = tmp_path / "folder.html"
    folder.mkdir()
    with pytest.raises(AnalysisError, match=r"folder\.html: the report cannot be written"):
        write_report(comparison(["random"]), folder)
    assert [each.name for each in tmp_path.iterdir()] == ["folder.html"]


def test_no_runs_make_no_report(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="no runs"):
        write_report(Comparison(settings(), ()), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
