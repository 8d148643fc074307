"""What a report tells of its cluster, and what its captions and notes say of it."""

import msgspec
import pytest
from analysis_cluster import FULL, on, run_of
from analysis_live import live
from analysis_runs import comparison, hand_made, settings
from test_analysis_report import EVIL, Page

import simsched.analysis.report as report_module
from simsched.analysis import report_html, table
from simsched.analysis.cluster_words import LISTED, span, told
from simsched.analysis.figures import utilization
from simsched.analysis.palette import DOWN
from simsched.cluster import Costs, Fleet, Maintenance, NodeFailures, NodeKind, NodeOutage, Spot
from simsched.cluster_file import presets, read_cluster
from simsched.results import Comparison, Settings


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Plotly's five megabytes out."""
    monkeypatch.setattr(report_module, "get_plotlyjs", lambda: "/* plotly.js */")


def lines_of(given: Settings) -> dict[str, str]:
    lines = told(given)
    assert lines is not None
    both = [*lines.nodes, *lines.rest]
    assert len({name for name, _ in both}) == len(both)
    return dict(both)


def test_everything_that_a_cluster_file_can_say_is_told() -> None:
    assert lines_of(on(FULL, checkpoints="milestone+every:10m", preemption="lazy")) == {
        "2 own": (
            "nodes 0 and 1; speed 1; price 3.25 an hour; each fails every 7 d in the mean "
            "(Weibull, shape 0.7), without notice; repaired in 30 m in the mean (exponential); "
            "recorded outages: node 1 from 90 s to 3 m 20 s"
        ),
        "3 spot at first": (
            "nodes 2 to 6; speed 0.7; price 1 an hour; spot: taken back every 2 h in the mean "
            "(exponential), without notice; another one comes 5 m later; a new one needs 20 s to "
            "boot"
        ),
        "1 spare": "node 7; speed 1; free of charge; no failures",
        "Maintenance": (
            "from 5 s to 9.5 s: all spare nodes, without notice; from 5 m on: nodes 0 to 2 and 7, "
            "without notice; from 12 h to 21 h: all nodes, with 60 s notice"
        ),
        "Scaling": "from 2 m on 5 spot; from 10 m on 2 spot, with 20 s notice",
        "Store": (
            "one for all nodes, 30 MB/s; a checkpoint of 100 MB takes 3.33 s alone, and saves and "
            "loads at one time divide the bandwidth equally"
        ),
        "Stragglers": (
            "12.5 % of the starts of a worker are slow ones: training takes 3 times as long"
        ),
        "Costs": "start 10 s, hand-over of a milestone 0.1 s, beside the store's transfers",
        "Checkpoints": (
            "after every milestone that has a score, and each trial that trains every 10 m"
        ),
        "Preemption": (
            "lazy: a paused trial keeps its node, unsaved, until another trial needs it; going on "
            "there is free"
        ),
    }


def test_what_a_cluster_does_not_have_is_not_told() -> None:
    assert lines_of(on(Fleet(nodes=(NodeKind(name="GPU", count=4),)))) == {
        "4 GPU": "speed 1; no failures",
        "Costs": "none: starts, saves and loads take no time",
        "Checkpoints": "at pauses, and where the scheduler needs donors",
        "Preemption": "eager: a paused trial is saved and leaves its node at once",
    }


@pytest.mark.parametrize("name", presets())
def test_the_page_tells_all_there_is_to_know_of_the_clusters_that_come_with_it(name: str) -> None:
    fleet = read_cluster(name)
    given = Comparison(on(fleet), (run_of(fleet.size),))
    page = Page(report_html(given))
    assert "cluster" in page.ids()
    section = page.words().partition(f"cluster.toml: {fleet.size} nodes.")[2]
    section = section.partition("Best score over time")[0]
    wanted = {
        "workstation": ("2 GPU", "from 12 h to 21 h: all nodes, with 60 s notice", "load 0.5 s"),
        "server": ("8 GPU", "every 7 d", "500 MB/s", "price 2.5 an hour", "repaired in 30 m"),
        "spot-fleet": ("2 own", "6 spot", "speed 0.7", "every 2 h", "5 % of the starts", "90 s"),
    }[name]
    assert [text for text in wanted if text not in section] == []


def test_a_policy_is_told_without_a_cluster_file() -> None:
    given = on(None, preemption="lazy", node_speeds=(1.0, 0.5))
    assert lines_of(given)["6 nodes"] == "speed 1, 0.5, and over again"
    assert lines_of(given)["Preemption"].startswith("lazy: ")
    assert lines_of(given)["Costs"] == "start 4 s, save 10 s, load 10 s"
    page = Page(report_html(Comparison(given, (hand_made(),))))
    assert "cluster" in page.ids()


def test_pages_without_cluster_and_policy_and_of_live_searches_have_no_such_section() -> None:
    plain = comparison(["random", "asha"])
    searched = live()
    lazy = msgspec.structs.replace(searched.settings, preemption="lazy")
    for given in (plain, searched, Comparison(lazy, searched.runs, searched.measured)):
        html = report_html(given)
        assert "cluster" not in Page(html).ids()
        assert DOWN not in html.replace(f"--key: {DOWN}", "")
    words = Page(report_html(plain)).words()
    assert "Faint: nodes taken by starts, saves, loads and waiting." in words
    assert "is not idle: training, starts, saves, loads and waiting." in words
    assert "held" not in words
    assert "grace" not in words


def test_the_interval_of_young_and_daly_is_told_in_seconds() -> None:
    costs = Costs(save_s=2)
    spot = NodeKind(spot=Spot(mean_time_between_s=400, notice_s=0))
    fleet = Fleet(nodes=(spot,), costs=costs)
    # sqrt(2 * 2 * 400) = 40; for losses an hour apart sqrt(2 * 2 * 3600) = 120.
    words = lines_of(on(fleet, checkpoints="young"))["Checkpoints"]
    assert words.endswith("each trial that trains every 40 s: Young's interval")
    words = lines_of(on(fleet, checkpoints="young:1h"))["Checkpoints"]
    assert words.endswith("every 2 m: Young's interval for losses 1 h apart")


def test_long_lists_are_cut_and_say_so() -> None:
    windows = tuple(Maintenance(from_s=10 * k, to_s=10 * k + 5) for k in range(LISTED + 3))
    fleet = Fleet(nodes=(NodeKind(),), maintenance=windows)
    words = lines_of(on(fleet))["Maintenance"]
    assert words.count("all nodes") == LISTED
    assert words.endswith("; and 3 more windows")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.05, "0.05 s"), (119.5, "119.5 s"), (120, "2 m"), (43_200, "12 h"),
        (3_665.25, "1 h 1 m 5.25 s"), (90_000, "1 d 1 h"), (1e15, "more than 300 years"),
    ],
)  # fmt: skip
def test_times_are_told_as_they_were_given(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_names_of_kinds_and_files_are_escaped() -> None:
    kinds = NodeKind(name="<img src=x>", count=9), NodeKind(name="b&<i>")
    given = settings(cluster=Fleet(nodes=kinds), cluster_name=EVIL, nodes=(10,))
    html = report_html(Comparison(given, (run_of(),)))
    assert "<img" not in html
    assert html.count("<script") == 3
    assert "9 <img src=x>" in Page(html).words()
    assert "&lt;img src" in html


def test_captions_name_every_kind_that_counts() -> None:
    given = Comparison(on(FULL), (run_of(),))
    note = utilization(given).layout.title.subtitle.text
    assert note == (
        "Solid: share of the nodes that train. Faint: nodes taken by training again what was lost "
        "(redo), starts, saves, loads, waiting, paused trials kept in place (held) and nodes "
        "about to go (grace). The chart is of all nodes; the percentages are of those in service."
    )
    words = Page(report_html(given)).words()
    assert (
        "Node time that is not idle, of all time in service: training, training again what was "
        "lost (redo), starts, saves, loads, waiting, paused trials kept in place (held) and nodes "
        "about to go (grace)." in words
    )
    for text in ("A paused trial keeps its node", "the node will go", "out of service: not paid"):
        assert text in words


def replicated(fleet: Fleet | None) -> Comparison:
    given = comparison(["random"], nodes=(8,), replications=2, recorded_trials=16)
    changed = msgspec.structs.replace(given.settings, cluster=fleet, cluster_name="a")
    return Comparison(changed, given.runs)


@pytest.mark.parametrize(
    ("fleet", "drawn"),
    [
        (Fleet(nodes=FULL.nodes), "the moments at which nodes are lost are drawn"),
        (Fleet(nodes=(NodeKind(count=8),), stragglers=FULL.stragglers), "that are slow are drawn"),
    ],
)
def test_replications_with_other_outages_differ_in_more_than_order(
    fleet: Fleet, drawn: str
) -> None:
    text = table(replicated(fleet))
    assert "order only" not in text
    assert "random‡" in text
    (line,) = [line for line in text.splitlines() if line.startswith("‡ same trials: ")]
    assert "the order of the trials" in line
    assert drawn in line
    page = Page(report_html(replicated(fleet)))
    assert "tag-same-trials" in page.ids()
    assert "tag-order-only" not in page.ids()


def test_replications_on_a_cluster_without_chance_differ_in_order_only() -> None:
    outages = (NodeOutage(node=1, from_s=90, to_s=200),)
    recorded = NodeKind(count=8, failures=NodeFailures(outages=outages))
    for fleet in (None, Fleet(nodes=(recorded,)), Fleet(nodes=(NodeKind(count=8),))):
        assert "‡ order only: " in table(replicated(fleet))


def test_the_settings_have_the_kinds_in_short() -> None:
    page = Page(report_html(Comparison(on(FULL), (run_of(),))))
    assert (
        "Kinds of nodes 2 own, 3.25 an hour, fails every 7 d, 1 recorded outage; 3 spot, speed "
        "0.7, 1 an hour, taken back every 2 h, without notice; 1 spare Trials"
    ) in page.words().partition("Settings and notes")[2]
