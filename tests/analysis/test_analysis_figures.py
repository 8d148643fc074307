"""Figures against the runs they are made of: nothing is lost, nothing is made up."""

import itertools
import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from analysis_runs import KNOWN, comparison, hand_made, search, settings

from simsched.analysis.bars import Drawn, Sampled, drawable
from simsched.analysis.figures import best_so_far, curves, gantt, sweep, utilization
from simsched.analysis.plotting import time_unit
from simsched.analysis.series import series
from simsched.results import Comparison, RunResult
from simsched.timeline import KINDS, US_PER_S

LARGE = search(nodes=128, workers=1000, phases=27)
BUSY = search(nodes=128, workers=1000, phases=27, preempting=True)


def bars(figure: go.Figure) -> dict[str, Any]:
    """The bar trace of each kind, without the legend's."""
    return {
        trace.name: trace
        for trace in figure.data
        if trace.type == "bar" and trace.showlegend is False
    }


@pytest.mark.parametrize("run", [hand_made(), search(preempting=True)], ids=["hand", "search"])
def test_the_bars_of_a_gantt_chart_are_the_node_seconds(run: RunResult) -> None:
    figure = gantt(run, settings())
    unit_s = time_unit(run.wall_time_s).seconds
    drawn = {kind: math.fsum(trace.x) * unit_s for kind, trace in bars(figure).items()}
    spent = {k: s for k, s in run.node_seconds.items() if s and k != "idle"}
    # Drawn to a millionth of the axis, far finer than a pixel.
    assert drawn == pytest.approx(spent, rel=1e-3)
    for kind, trace in bars(figure).items():
        starts = sorted(
            (i.node, i.start_us / US_PER_S) for i in run.timeline.intervals if i.kind == kind
        )
        got = sorted(zip(trace.y.tolist(), (trace.base * unit_s).tolist(), strict=True))
        assert [node for node, _ in got] == [node for node, _ in starts]
        assert [at for _, at in got] == pytest.approx([at for _, at in starts], abs=1e-3)


def test_a_trial_has_the_same_colour_in_all_charts_and_kinds() -> None:
    seen: dict[str, set[str]] = {}
    for run in (search(), search("asha", seed=5, preempting=True), hand_made()):
        for trace in bars(gantt(run, settings())).values():
            for row, color in zip(trace.customdata, trace.marker.color, strict=True):
                seen.setdefault(row[0], set()).add(color)
    assert {len(colors) for colors in seen.values()} == {1}
    assert len({color for colors in seen.values() for color in colors}) == len(seen) == 16


def test_kinds_are_told_apart_by_pattern_and_have_legend_entries() -> None:
    figure = gantt(hand_made(), settings())
    patterns = {kind: trace.marker.pattern.shape for kind, trace in bars(figure).items()}
    assert patterns == {"train": "", "start": ".", "save": "/", "load": "\\", "wait": "-"}
    entries = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert sorted(entries) == ["best score", "load", "save", "start", "train", "wait"]


def test_what_a_bar_says() -> None:
    figure = gantt(hand_made(), settings(phases=2))
    said = {kind: [list(row) for row in trace.customdata] for kind, trace in bars(figure).items()}
    first = "2\u00a0500 episodes (phase 1 of 2)"
    second = "5\u00a0000 episodes (phase 2 of 2)"
    assert said["train"] == [
        ["0", "finished", f"to {first}<br>score 100.0", "5.0 s", "25.0 s", "20.0 s"],
        ["2", "diverged", f"to {first}<br>diverged", "35.0 s", "1 m 15 s", "40.0 s"],
        ["1", "stopped", f"to {first}<br>score 50.00", "5.0 s", "35.0 s", "30.0 s"],
        ["0", "finished", f"to {second}<br>score 300.0", "1 m 00 s", "1 m 35 s", "35.0 s"],
    ]
    assert said["save"] == [["0", "finished", f"at {first}", "25.0 s", "30.0 s", "5.0 s"]]
    assert said["load"] == [["0", "finished", f"from {first}", "50.0 s", "1 m 00 s", "10.0 s"]]
    assert said["start"][0][2] == "from scratch"


def test_the_star_marks_where_the_best_score_was_reported() -> None:
    (star,) = [trace for trace in gantt(hand_made(), settings()).data if trace.type == "scatter"]
    assert (list(star.x), list(star.y)) == ([95.0], [1])
    silent = hand_made(best_score=None, best_trial=None, time_to_best_s=None)
    assert all(trace.type == "bar" for trace in gantt(silent, settings()).data)


def test_charts_can_share_a_time_axis() -> None:
    ranges = {
        tuple(gantt(run, settings(), end_s=7200.0).layout.xaxis.range)
        for run in (search(), search("asha", seed=3))
    }
    assert len(ranges) == 1
    assert ranges.pop()[1] == pytest.approx(120, rel=0.01)


def test_many_intervals_are_merged_into_bars_and_it_is_said() -> None:
    limit = 3000
    drawn = drawable(LARGE.timeline, end_us=LARGE.timeline.end_us, limit=limit)
    assert isinstance(drawn, Drawn)
    kept, before = drawn.bars, len(LARGE.timeline.intervals)
    assert len(kept.node) <= limit < before
    assert f"{len(kept.node):,}".replace(",", "\u00a0") + " bars" in drawn.note
    train = kept.kind == KINDS.index("train")
    total_s = float((kept.end_us - kept.start_us)[train].sum()) / US_PER_S
    # What is left out are waits of 0.4 s, which merging counts to the bar around them.
    assert total_s == pytest.approx(LARGE.node_seconds["train"], rel=0.01)
    assert len(gantt(LARGE, settings(), bars=limit).to_json()) < 1_500_000


def test_too_many_intervals_are_sampled_and_it_is_said() -> None:
    sampled = drawable(BUSY.timeline, end_us=BUSY.timeline.end_us, limit=1000)
    assert isinstance(sampled, Sampled)
    instants = sampled.kind.shape[1]
    assert sampled.kind.shape == sampled.trial.shape == (128, instants)
    assert f"{instants} instants" in sampled.note
    assert "too many" in sampled.note
    share = float(np.mean(sampled.kind == KINDS.index("train")))
    assert share == pytest.approx(BUSY.utilization, abs=0.02)
    for each in BUSY.timeline.intervals[::97]:
        inside = [
            i for i in range(instants)
            if each.start_us <= (i + 0.5) * sampled.every_us < each.end_us
        ]  # fmt: skip
        assert set(sampled.kind[each.node, inside].tolist()) <= {KINDS.index(each.kind)}
        if each.trial >= 0:
            assert set(sampled.trial[each.node, inside].tolist()) <= {each.trial}
    figure = gantt(BUSY, settings(), bars=1000)
    assert [trace.type for trace in figure.data[:2]] == ["heatmap", "heatmap"]
    assert len(figure.to_json()) < 1_500_000


def test_few_intervals_stay_as_they_are() -> None:
    run = search(preempting=True)
    drawn = drawable(run.timeline, end_us=run.timeline.end_us, limit=4000)
    assert isinstance(drawn, Drawn)
    assert drawn.note == ""
    assert len(drawn.bars.node) == sum(i.kind != "idle" for i in run.timeline.intervals)


def test_of_very_many_nodes_the_first_are_shown_and_it_is_said() -> None:
    run = search(nodes=600, workers=600, phases=1)
    figure = gantt(run, settings())
    assert "The first 256 of 600 nodes" in figure.layout.title.subtitle.text
    assert max(int(trace.y.max()) for trace in bars(figure).values()) == 255
    assert figure.layout.height < 1200


@pytest.mark.parametrize("run", [hand_made(), LARGE], ids=["hand", "large"])
def test_the_area_of_the_utilization_chart_is_the_utilization(run: RunResult) -> None:
    place = settings(nodes=(run.nodes,), workers=(run.workers,))
    figure = utilization(Comparison(place, (run,)))
    for trace, part in ((figure.data[0], run.occupancy), (figure.data[1], run.utilization)):
        hours = np.asarray(trace.x) * time_unit(run.wall_time_s).seconds
        area = float(np.sum(np.diff(hours) * np.asarray(trace.y)[:-1]))
        assert area / run.wall_time_s == pytest.approx(part, rel=1e-6)
        assert len(trace.x) <= 482


def test_utilization_has_a_panel_per_scheduler_and_marks_approximate_ones() -> None:
    given = comparison(KNOWN)
    figure = utilization(given)
    names = [annotation.text for annotation in figure.layout.annotations]
    assert len(names) == 6
    assert "pbt (approximate)" in names[3]
    assert {trace.yaxis for trace in figure.data} == {"y", "y2", "y3", "y4", "y5", "y6"}
    domains = [figure.layout[f"yaxis{n}"].domain for n in ("", 2, 3, 4, 5, 6)]
    assert all(low[0] >= high[1] for low, high in itertools.pairwise(domains))


def test_best_so_far_ends_at_the_best_score_and_the_searchs_end() -> None:
    given = comparison(KNOWN[:3])
    figure = best_so_far(given)
    assert len(figure.data) == 3
    for trace, run in zip(figure.data, given.runs, strict=True):
        assert trace.y[-1] == run.best_score
        assert trace.x[-1] * 60 == pytest.approx(run.wall_time_s)
        assert trace.line.shape == "hv"


def test_best_so_far_over_replications_is_their_mean() -> None:
    given = comparison(["asha"], replications=4)
    thin, thick = best_so_far(given).data
    assert thin.y[-1] == given.runs[0].best_score
    assert thick.y[-1] == pytest.approx(np.mean([run.best_score for run in given.runs]))
    assert thin.line.width < thick.line.width


def test_a_figure_shows_the_cluster_it_is_asked_for() -> None:
    given = comparison(["asha", "random"], nodes=(2, 8))
    ends = {nodes: best_so_far(given, nodes=nodes).data[0].x[-1] for nodes in (2, 8)}
    spans = {run.nodes: run.wall_time_s / 60 for run in given.runs if run.scheduler == "asha"}
    assert ends == pytest.approx(spans)


def test_learning_curves_have_every_score_once_and_a_mark_per_trial() -> None:
    run = search(nodes=4, workers=40, seed=2)
    figure = curves(run, settings())
    fates = {trial.fate for trial in run.trials}
    assert {"finished", "stopped", "diverged"} <= fates
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines"}
    ends = {trace.name: trace for trace in figure.data if trace.mode == "markers"}
    assert set(ends) == fates
    for fate in fates:
        trials = [trial for trial in run.trials if trial.fate == fate]
        scores = [m.score for trial in trials for m in trial.curve if m.score is not None]
        assert [y for y in lines[fate].y if y is not None] == scores
        assert len(ends[fate].x) == sum(
            any(m.score is not None for m in trial.curve) for trial in trials
        )
    assert len({trace.marker.color for trace in ends.values()}) == len(fates)


def test_trials_that_diverged_before_any_score_are_counted() -> None:
    text = curves(hand_made(), settings()).layout.title.subtitle.text
    assert text == (
        "3 trials: 1 finished, 1 stopped, 1 diverged; 1 trial diverged before the first score."
    )


def test_a_sweep_has_means_and_intervals_at_each_number_of_nodes() -> None:
    given = comparison(["asha", "pbt"], nodes=(2, 4, 16), replications=3)
    figure = sweep(given, "utilization")
    assert [trace.name for trace in figure.data] == ["asha", "pbt (approximate)"]
    for trace in figure.data:
        assert list(trace.x) == [2, 4, 16]
        for nodes, mean, half in zip(trace.x, trace.y, trace.error_y.array, strict=True):
            values = [
                run.utilization
                for run in given.runs
                if run.nodes == nodes and run.scheduler == trace.name.split()[0]
            ]
            assert mean == pytest.approx(np.mean(values))
            assert half == pytest.approx(4.30265273 * np.std(values, ddof=1) / 3**0.5, rel=1e-6)
    assert figure.layout.xaxis.type == "log"


def test_a_sweep_over_both_has_a_line_for_each_number_of_trials() -> None:
    given = comparison(["asha"], nodes=(2, 4), workers=(8, 16))
    figure = sweep(given, "node_hours")
    assert [trace.name for trace in figure.data] == ["asha, 8 trials", "asha, 16 trials"]
    assert figure.data[0].line.dash != figure.data[1].line.dash
    by_trials = sweep(comparison(["asha"], workers=(8, 16, 32)), "wall_time")
    assert list(by_trials.data[0].x) == [8, 16, 32]
    assert by_trials.layout.xaxis.title.text == "trials"


def test_names_cannot_write_html_into_a_figure() -> None:
    given = comparison(["<b>bold</b>&"])
    run = given.runs[0]
    for figure in (gantt(run, given.settings), best_so_far(given), utilization(given)):
        text = figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">")
        text = text.replace("\\u002f", "/").replace("\\u0026", "&")
        assert "<b>bold" not in text
        assert "&lt;b&gt;bold&lt;/b&gt;&amp;" in text
        assert "&amp;lt;" not in text


def test_a_run_that_took_no_time_can_be_drawn() -> None:
    run = search(nodes=2, workers=2, phases=1)
    empty = type(run.timeline)(2, 0, [])
    still = search(nodes=2, workers=2, phases=1, wall_time_s=0.0)
    still = type(still)(**{name: getattr(still, name) for name in still.__struct_fields__}
                        | {"timeline": empty, "time_to_best_s": 0.0})  # fmt: skip
    figure = gantt(still, settings())
    assert bars(figure) == {}
    assert len(series(still).value) == 0
    assert len(utilization(Comparison(settings(), (still,))).data) == 2


def test_a_chart_of_one_replication_of_several_says_which() -> None:
    several = settings(replications=3)
    run = search(replication=2)
    assert "replication 2" in gantt(run, several).layout.title.subtitle.text
    assert "Replication 2." in curves(run, several).layout.title.subtitle.text
    assert "eplication" not in gantt(run, settings()).layout.title.subtitle.text
    over_time = utilization(comparison(["asha"], replications=2))
    assert "Replication 0." in over_time.layout.title.subtitle.text
