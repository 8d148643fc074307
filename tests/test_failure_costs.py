"""How often nodes fail, and what a failure costs: as the formulas say."""

import math
from itertools import islice

import numpy as np
import pytest
from worlds import curve, fleet, run_on

from simsched.checkpointing import daly_s, lost_s, parse_saving, young_s
from simsched.outages import outages
from simsched.results import RunResult
from simsched.retries import Policy


@pytest.mark.parametrize("saving", ["every:20s", "young:200s", "daly:200s"])
def test_what_a_failure_costs_is_what_the_formula_says(saving: str) -> None:
    """Training that is done again, per failure, over some 4,000 failures of one long trial."""
    save_s, between_s = 2.0, 200.0
    interval_us = parse_saving(saving).interval_us(save_s, between_s)
    assert interval_us is not None
    of = fleet(
        [{"count": 40, "failures": {"mean_time_between_s": between_s}}], costs={"save_s": save_s}
    )
    curves = [curve(k, [20_000_000_000], [1.0]) for k in range(40)]
    found, world = run_on("random", curves, 1, of, policy=Policy(save_every_us=interval_us))
    assert world.lost_nodes > 3500
    expected = lost_s(interval_us / 1e6, save_s, between_s)
    assert found.node_seconds["redo"] / world.lost_nodes == pytest.approx(expected, rel=0.02)


def test_what_a_failure_costs_where_milestones_are_saved() -> None:
    """Milestones 20 s apart, a save of 2 s at each: the same formula."""
    save_s, between_s, apart_s = 2.0, 200.0, 20.0
    of = fleet(
        [{"count": 40, "failures": {"mean_time_between_s": between_s}}], costs={"save_s": save_s}
    )
    times = [round(apart_s * 1e6) * k for k in range(1, 1001)]
    curves = [curve(k, times, [1.0] * 1000) for k in range(40)]
    policy = Policy(save_at="milestone")
    found, world = run_on("random", curves, 1000, of, policy=policy)
    assert world.lost_nodes > 3500
    expected = lost_s(apart_s, save_s, between_s)
    assert found.node_seconds["redo"] / world.lost_nodes == pytest.approx(expected, rel=0.02)


def test_what_a_failure_costs_where_nothing_is_saved() -> None:
    """A failure loses all that a trial had, so it is an interval as long as the trial."""
    between_s, length_s = 200.0, 300.0
    of = fleet([{"count": 20, "failures": {"mean_time_between_s": between_s}}])
    curves = [curve(k, [round(length_s * 1e6)], [1.0]) for k in range(3000)]
    found, world = run_on("random", curves, 1, of)
    assert world.lost_nodes > 5000
    expected = lost_s(length_s, 0.0, between_s)
    assert lost_of(found) / world.lost_nodes == pytest.approx(expected, rel=0.02)


def lost_of(run: RunResult) -> float:
    """Training that came to nothing: all there was but what the trials' curves are long."""
    useful_s = sum(300.0 for trial in run.trials if trial.fate == "finished")
    return run.node_seconds["train"] + run.node_seconds["redo"] - useful_s


def test_the_formulas_where_they_are_known() -> None:
    assert young_s(2.0, 400.0) == 40.0
    # Daly (2006): for small C/M the higher order adds to Young's, less C.
    assert daly_s(1e-9, 1.0) == pytest.approx(young_s(1e-9, 1.0), rel=1e-4)
    assert daly_s(5.0, 2.0) == 2.0
    # Saves that cost nothing: half an interval is lost where failures are rare.
    assert lost_s(1.0, 0.0, 1e5) == pytest.approx(0.5, rel=1e-4)
    # The interval with the least overhead, found by search, is near Daly's.
    save, mean = 5.0, 300.0

    def overhead(interval: float) -> float:  # Daly's total time per unit of work, up to a factor
        return math.expm1((interval + save) / mean) / interval

    best = min(np.linspace(10, 120, 2201), key=overhead)
    assert daly_s(save, mean) == pytest.approx(best, rel=0.01)


@pytest.mark.parametrize(("distribution", "shape"), [("exponential", 1.0), ("weibull", 0.6),
                                                     ("weibull", 2.0)])  # fmt: skip
def test_times_between_failures_have_their_mean(distribution: str, shape: float) -> None:
    failures = {"mean_time_between_s": 50.0, "distribution": distribution, "shape": shape,
                "repair_s": 10.0, "repair": "exponential"}  # fmt: skip
    of = fleet([{"failures": failures}])
    ups, downs, back = [], [], 0
    for outage in islice(outages(of, 0, 7), 20_000):
        ups.append(outage.down_us - back)
        assert outage.up_us is not None
        downs.append(outage.up_us - outage.down_us)
        back = outage.up_us
    assert np.mean(ups) / 1e6 == pytest.approx(50.0, rel=0.05)
    assert np.mean(downs) / 1e6 == pytest.approx(10.0, rel=0.03)
