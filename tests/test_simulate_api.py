"""`simsched.simulate` from Python: natural arguments work, others are named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worlds import traces

import simsched
from simsched.schedulers import REGISTRY, InPlace
from simsched.traces import Metadata, TraceError, TraceSet

RECORDED = traces(8, 20)


def test_natural_arguments(tmp_path: Path) -> None:
    result = simsched.simulate(
        RECORDED, nodes=np.int64(2), workers=np.array([4, 8]), schedulers="random",
        journals=str(tmp_path),
    )  # fmt: skip
    assert [(run.nodes, run.workers) for run in result.runs] == [(2, 4), (2, 8)]
    assert len(list(tmp_path.iterdir())) == 2
    figure = simsched.figures.gantt(result.runs[0], result.settings)
    drawn = [len(trace.base) for trace in figure.data if getattr(trace, "base", None) is not None]
    assert sum(drawn) >= 4 * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"phases": 4.0}, "phases=4.0 must be a whole number"),
        ({"seed": 1.5}, "seed=1.5 must be a whole number"),
        ({"phase_length": 0}, "phase-length=0 must be at least 1"),
        ({"nodes": []}, "nodes: nothing: name at least one"),
        ({"schedulers": []}, "scheduler: nothing: name at least one"),
        ({"schedulers": ["asha", "asha:eta=2"]}, "scheduler: asha, asha:eta=2: name at least one"),
        ({"schedulers": ["hyperband:eta=1.00001"]}, "gives more than 200 brackets"),
        ({"unit": "epochs"}, "unit='epochs' must be one of"),
        ({"workers": 9}, "workers=9 is more than the 8 recorded trials of made-up"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(simsched.SimschedError) as error:
        simsched.simulate(RECORDED, **options)
    assert message in str(error.value)


def test_a_set_made_in_memory_is_checked() -> None:
    first = RECORDED.traces[0]
    backwards = type(first)(
        trial=0, hparams=first.hparams, end="complete", seconds=first.seconds[::-1],
        steps=first.steps, episodes=first.episodes, score=first.score,
    )  # fmt: skip
    with pytest.raises(TraceError, match="seconds"):
        simsched.simulate(TraceSet("mine", None, Metadata(ends={"0": "complete"}), (backwards,)))


def test_curves_without_hyperparameters_leave_pbt_out() -> None:
    bare = tuple(type(trace)(**{**vars_of(trace), "hparams": {}}) for trace in RECORDED.traces)
    recorded = TraceSet("bare", None, Metadata(ends={}), bare)
    assert simsched.simulate(recorded).settings.schedulers == (
        "successive-halving", "hyperband", "hypertrick",
    )  # fmt: skip
    with pytest.raises(simsched.SimschedError, match=r"pbt changes hyperparameters, but bare has"):
        simsched.simulate(recorded, schedulers=["pbt"])


def vars_of(trace: Any) -> dict[str, Any]:
    return {name: getattr(trace, name) for name in trace.__dataclass_fields__}


@pytest.mark.parametrize(
    "scheduler", ["asha:base=9", "asha-stop:base=9", "pbt:interval=9", "median-stopping:grace=9"]
)
def test_a_setting_that_stops_nothing_is_noted(scheduler: str) -> None:
    run = simsched.simulate(RECORDED, schedulers=scheduler, phases=4).runs[0]
    assert {trial.fate for trial in run.trials} == {"finished"}
    (note,) = run.notes
    assert "=9 is not below the 4 phases, so nothing is stopped early" in note


class Mine(InPlace):
    name = "mine"
    summary = "for this test"

    def goes_on(self, place: int, trial: int, score: float | None) -> bool:
        return trial % 2 == 0


def test_a_registered_scheduler_runs_on_several_cores_too() -> None:
    simsched.register(Mine)
    try:
        with pytest.raises(simsched.SimschedError, match="is registered already"):
            simsched.register(type("Other", (Mine,), {}))
        one = simsched.simulate(RECORDED, schedulers="mine", replications=2)
        assert simsched.simulate(RECORDED, schedulers="mine", replications=2, jobs=2) == one
    finally:
        del REGISTRY["mine"]  # the tests after this one know only what is built in
    assert [trial.fate for trial in one.runs[0].trials] == ["finished", "stopped"] * 4


def test_a_diverged_member_is_not_credited_with_what_it_did_not_train() -> None:
    recorded = traces(12, 20, seed=3, ends=("complete", "diverged"))
    run = simsched.simulate(recorded, schedulers="pbt", phases=10).runs[0]
    scored = sum(
        milestone.step - before
        for trial in run.trials
        for before, milestone in zip([0, *(m.step for m in trial.curve)], trial.curve, strict=False)
        if milestone.score is not None
    )
    assert any(m.score is None for trial in run.trials for m in trial.curve[:-1])
    assert run.completion_rate == pytest.approx(scored / (12 * 200))
    assert run.completion_rate < 1
