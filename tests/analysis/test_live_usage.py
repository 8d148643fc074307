"""How busy the nodes of a live search were: charts of it, and averages that keep the integral."""

import numpy as np
import pytest
from analysis_live import large, live, measured, samples, usage_of
from analysis_runs import hand_made
from hypothesis import given
from hypothesis import strategies as st

from simsched.analysis.usage import BINS, PANELS, Use, use_of
from simsched.analysis.wording import bytes_of
from simsched.results import Usage


def test_each_node_has_a_panel_with_its_name_and_mean() -> None:
    figure = usage_of(live(), "cpu")
    said = [each.text for each in figure.layout.annotations]
    assert said == ["<b>node 0, GPU 0</b>  mean 50 %", "<b>node 1, GPU 1</b>  mean 51 %"]
    shown = [trace for trace in figure.data if trace.hoverinfo != "skip"]
    assert [trace.yaxis for trace in shown] == ["y", "y2"]
    for node, trace in enumerate(shown):
        assert set(trace.y[:-1]) == {50.0 + node}
        assert (trace.x[0], trace.x[-1]) == (0, 100)
        assert trace.customdata[0] == f"{50 + node} %"
    memory = usage_of(live(), "memory")
    assert memory.layout.annotations[1].text == "<b>node 1, GPU 1</b>  mean 2 GB"
    assert memory.layout.yaxis.ticktext == ("1 GB", "2 GB")
    assert usage_of(live(), "cpu").layout.yaxis.ticktext == ("50 %", "100 %")


def test_a_node_without_samples_says_so() -> None:
    given = live(usage=samples(1, 100.0, every_s=1.0))
    said = [each.text for each in usage_of(given, "gpu").layout.annotations]
    assert said[1] == "<b>node 1, GPU 1</b>  not sampled"


def test_time_without_samples_is_a_gap() -> None:
    given = live(usage=samples(2, 100.0, every_s=1.0, gap=(40.0, 60.0)))
    (trace, _) = [trace for trace in usage_of(given, "cpu").data if trace.hoverinfo != "skip"]
    absent = [at for at, value in zip(trace.x, trace.y, strict=True) if value is None]
    assert absent == [40.0, 100.0]
    assert 60.0 in trace.x
    assert not [at for at in trace.x if 40 < at < 60]


def test_many_nodes_are_a_picture_and_very_many_are_cut() -> None:
    assert len(usage_of(large(PANELS), "cpu").data) == 2 * PANELS
    figure = usage_of(large(40), "gpu")
    (cells,) = figure.data
    assert cells.type == "heatmap"
    assert cells.z.shape == (40, BINS)
    assert [set(row) for row in cells.z.tolist()] == [{20.0 + node} for node in range(40)]
    figure = usage_of(large(300, usage=samples(300, 1000.0, every_s=100.0)), "cpu")
    assert figure.data[0].z.shape[0] == 256
    assert "The first 256 of 300 nodes are shown" in figure.layout.title.subtitle.text
    # A gap is left open.
    end_s = large(20).runs[0].wall_time_s
    gap = (0.4 * end_s, 0.6 * end_s)
    figure = usage_of(large(20, usage=samples(20, end_s, every_s=end_s / 1000, gap=gap)), "cpu")
    absent = np.isnan(figure.data[0].z[0])
    assert 0.19 < absent.mean() < 0.21
    assert absent[BINS // 2]


def test_long_series_are_averaged_exactly() -> None:
    given = live(usage=samples(2, 100.0, every_s=0.01))
    figure = usage_of(given, "cpu")
    assert all(len(trace.x) <= BINS + 3 for trace in figure.data)
    assert figure.layout.annotations[0].text.endswith("mean 50 %")


SAMPLES = st.lists(
    st.tuples(st.floats(0.01, 20), st.floats(0, 5), st.floats(0, 100)), min_size=1, max_size=40
)


@given(SAMPLES, st.integers(1, 50))
def test_averages_keep_the_integral_over_what_was_sampled(
    drawn: list[tuple[float, float, float]], bins: int
) -> None:
    length_s, gap_s, value = (np.array(each) for each in zip(*drawn, strict=True))
    to_s = (length_s + gap_s).cumsum()
    use = Use(to_s - length_s, to_s, value)
    end_s = float(to_s[-1])
    averaged = use.averaged(end_s, bins)
    assert averaged.value.min() >= value.min() - 1e-6
    assert averaged.value.max() <= value.max() + 1e-6
    assert len(averaged.value) <= bins
    if bins == 1:
        assert averaged.mean == pytest.approx(use.mean, abs=1e-6)
    # A bin knows what was sampled in it, and nothing else.
    for from_s, until_s, mean in zip(*averaged, strict=True):
        inside_s = np.clip(np.minimum(use.to_s, until_s) - np.maximum(use.from_s, from_s), 0, None)
        assert mean == pytest.approx((inside_s * value).sum() / inside_s.sum(), abs=1e-4)


def test_samples_are_put_in_order_and_end_with_the_search() -> None:
    run = hand_made()
    raw = (
        Usage(at_s=30.0, node=0, over_s=10.0, cpu_percent=3.0),
        Usage(at_s=10.0, node=0, over_s=12.0, cpu_percent=1.0),  # from before the start
        Usage(at_s=20.0, node=1, over_s=10.0, cpu_percent=9.0),
        Usage(at_s=25.0, node=0, over_s=10.0, cpu_percent=None),
        Usage(at_s=35.0, node=0, over_s=10.0, cpu_percent=4.0),  # overlaps by 5 s
        Usage(at_s=105.0, node=0, over_s=10.0, cpu_percent=5.0),  # half after the end
        Usage(at_s=115.0, node=0, over_s=10.0, cpu_percent=6.0),
    )
    use = use_of(measured(run, usage=raw), 0, "cpu", 100.0)
    assert use.from_s.tolist() == [0.0, 20.0, 30.0, 95.0]
    assert use.to_s.tolist() == [10.0, 30.0, 35.0, 100.0]
    assert use.value.tolist() == [1.0, 3.0, 4.0, 5.0]
    assert use.mean == pytest.approx((10 + 30 + 20 + 25) / 30)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (950, "950 B"), (12_345_678, "12.3 MB"), (1.3e9, "1.30 GB"), (2e9, "2 GB"),
     (999_600, "1.00 MB"), (1.4e11, "140 GB")],
)  # fmt: skip
def test_bytes(value: float, text: str) -> None:
    assert bytes_of(value) == text
