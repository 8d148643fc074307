"""What is counted of training becomes rates and means."""

import pytest

torch = pytest.importorskip("torch")

from simsched.live.ga3c.agents import Episode  # noqa: E402
from simsched.live.ga3c.monitor import Monitor, rates  # noqa: E402
from simsched.live.ga3c.trainer import Update  # noqa: E402

pytestmark = pytest.mark.torch


def test_rates_are_differences_over_time_and_means_over_what_happened() -> None:
    monitor = Monitor()
    monitor.predicted(1_000)
    before = monitor.totals()
    monitor.acted(30, [Episode(0, 7.0, 20), Episode(1, 9.0, 10)])
    for batch in (8, 12):
        monitor.predicted(batch)
    monitor.trained(Update(10, 1.0, 2.0, 0.5, 4.0, 1.5, 3))
    monitor.trained(Update(30, 2.0, 6.0, 0.1, 8.0, 0.5, 5))
    monitor.waiting(4, 100)
    monitor.waiting(0, 300)
    assert rates(before, monitor.totals(), 2.0) == pytest.approx(
        {
            "speed/PPS": 10.0,
            "speed/TPS": 20.0,
            "speed/steps_per_s": 15.0,
            "speed/updates_per_s": 1.0,
            "batch/prediction": 10.0,
            "batch/training": 20.0,
            "queue/prediction": 2.0,
            "queue/training": 200.0,
            "train/policy_lag": (10 * 1.5 + 30 * 0.5) / 40,
            "train/policy_loss": (10 * 1.0 + 30 * 2.0) / 40,
            "train/value_loss": (10 * 2.0 + 30 * 6.0) / 40,
            "train/entropy": (10 * 0.5 + 30 * 0.1) / 40,
            "train/gradient_norm": 6.0,
            "episode/score": 8.0,
            "episode/length": 15.0,
        }
    )
    assert (monitor.greatest_lag(), monitor.greatest_lag()) == (5, 0)
    now = monitor.totals()
    quiet = rates(now, monitor.totals(), 1.0)
    assert quiet == dict.fromkeys(
        ("speed/PPS", "speed/TPS", "speed/steps_per_s", "speed/updates_per_s"), 0.0
    )
