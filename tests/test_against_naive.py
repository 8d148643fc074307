"""The schedulers and the simulator against a second, naive implementation of the same rules."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from naive.cases import SCHEDULERS, SearchCase, search_case, search_cases
from naive.driver import Pair, play
from naive.engine import TooShortError
from naive.product import compare, run_naive, run_product
from naive.simulated import SimulationCase, simulation_case, simulation_cases

from simsched.errors import SimschedError
from simsched.traces import Trace

HYPERTRICK = SearchCase("hypertrick", {}, 10, 3, 1, 0, 10, 0)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_same_answers_on_fixed_seeds(scheduler: str) -> None:
    events = sum(play(search_case(Random(seed), scheduler)) for seed in range(300))
    assert events > 3000


@settings(max_examples=200, deadline=None)
@given(search_cases())
def test_same_answers(case: SearchCase) -> None:
    play(case)


@pytest.mark.parametrize("jumps", [False, True], ids=["even", "jumps"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_same_simulation_on_fixed_seeds(scheduler: str, jumps: bool) -> None:
    decisions = sum(
        compare(simulation_case(Random(seed), scheduler, jumps=jumps)) for seed in range(100)
    )
    assert decisions > 1000


@settings(max_examples=150, deadline=None)
@given(simulation_cases())
def test_same_simulation(case: SimulationCase) -> None:
    compare(case)


def test_cases_reach_every_corner() -> None:
    """The comparison is worth what its cases reach: each kind of event must be among them."""
    seen = dict.fromkeys(
        ("waits", "retired", "abandoned", "diverged", "exploit", "ties", "binds"), 0
    )
    for seed in range(200):
        for scheduler in ("asha", "successive-halving", "pbt"):
            case = simulation_case(Random(seed), scheduler)
            try:
                result = run_naive(case)
            except ValueError:
                continue
            times = [told.at_us for told in result.decisions]
            seen["waits"] += result.node_us["wait"] > 0
            seen["retired"] += any(told.retired for told in result.decisions)
            seen["abandoned"] += bool(result.abandoned)
            seen["diverged"] += any(told.score is None for told in result.decisions)
            seen["exploit"] += any(told.verdict == "exploit" for told in result.decisions)
            seen["ties"] += len(set(times)) < len(times)
            seen["binds"] += result.binds > 0
    assert min(seen.values()) >= 10, seen


def shortened(trace: Trace, rows: int) -> Trace:
    return replace(
        trace, seconds=trace.seconds[:rows], steps=trace.steps[:rows],
        episodes=trace.episodes[:rows], score=trace.score[:rows],
    )  # fmt: skip


def test_too_short_a_trace_is_refused_by_both(tmp_path: Path) -> None:
    refused = 0
    for seed in range(60):
        case = simulation_case(Random(seed), "random")
        if case.traces[0].end == "complete" and len(case.traces[0].score) > 1:
            case.traces[0] = shortened(case.traces[0], 1)
            try:
                run_naive(case)
            except TooShortError:
                refused += 1
                with pytest.raises(SimschedError, match="recorded trial 0 of case"):
                    run_product(case, tmp_path)
    assert refused >= 10


@pytest.mark.parametrize(("rate", "trials"), [(0.64, 10), (0.81, 20)])
def test_hypertrick_collects_data_up_to_the_very_boundary(rate: float, trials: int) -> None:
    """W0·(1 - √r) is 2, though not in floating point: two reports go on whatever they say."""
    pair = Pair(
        replace(HYPERTRICK, params={"eviction_rate": rate}, trials=trials, configurations=trials)
    )
    for trial, score in enumerate((1.0, 0.0)):
        pair.ask()
        pair.tell(trial, score)


@pytest.mark.long
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_same_answers_and_simulations_on_many_seeds(scheduler: str) -> None:
    """What the short tests do, on seeds that they do not reach."""
    for seed in range(1000, 2000):
        play(search_case(Random(seed), scheduler))
    for seed in range(1000, 1400):
        compare(simulation_case(Random(seed), scheduler, jumps=seed % 2 == 0))
