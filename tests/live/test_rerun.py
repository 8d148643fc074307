"""A live search simulated again: exact where all is known, close where it is measured."""

from pathlib import Path
from typing import Any

import pytest
from past_failures import cut_off, fail_once
from past_runs import COSTS, Uneven, made_traces, make_run, rewrite, run_for_real, settings_of

from simsched.events import Start
from simsched.live.past_run import read_run
from simsched.live.replaying import Replayed, replay_run
from simsched.results import run_fields

SCHEDULERS = ("hypertrick", "successive-halving", "hyperband", "asha", "pbt", "median-stopping")


def all_of(result: Any) -> dict[str, Any]:
    """A result's every figure, but which curve a trial replayed."""
    fields = run_fields(result)
    for trial, of_result in zip(fields["trials"], result.trials, strict=True):
        del trial["trace"]
        trial["curve"] = of_result.curve
    return fields | {"timeline": result.timeline}


@pytest.mark.parametrize("checkpoints", ["milestone", "scheduler"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_simulated_run_is_predicted_to_the_microsecond(
    tmp_path: Path, scheduler: str, checkpoints: Any
) -> None:
    make_run(tmp_path / "run", settings_of(scheduler, checkpoints=checkpoints))
    replayed = replay_run(tmp_path / "run")
    run, measured = replayed.run, replayed.measured
    assert run.ended == "done"
    assert run.checked == (run.result.milestones, run.result.milestones, None)
    for simulated in (replayed.predicted, replayed.retraced):
        assert all_of(simulated.result) == all_of(run.result)
        assert simulated.ended_early == 0
        agreement = replayed.agreement(simulated)
        assert (agreement.same, agreement.differences) == (run.result.milestones, [])
    assert replayed.agrees
    assert len(measured.scores) == run.result.milestones
    assert all(each.told == each.found and each.why is None for each in measured.scores)
    for kind in ("start", "save", "load"):
        if kind in measured.costs:
            cost = measured.costs[kind]  # type: ignore[index]
            assert cost.least_us == cost.mean_us == cost.most_us == COSTS[f"{kind}_s"] * 1e6
    hand_over = measured.costs["hand-over"]
    assert (hand_over.samples, hand_over.least_us, hand_over.most_us) == (
        run.result.milestones, 0, 0,
    )  # fmt: skip
    assert measured.costs["save"].samples == run.result.saves if run.result.saves else True
    assert len(measured.places["start"]) == sum(
        isinstance(command, Start) for record in run.records for command in record.commands
    )


@pytest.mark.parametrize("unit", ["steps", "episodes", "seconds", "reports"])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_every_unit_and_mode(tmp_path: Path, unit: Any, mode: Any) -> None:
    length = {"steps": 30, "episodes": 5, "seconds": 4, "reports": 5}[unit]
    settings = settings_of("hyperband", unit=unit, mode=mode, phase_length=length)
    make_run(tmp_path / "run", settings)
    replayed = replay_run(tmp_path / "run")
    assert replayed.agrees
    assert all_of(replayed.predicted.result) == all_of(replayed.run.result)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_costs_that_differ_from_place_to_place_are_retraced(tmp_path: Path, scheduler: str) -> None:
    make_run(tmp_path / "run", settings_of(scheduler), world=Uneven)
    replayed = replay_run(tmp_path / "run")
    actual, cost = replayed.run.result, replayed.measured.costs["start"]
    assert cost.least_us < cost.median_us < cost.most_us
    assert replayed.measured.costs["hand-over"].most_us > 0
    assert all_of(replayed.retraced.result) == all_of(actual)
    predicted = replayed.predicted.result
    assert predicted.wall_time_s == pytest.approx(actual.wall_time_s, rel=0.05)
    assert predicted.utilization == pytest.approx(actual.utilization, abs=0.03)
    assert predicted.wall_time_s != actual.wall_time_s


def test_a_trial_that_diverged(tmp_path: Path) -> None:
    settings = settings_of("hypertrick")
    make_run(tmp_path / "run", settings, traces=made_traces(settings, diverged=[1, 4]))
    replayed = replay_run(tmp_path / "run")
    fates = {each.trial: each.fate for each in replayed.run.result.trials}
    assert fates[1] == fates[4] == "diverged"
    assert [each.found for each in replayed.measured.scores if each.trial == 1][-1] is None
    assert replayed.agrees
    assert all_of(replayed.predicted.result) == all_of(replayed.run.result)


def test_a_run_that_is_not_over_is_compared_up_to_its_last_event(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("successive-halving"))
    whole = read_run(folder)
    middle = len(whole.records) // 2
    rewrite(folder, lambda line, record: record if line < middle else None)
    replayed = replay_run(folder)
    actual = replayed.run.result
    assert replayed.run.ended == "unfinished"
    assert 0 < actual.milestones < whole.result.milestones
    for simulated in (replayed.predicted, replayed.retraced):
        assert simulated.result.wall_time_s == actual.wall_time_s
        assert simulated.result.node_seconds == actual.node_seconds
        assert simulated.result.milestones == actual.milestones
        assert replayed.agreement(simulated).differences == []


@pytest.mark.parametrize("scheduler", ["random", "hyperband"])
def test_a_run_that_was_cut_off_is_cut_off_again(tmp_path: Path, scheduler: str) -> None:
    make_run(tmp_path / "whole", settings_of(scheduler))
    whole = read_run(tmp_path / "whole")
    limit_s = round(whole.result.wall_time_s * 0.7, 6)
    settings = settings_of(scheduler, max_time_s=limit_s)
    cut_off(tmp_path / "whole", tmp_path / "run", settings, whole.records)
    replayed = replay_run(tmp_path / "run")
    actual = replayed.run.result
    assert (replayed.run.ended, actual.wall_time_s) == ("max-time", limit_s)
    assert {each.fate for each in actual.trials} >= {"censored"}
    assert actual.milestones < whole.result.milestones
    assert all_of(replayed.retraced.result) == all_of(actual)
    assert all_of(replayed.predicted.result) == all_of(actual)


def test_failures_are_told_apart(tmp_path: Path) -> None:
    """A worker of trial 1 fails in its second phase, is started again and trains it again."""
    folder = tmp_path / "run"
    settings = settings_of("random", nodes=1, workers=2, phases=2)
    fail_once(folder, settings)
    replayed = replay_run(folder)
    lost, measured = replayed.measured.lost, replayed.measured
    assert replayed.run.checked.difference is None
    assert (lost.failures, lost.interruptions) == (1, 0)
    assert lost.node_us == 1_500_000 + 250_000 + 3_000_000  # start, load, redo
    assert (1, 60) not in measured.places["hand-over"]
    assert replayed.run.result.node_seconds["redo"] == 3.0
    assert replayed.predicted.result.node_seconds["redo"] == 0.0
    assert replayed.predicted.result.wall_time_s < replayed.run.result.wall_time_s


@pytest.fixture(
    scope="session",
    params=[
        "hypertrick",
        "asha",
        "pbt",
        pytest.param("successive-halving", marks=pytest.mark.long),
        pytest.param("hyperband", marks=pytest.mark.long),
    ],
)
def real(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Replayed:
    """A small search with real processes."""
    pytest.importorskip("psutil")
    return replay_run(run_for_real(tmp_path_factory.mktemp("real"), request.param))


def test_a_real_search_is_retraced(real: Replayed) -> None:
    actual, retraced = real.run.result, real.retraced
    assert real.agrees, (real.run.checked, real.wrong_scores)
    assert real.run.checked.decisions == actual.milestones > 4
    assert real.agreement(retraced).differences == []
    assert retraced.result.wall_time_s == pytest.approx(actual.wall_time_s, rel=0.01)
    assert retraced.result.utilization == pytest.approx(actual.utilization, abs=0.01)


def test_a_real_search_is_predicted(real: Replayed) -> None:
    """Roughly: the machine of a test is busy with others, so starts differ by factors."""
    actual, predicted = real.run.result, real.predicted.result
    assert real.measured.costs["start"].least_us > 0
    places, costs = real.measured.places, real.measured.costs
    uneven_s = 1e-6 * sum(
        abs(us - costs[kind].mean_us) for kind, found in places.items() for us in found.values()
    )  # of which nobody can predict when it falls due
    off_s = abs(predicted.wall_time_s - actual.wall_time_s)
    assert off_s < actual.wall_time_s / 2 + uneven_s
    off = abs(predicted.utilization - actual.utilization)
    assert off < 0.15 + uneven_s / actual.wall_time_s
