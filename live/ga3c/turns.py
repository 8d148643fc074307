"""Engines in one thread: agents act, the trainer learns, by turns. They can be repeated."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from simsched.live.ga3c.agents import AgentGroup, Episode, Predictor, Segment
from simsched.live.ga3c.batches import Batcher, Sample
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.monitor import Monitor
from simsched.live.ga3c.pausing import Pausable
from simsched.live.ga3c.trainer import Trainer


class Ended(NamedTuple):
    """An episode that ended, with the worker's counters at that moment."""

    episode: Episode
    steps: int
    """Agent steps."""
    seconds: float
    """Training seconds."""


class Engine(Protocol):
    """Drives agents, predictors and trainers. It starts at no steps and no seconds."""

    @property
    def steps(self) -> int:
        """Agent steps."""
        ...

    @property
    def seconds(self) -> float:
        """Training seconds."""
        ...

    def advance(self) -> None:
        """Go on for a little while.

        Raises:
            DivergedError: a number is no longer finite.
            LiveError: a part died.
        """
        ...

    def take_ended(self) -> list[Ended]:
        """Return the episodes that ended since the last call, in order."""
        ...

    def hold(self) -> None:
        """Stand still, every part between two steps, and stop the clock, until `go`."""
        ...

    def go(self) -> None:
        """Go on where `hold` stopped."""
        ...

    def still(self) -> AbstractContextManager[dict[str, Any]]:
        """Stand still for the block, or go on doing so; gives the agents' random states."""
        ...

    def forget(self, version: int) -> None:
        """Drop the experience that was not trained on yet; the engine must stand still.

        Args:
            version: updates of the network now; what older weights acted out is dropped.
        """
        ...

    def close(self) -> None:
        """End every thread and process, release the environments."""
        ...


class TurnsEngine(Pausable):
    """GA3C by turns: a step of every agent, then the updates that are due.

    A segment outlives updates made while it grew, so part of it was acted out by older weights:
    the policy lag of GA3C. Between acting and training lie at most 2 t_max + 1 steps of each
    agent, in batches of `least_batch`.
    """

    def __init__(
        self,
        knobs: Knobs,
        group: AgentGroup,
        predictor: Predictor,
        trainer: Trainer,
        monitor: Monitor,
        clock: Callable[[], float],
        start_steps: int = 0,
    ) -> None:
        """Put the parts together.

        Args:
            knobs: the settings.
            group: all agents.
            predictor: answers them.
            trainer: does the updates.
            monitor: counts.
            clock: measures training seconds.
            start_steps: agent steps before this engine, for the schedules.
        """
        self.steps = 0
        self._start_steps = start_steps
        self.seconds = 0.0
        self._knobs = knobs
        self._group = group
        self._predictor = predictor
        self._trainer = trainer
        self._monitor = monitor
        self._clock = clock
        self._batcher = Batcher(knobs)
        self._ended: list[Episode] = []

    def advance(self) -> None:
        """Take one step with every agent and do the updates that are due."""
        start = self._clock()
        try:
            self._turn()
        finally:
            self.seconds += self._clock() - start

    def _turn(self) -> None:
        segments, episodes = self._group.step(self._predictor)
        self._count(episodes)
        self._batcher.add(segments)
        while not self._batcher.missing:
            self._update(self._batcher.take())

    def _update(self, batch: list[Sample] | list[Segment]) -> None:
        self._monitor.trained(self._trainer.update(batch, self._start_steps + self.steps))

    def _count(self, episodes: list[Episode]) -> None:
        size = self._group.environments.size
        self.steps += size
        self._ended += episodes
        self._monitor.acted(size, episodes)
        self._monitor.predicted(size)

    def take_ended(self) -> list[Ended]:
        """Return the episodes that ended since the last call, in agent order."""
        ended = [Ended(episode, self.steps, self.seconds) for episode in self._ended]
        self._ended.clear()
        return ended

    def _random_states(self) -> dict[str, Any]:
        """Nothing moves between two calls of `advance`."""
        return {"groups": [self._group.random.bit_generator.state]}

    def forget(self, version: int) -> None:
        """Drop all experience: by turns, none of it is of the present version."""
        del version
        self._group.drop_segments()
        self._batcher = Batcher(self._knobs)

    def close(self) -> None:
        """Release the environments."""
        self._group.environments.close()


class A2CEngine(TurnsEngine):
    """Synchronous: every agent takes t_max steps by the same weights, then there is one update.

    A2C as in Accelerated Methods for Deep RL (Stooke & Abbeel 2018, arXiv 1803.02811), after
    Mnih et al. 2016: one batch of agents x t_max samples, no policy lag.
    """

    _rollout = 0
    _length = 0

    def forget(self, version: int) -> None:
        """Drop all experience, and begin a rollout of t_max steps."""
        super().forget(version)
        self._rollout = 0

    def _turn(self) -> None:
        prediction = self._predictor.predict(self._group.observations)
        if self._rollout and self._rollout >= self._length:
            self._batcher.add(self._group.cut(prediction.values, all_of_them=True))
            self._update(self._batcher.take(everything=True))
            self._rollout = 0
            prediction = self._predictor.predict(self._group.observations)
        if self._rollout == 0:
            self._length = self._knobs.settings.t_max
        segments, episodes = self._group.act(prediction, self._predictor)
        self._rollout += 1
        self._count(episodes)
        self._batcher.add(segments)
