"""The published figure's setting: 16 trials, 6 nodes, 4 phases; what preemption costs."""

import pytest
from worlds import ALL, traces

from simsched import simulate
from simsched.results import RunResult

NEVER_PREEMPT = ("hypertrick", "random", "median-stopping", "asha-stop")
SETTING = {"nodes": 6, "workers": 16, "phases": 4, "schedulers": ALL}
RECORDED = traces(16, 40, ends=("complete",) * 6 + ("diverged", "censored"))


@pytest.fixture(scope="module")
def free() -> dict[str, RunResult]:
    return {run.scheduler: run for run in simulate(RECORDED, **SETTING).runs}


@pytest.fixture(scope="module")
def paid() -> dict[str, RunResult]:
    result = simulate(RECORDED, save_s=0.7, load_s=0.4, **SETTING)
    return {run.scheduler: run for run in result.runs}


@pytest.mark.parametrize("scheduler", ALL)
def test_save_and_load_time_is_exactly_what_was_saved_and_loaded(
    paid: dict[str, RunResult], scheduler: str
) -> None:
    run = paid[scheduler]
    assert round(run.node_seconds["save"] * 1e6) == run.saves * 700_000
    assert round(run.node_seconds["load"] * 1e6) == run.loads * 400_000
    assert (run.saves > 0) == (scheduler not in NEVER_PREEMPT)
    assert (run.loads > 0) == (scheduler not in NEVER_PREEMPT)
    assert (run.preemptions > 0) == (scheduler not in NEVER_PREEMPT)


@pytest.mark.parametrize("scheduler", NEVER_PREEMPT)
def test_who_never_preempts_does_not_care_what_it_costs(
    free: dict[str, RunResult], paid: dict[str, RunResult], scheduler: str
) -> None:
    assert free[scheduler] == paid[scheduler]


@pytest.mark.parametrize("scheduler", sorted(set(ALL) - set(NEVER_PREEMPT)))
def test_who_preempts_takes_longer(
    free: dict[str, RunResult], paid: dict[str, RunResult], scheduler: str
) -> None:
    assert paid[scheduler].wall_time_s > free[scheduler].wall_time_s
    assert free[scheduler].node_seconds["save"] == 0


def test_gantt_kinds(paid: dict[str, RunResult]) -> None:
    kinds = {name: {interval.kind for interval in paid[name].timeline.intervals} for name in ALL}
    assert {"save", "load"} <= kinds["successive-halving"]
    assert kinds["hypertrick"] <= {"train", "idle"}


def test_a_worker_start_costs_once_an_attempt() -> None:
    runs = simulate(RECORDED, start_s=0.25, **SETTING).runs
    for run in runs:
        attempts = {i.attempt for i in run.timeline.intervals if i.attempt >= 0}
        assert round(run.node_seconds["start"] * 1e6) == len(attempts) * 250_000
