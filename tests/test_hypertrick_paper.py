"""HyperTrick beside the figures of its paper (Heinrich & Frosio 2019, arXiv 1902.02725)."""

import math

import numpy as np
import pytest
from worlds import curve, run_curves

from simsched.cluster import Cluster

TRIALS, RATE, REPLICATIONS = 400, 0.25, 200


def expected_completion(phases: int) -> float:
    return (1 - (1 - RATE) ** phases) / (RATE * phases)


@pytest.mark.parametrize(
    ("phases", "published_expected", "published_least"), [(10, 0.3775, 0.1887), (5, 0.6102, 0.3051)]
)
def test_completion_rate_and_survivors(
    phases: int, published_expected: float, published_least: float
) -> None:
    """Scores that say nothing: completion and survivors come out as the paper expects."""
    assert expected_completion(phases) == pytest.approx(published_expected, abs=5e-5)
    least = (1 - math.sqrt(RATE)) * expected_completion(phases)
    assert least == pytest.approx(published_least, abs=6e-5)

    rates = []
    survivors = np.zeros(phases)
    for replication in range(REPLICATIONS):
        rng = np.random.default_rng([7, phases, replication])
        us = rng.integers(1, 10_000, (TRIALS, phases)).cumsum(axis=1).tolist()
        scores = rng.normal(size=(TRIALS, phases)).tolist()
        curves = [curve(trial, us[trial], scores[trial]) for trial in range(TRIALS)]
        result, _ = run_curves("hypertrick", curves, phases, Cluster(40))
        rates.append(result.completion_rate)
        reached = np.array([trial.milestones for trial in result.trials])
        for phase in range(phases - 1):
            survivors[phase] += (reached > phase + 1).sum()
    assert np.mean(rates) == pytest.approx(published_expected, abs=0.005)
    assert min(rates) >= published_least
    for phase in range(phases - 1):
        planned = TRIALS * (1 - RATE) ** (phase + 1)
        assert survivors[phase] / REPLICATIONS == pytest.approx(planned, rel=0.02)
