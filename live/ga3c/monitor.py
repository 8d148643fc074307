"""What a worker does per second, and how training goes: counted by its parts, read by anyone."""

import threading
from dataclasses import asdict, dataclass
from typing import Any

from simsched.live.ga3c.agents import Episode
from simsched.live.ga3c.trainer import Update


@dataclass(slots=True)
class Totals:
    """Counters that only grow."""

    steps: int = 0
    """Agent steps."""
    predictions: int = 0
    """Observations that were predicted for."""
    prediction_batches: int = 0
    updates: int = 0
    samples: int = 0
    """Samples trained on."""
    lag: float = 0.0
    """Policy lag, summed over samples."""
    policy_loss: float = 0.0
    """Summed over samples, as are the next three."""
    value_loss: float = 0.0
    entropy: float = 0.0
    gradient_norm: float = 0.0
    """Summed over updates."""
    queue_checks: int = 0
    prediction_queue: int = 0
    """Observations that waited for a prediction, summed over checks."""
    training_queue: int = 0
    """Samples that waited for training, summed over checks."""
    episodes: int = 0
    score: float = 0.0
    length: int = 0
    """Agent steps of the episodes that ended."""


class Monitor:
    """Counts; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = Totals()
        self._greatest_lag = 0

    def acted(self, steps: int, episodes: list[Episode]) -> None:
        """Count agent steps and the episodes they ended."""
        with self._lock:
            self._totals.steps += steps
            for episode in episodes:
                self._totals.episodes += 1
                self._totals.score += episode.score
                self._totals.length += episode.length

    def predicted(self, count: int) -> None:
        """Count a batch of predictions."""
        with self._lock:
            self._totals.predictions += count
            self._totals.prediction_batches += 1

    def trained(self, update: Update) -> None:
        """Count an update."""
        with self._lock:
            totals = self._totals
            totals.updates += 1
            totals.samples += update.samples
            totals.lag += update.lag * update.samples
            totals.policy_loss += update.policy_loss * update.samples
            totals.value_loss += update.value_loss * update.samples
            totals.entropy += update.entropy * update.samples
            totals.gradient_norm += update.gradient_norm
            self._greatest_lag = max(self._greatest_lag, update.greatest_lag)

    def waiting(self, prediction_queue: int, training_queue: int) -> None:
        """Note how full the queues are."""
        with self._lock:
            self._totals.queue_checks += 1
            self._totals.prediction_queue += prediction_queue
            self._totals.training_queue += training_queue

    def totals(self) -> Totals:
        """Return a copy of the counters."""
        with self._lock:
            return Totals(**asdict(self._totals))

    def greatest_lag(self) -> int:
        """Return the greatest policy lag since the last call of this, in updates."""
        with self._lock:
            lag, self._greatest_lag = self._greatest_lag, 0
            return lag


def rates(before: Totals, after: Totals, elapsed_s: float) -> dict[str, float]:
    """Return scalars of the time between two readings, under the names that TensorBoard shows.

    What did not happen in that time (no episode ended, no update was done) is left out.
    """
    delta: dict[str, Any] = {
        name: value - getattr(before, name) for name, value in asdict(after).items()
    }
    found = {
        "speed/PPS": delta["predictions"] / elapsed_s,
        "speed/TPS": delta["samples"] / elapsed_s,
        "speed/steps_per_s": delta["steps"] / elapsed_s,
        "speed/updates_per_s": delta["updates"] / elapsed_s,
    }
    means = {
        "batch/prediction": ("predictions", "prediction_batches"),
        "batch/training": ("samples", "updates"),
        "queue/prediction": ("prediction_queue", "queue_checks"),
        "queue/training": ("training_queue", "queue_checks"),
        "train/policy_lag": ("lag", "samples"),
        "train/policy_loss": ("policy_loss", "samples"),
        "train/value_loss": ("value_loss", "samples"),
        "train/entropy": ("entropy", "samples"),
        "train/gradient_norm": ("gradient_norm", "updates"),
        "episode/score": ("score", "episodes"),
        "episode/length": ("length", "episodes"),
    }
    for name, (total, count) in means.items():
        if delta[count]:
            found[name] = delta[total] / delta[count]
    return found
