"""From segments of experience to the batches that trainers take."""

from collections import deque
from typing import Any, NamedTuple

from numpy.typing import NDArray

from simsched.live.ga3c.agents import Segment
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.loss import n_step_returns


class Sample(NamedTuple):
    """One step of an agent, ready to be trained on."""

    observation: NDArray[Any]
    action: int
    value: float
    """Its n-step return."""
    version: int
    """Updates that the network had seen when it chose the action."""


class Batcher:
    """Gathers complete segments until there is a batch.

    Without a least batch, each segment is a batch of its own. With one, a batch is exactly so
    many samples, in the order in which they came: fixed shapes are fast. V-trace needs whole
    segments: there a batch is of at least so many samples.
    """

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._segments: deque[Segment] = deque()
        self._samples: deque[Sample] = deque()
        self._gathered = 0

    def add(self, segments: list[Segment]) -> None:
        """Take in complete segments, in the order in which they ended."""
        settings = self._knobs.settings
        cut = settings.least_batch > 0 and not settings.vtrace
        for segment in segments:
            self._gathered += len(segment)
            if cut:
                self._samples.extend(samples_of(segment, settings.gamma))
            else:
                self._segments.append(segment)

    @property
    def missing(self) -> int:
        """Samples without which there is no batch yet."""
        return max(0, max(1, self._knobs.settings.least_batch) - self._gathered)

    def take(self, *, everything: bool = False) -> list[Sample] | list[Segment]:
        """Return the next batch; nothing may be missing for it.

        Args:
            everything: all that was gathered, whatever the least batch.
        """
        settings = self._knobs.settings
        size = self._gathered if everything else max(1, settings.least_batch)
        if self._samples:
            self._gathered -= size
            return [self._samples.popleft() for _ in range(size)]
        batch: list[Segment] = []
        while sum(map(len, batch)) < size:
            batch.append(self._segments.popleft())
            self._gathered -= len(batch[-1])
        if settings.vtrace:
            return batch
        return [sample for segment in batch for sample in samples_of(segment, settings.gamma)]


def samples_of(segment: Segment, gamma: float) -> list[Sample]:
    """Return the samples of a segment, with their n-step returns."""
    returns = n_step_returns(segment.rewards, segment.bootstrap, gamma)
    rows = zip(segment.observations, segment.actions, returns, segment.versions, strict=True)
    return [Sample(*row) for row in rows]
