"""The Gantt charts of unreliable clusters: nodes named by kind, and kinds of time told apart."""

import json
import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from analysis_cluster import FULL, on, run_of
from analysis_runs import settings

import simsched.analysis.report as report_module
from simsched.analysis import report_html
from simsched.analysis.bars import drawable
from simsched.analysis.cluster_words import groups
from simsched.analysis.figures import gantt
from simsched.analysis.palette import DARK, DOWN, FILLS, ON_TRIAL, TRIAL_COLORS, trial_color
from simsched.cluster import Fleet, NodeKind
from simsched.results import Comparison, RunResult, Settings
from simsched.timeline import KINDS, US_PER_S, Kind


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Plotly's five megabytes out."""
    monkeypatch.setattr(report_module, "get_plotlyjs", lambda: "/* plotly.js */")


@dataclass
class Seen:
    """What a Gantt chart says of its nodes."""

    ticks: dict[int, str] = field(default_factory=dict)
    hovers: dict[int, str] = field(default_factory=dict)


def seen(given: Settings, run: RunResult) -> Seen:
    figure = gantt(run, given)
    found = Seen(dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True)))
    for trace in figure.data:
        if trace.type == "bar" and trace.customdata is not None:
            for node, row in zip(trace.y, trace.customdata, strict=True):
                text = trace.hovertemplate.replace("%{y}", str(node))
                found.hovers[int(node)] = re.sub(
                    r"%{customdata\[(\d)\]}", lambda match, row=row: str(row[int(match[1])]), text
                )
    return found


def test_rows_and_hovers_name_the_kind_where_there_are_several() -> None:
    kinds = NodeKind(name="own", count=2), NodeKind(name="a long <name>", count=8)
    given = on(Fleet(nodes=kinds))
    found = seen(given, run_of())
    assert found.ticks == {
        0: "own 0", 1: "1", 2: "a long &lt;n… 2", **{node: str(node) for node in range(3, 10)},
    }  # fmt: skip
    assert set(found.hovers) == set(range(9))
    assert all("(own)" in found.hovers[node] for node in (0, 1))
    assert all("(a long &lt;name&gt;)" in found.hovers[node] for node in range(2, 9))
    figure = gantt(run_of(), given)
    assert [line.y0 for line in figure.layout.shapes if line.y0 == line.y1] == [1.5]
    assert figure.layout.margin.l > 52


def test_one_kind_needs_no_name() -> None:
    given = on(Fleet(nodes=(NodeKind(name="own", count=10),)))
    figure = gantt(run_of(), given)
    assert groups(given) == []
    assert figure.layout.yaxis.ticktext is None
    assert figure == gantt(run_of(), settings(nodes=(10,)))


def test_samples_name_the_kind_and_lie_where_the_bars_would() -> None:
    kinds = NodeKind(name="own", count=4), NodeKind(name="spot", count=6)
    given, run = on(Fleet(nodes=kinds)), run_of()
    figure = gantt(run, given, bars=1)
    own, spot, veil = [trace for trace in figure.data if trace.type == "heatmap"]
    assert "(own)" in own.hovertemplate
    assert "(spot)" in spot.hovertemplate
    assert (own.y0, spot.y0, veil.y0) == (0, 4, 0)
    whole = drawable(run.timeline, end_us=20 * US_PER_S, limit=1)
    shown = np.concatenate([own.customdata, spot.customdata])
    np.testing.assert_array_equal(shown, np.asarray(whole[0]))
    np.testing.assert_array_equal(np.concatenate([own.z, spot.z]), whole[0] % TRIAL_COLORS)


def test_labels_of_dense_rows_leave_room_for_the_names() -> None:
    kinds = NodeKind(name="own", count=50), NodeKind(name="spot", count=150)
    fleet = Fleet(nodes=kinds)
    layout = gantt(run_of(200), on(fleet)).layout
    ticks = dict(zip(layout.yaxis.tickvals, layout.yaxis.ticktext, strict=True))
    assert (ticks[0], ticks[50]) == ("own 0", "spot 50")
    apart = np.diff(list(ticks))
    assert apart.min() * (layout.height - 140) / 200 >= 15


def colors_of(figure_json: str, kind: Kind) -> set[str]:
    data = json.loads(figure_json)["data"]
    found: set[str] = set()
    for trace in data:
        if trace.get("name") == kind:
            color = trace["marker"]["color"]
            found |= {color} if isinstance(color, str) else set(color)
    return found


def test_down_looks_as_its_legend_says_and_not_like_redo() -> None:
    run = run_of(12)
    assert {run.timeline.intervals[2 * k].kind for k in (1, 8)} == {"redo", "down"}
    assert colors_of(gantt(run, on(FULL)).to_json(), "down") == {DOWN}
    html = report_html(Comparison(on(FULL), (run,)))
    swatches = {
        kind: look for look, kind in re.findall(r'<li><span class="kind([^>]*)></span>(\w+)', html)
    }
    assert f"background:{DOWN}" in swatches["down"]
    assert "hatch-redo" in swatches["redo"]
    looks = {kind: (fill.shape, fill.solidity) for kind, fill in FILLS.items() if kind != "idle"}
    assert looks["down"] != looks["redo"]
    # Without hatching it is told from trials by its colour, which is the same on a dark page.
    assert DOWN not in DARK
    assert DOWN not in {trial_color(trial) for trial in range(TRIAL_COLORS)} | {ON_TRIAL}


def test_dense_charts_have_the_same_colour_for_down_as_their_legend() -> None:
    run = run_of(300)
    given = settings(nodes=(300,))
    html = report_html(Comparison(given, (run,)))
    (style,) = re.findall(r'<span class="kind" style="([^"]*)"></span>down', html)
    assert style == f"background:{DOWN}"
    assert colors_of(gantt(run, given).to_json(), "down") == {DOWN}
    sampled = gantt(run, given, bars=1)
    veil = [trace for trace in sampled.data if trace.type == "heatmap"][-1]
    place = KINDS.index("down") / len(KINDS)
    assert DOWN in [color for at, color in veil.colorscale if abs(at - place) < 1e-9]


def test_a_node_in_grace_is_no_trials() -> None:
    found = seen(on(FULL), run_of())
    grace = KINDS.index("grace")
    assert found.hovers[grace].startswith("<b>grace</b>")
    assert "trial" not in found.hovers[grace]
    assert colors_of(gantt(run_of(), on(FULL)).to_json(), "grace").isdisjoint(
        {trial_color(trial) for trial in range(TRIAL_COLORS)}
    )
