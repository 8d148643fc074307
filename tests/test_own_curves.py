"""After an exploit a trial goes on along its own curve, as it really went on."""

import numpy as np
import pytest
from worlds import curve

from simsched.cluster import Cluster
from simsched.own_curves import OwnCurves
from simsched.replay import Curve
from simsched.results import RunResult
from simsched.run_result import make_result
from simsched.schedulers import Plan, build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.space import PUBLISHED_GA3C

MEMBERS, PHASES = 12, 6


def run(curves: list[Curve], own: OwnCurves, nodes: int, seed: int = 0) -> RunResult:
    plan = Plan(len(curves), PHASES, 1, seed)
    searcher = Given([each.hparams for each in curves], PUBLISHED_GA3C, seed)
    scheduler = build("pbt", plan, searcher)
    world = SimulatedCluster(
        scheduler,
        curves,
        own,  # type: ignore[arg-type]
        Cluster(nodes, save_s=0.5, load_s=0.25),
        PHASES,
    )
    timeline = world.run()
    return make_result(
        "pbt", 0, plan, world.ledger, timeline, 1.0,
        [each.trace for each in curves], own.summary(), scheduler.notes,
    )  # fmt: skip


def population(seed: int) -> list[Curve]:
    rng = np.random.default_rng(seed)
    return [
        curve(
            member,
            rng.integers(500_000, 3_000_000, PHASES).cumsum().tolist(),
            rng.normal(size=PHASES).cumsum().tolist(),
        )
        for member in range(MEMBERS)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nodes", [MEMBERS, 4])
def test_a_population_walks_every_curve_once_whatever_it_exploits(seed: int, nodes: int) -> None:
    curves = population(seed)
    result = run(curves, OwnCurves(curves), nodes, seed)
    assert result.loads > 0
    assert not result.approximate
    trained = [0] * MEMBERS
    for interval in result.timeline.intervals:
        if interval.kind == "train":
            trained[interval.trial] += interval.end_us - interval.start_us
    assert trained == [each.times_us[-1] for each in curves]
    for trial, own in zip(result.trials, curves, strict=True):
        assert trial.fate == "finished"
        assert [milestone.score for milestone in trial.curve] == list(own.scores)


def test_a_cursor_stands_at_the_first_row_that_has_the_count() -> None:
    own = Curve(0, {}, "complete", [1, 2, 3, 6], [10, 25, 25, 60], [1.0, 2.0, 6.0, 9.0])
    cursor = OwnCurves([own]).enter(0, {}, step=20, score=100.0, curve=own)
    assert (cursor.row, cursor.until, cursor.score) == (1, 20, 100.0)
    # Its row reaches past the next milestone already: the donor's score stands.
    assert cursor.advance(25).score == 100.0
    leg = cursor.advance(40)
    assert (leg.duration_us, leg.score, leg.reached) == (4, 7.5, 60)


def test_a_curve_goes_on_in_another_piece_after_a_divergence() -> None:
    """Member 1 of 3 diverges in its second phase, after 4 µs, and takes weights over."""
    good = curve(0, [10, 20, 30, 40, 50, 60], [5.0] * 6)
    before = Curve(1, good.hparams, "diverged", [10, 14], [1, 1.5], [1.0])
    after = Curve(1, good.hparams, "complete", [9, 18, 27, 36], [3, 4, 5, 6], [2.0, 3.0, 4.0, 6.0])
    weak = curve(2, [10, 20, 30, 40, 50, 60], [0.0] * 6)
    curves = [good, before, weak]
    result = run(curves, OwnCurves(curves, {1: [after]}), nodes=3)
    told = [(each.step, each.score) for each in result.trials[1].curve]
    assert told == [(1, 1.0), (2, None), (3, 2.0), (4, 3.0), (5, 4.0), (6, 6.0)]
    trained = [i for i in result.timeline.intervals if i.trial == 1 and i.kind == "train"]
    assert [each.end_us - each.start_us for each in trained] == [10, 4, 9, 9, 9, 9]
    assert {trial.fate for trial in result.trials} == {"finished"}


def test_two_divergences_take_three_pieces() -> None:
    first = Curve(0, {}, "diverged", [10, 14], [1, 1.5], [1.0])
    second = Curve(0, {}, "diverged", [5, 7], [3, 3.5], [2.0])
    third = Curve(0, {}, "complete", [3], [5], [4.0])
    own = OwnCurves([first], {0: [second, third]})
    cursor = own.enter(0, {}, step=2, score=8.0, curve=first)
    assert cursor.curve is second
    leg = cursor.advance(3)
    assert (leg.duration_us, leg.score) == (5, 2.0)
    assert cursor.advance(4).outcome == "diverged"
    cursor = own.enter(0, {}, step=4, score=8.0, curve=first)
    leg = cursor.advance(5)
    assert (leg.duration_us, leg.score, leg.outcome) == (3, 4.0, "milestone")
