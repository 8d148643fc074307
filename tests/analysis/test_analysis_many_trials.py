"""Charts of very many trials: as large as those of some, and they say what is left out."""

import numpy as np
import pytest
from analysis_runs import search, settings

from simsched.analysis import learning
from simsched.analysis.figures import curves, gantt
from simsched.analysis.palette import TRIAL_COLORS, trial_color

RUN = search(nodes=20, workers=500, phases=4)


def test_a_sampled_schedule_has_a_colour_scale_that_does_not_grow() -> None:
    figure = gantt(RUN, settings(), bars=50)
    cells = figure.data[0]
    assert cells.type == "heatmap"
    assert len(cells.colorscale) == 2 * TRIAL_COLORS
    shown = np.asarray(cells.customdata)  # hovering names the trial itself
    assert np.nanmax(shown) > TRIAL_COLORS
    scale = [color for _, color in cells.colorscale[::2]]
    for trial, colour in {(t, z) for t, z in zip(shown.flat, cells.z.flat, strict=True) if t >= 0}:
        assert scale[int(colour)] == trial_color(int(trial))


def test_few_of_very_many_trials_are_drawn_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "TRIALS", 100)
    figure = curves(RUN, settings())
    assert "500 trials" in figure.layout.title.subtitle.text
    assert "one trial in 5 is drawn" in figure.layout.title.subtitle.text
    names = {f"trial {trial}" for trial in range(0, 500, 5)}
    found = {text for trace in figure.data for text in trace.customdata or () if text}
    assert found <= names
    assert len(found) > 90
    assert any(trace.hovertemplate and "best" in trace.hovertemplate for trace in figure.data)
