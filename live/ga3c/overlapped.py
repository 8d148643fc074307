"""GA3C as the paper draws it: agents, predictors and trainers at once, two queues between them.

    agents ── observations ──▶ prediction queue ── batches ──▶ predictors ──┐
    agents ◀───────────── policy and value ────────────────── predictors   ├ one network
    agents ── segments ──────▶ training queue ──── batches ──▶ trainers ────┘

An agent here is one environment of a group; a group has a thread, steps its environments in
ale-py's threads (without the interpreter's lock) and waits for predictions; while one group
acts, another's predictions are made and a trainer learns.
"""

import threading
from collections.abc import Callable
from typing import Any

from simsched.live.ga3c.adjust import Parts, Strategy
from simsched.live.ga3c.adjusting import adjust_loop
from simsched.live.ga3c.agents import AgentGroup, Segment
from simsched.live.ga3c.batches import Batcher, Sample
from simsched.live.ga3c.crew import Crew
from simsched.live.ga3c.monitor import Monitor
from simsched.live.ga3c.pausing import Gate, Pausable, Stopwatch
from simsched.live.ga3c.predictor import NetworkPredictor, answer_requests
from simsched.live.ga3c.queues import BoundedQueue, Closed, QueuedPredictor, Request
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.trainer import Trainer
from simsched.live.ga3c.turns import Ended

WAIT_S = 0.1
"""How long `advance` waits for an episode to end."""


class OverlappedEngine(Pausable):
    """Runs every part in threads of its own; how many of them are active can change."""

    def __init__(
        self,
        settings: Settings,
        groups: list[AgentGroup],
        predictors: list[NetworkPredictor],
        trainers: list[Trainer],
        batcher: Batcher,
        monitor: Monitor,
        start_steps: int,
        strategy: Strategy | None = None,
    ) -> None:
        """Start the threads.

        Args:
            settings: the queues' bounds; with how many parts to begin.
            groups: all that can be active.
            predictors: all that can be active.
            trainers: all that can be active.
            batcher: what the trainers share.
            monitor: counts.
            start_steps: agent steps before this engine, for the schedules.
            strategy: adjusts the numbers of parts while they work.
        """
        self.steps = 0
        self.monitor = monitor
        self._start_steps = start_steps
        self._prediction_batch = settings.prediction_batch
        self._predictions = BoundedQueue[Request](settings.prediction_queue, len)
        self._training = BoundedQueue[Segment](settings.training_queue, len)
        self._groups = groups
        self._acting, self._learning = Gate(), Gate()
        self._oldest = 0
        """Experience of an older version of the network is not trained on."""
        self._asked = [QueuedPredictor(self._predictions) for _ in groups]
        self._batcher = batcher
        self._collecting = threading.Lock()
        self._changed = threading.Condition()
        self._ended: list[Ended] = []
        self._watch = Stopwatch()
        self.parts = Parts(
            settings.groups, settings.predictors, settings.trainers, settings.training_queue
        )
        self.crew = Crew(self._release)
        for k, group in enumerate(groups):
            self.crew.start(f"agents {k}", self._agent_loop(k, group))
        for k, predictor in enumerate(predictors):
            self.crew.start(f"predictor {k}", self._predictor_loop(k, predictor))
        for k, trainer in enumerate(trainers):
            self.crew.start(f"trainer {k}", self._trainer_loop(k, trainer))
        self.strategy = strategy
        if strategy is not None:
            after_s, every_s = settings.adjust_after_s, settings.adjust_every_s
            self.crew.start("adjuster", adjust_loop(self, strategy, after_s, every_s))

    @property
    def seconds(self) -> float:
        """Seconds since the engine started, until it was closed, less those of standing still."""
        return self._watch.seconds

    def use(self, parts: Parts) -> None:
        """Change how many parts are active, and the training queue's bound; the rest wait."""
        with self._changed:
            self.parts = parts
            self._changed.notify_all()
        self._training.bound = parts.training_queue

    def advance(self) -> None:
        """Wait a moment for episodes to end, while everything goes on."""
        with self._changed:
            if not self._ended and not self.crew.stopping.is_set():
                self._changed.wait(WAIT_S)
        self.crew.check()

    def take_ended(self) -> list[Ended]:
        """Return the episodes that ended since the last call, in the order of their ends."""
        with self._changed:
            ended, self._ended = self._ended, []
            return ended

    def _stand(self) -> None:
        """Halt the agents first: until they stand, they may wait for the trainers."""
        self._acting.shut()
        self._learning.shut()
        self._watch.stop()

    def _move(self) -> None:
        if not self.crew.stopping.is_set():
            self._watch.go()
        self._learning.open()
        self._acting.open()

    def _random_states(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "groups": [group.random.bit_generator.state for group in self._groups]
        }
        if self.strategy is not None:
            state["adjust"] = self.strategy.snapshot()
        return state

    def forget(self, version: int) -> None:
        """Drop the agents' segments; what waits further on is passed over when its turn comes."""
        for group in self._groups:
            group.drop_segments()
        self._oldest = version

    def close(self) -> None:
        """End every thread, release the environments."""
        try:
            self.crew.join()
        finally:
            self._watch.stop()
            for group in self._groups:
                group.environments.close()

    def _release(self) -> None:
        self._acting.close()
        self._learning.close()
        self._predictions.close()
        self._training.close()
        for asked in self._asked:
            asked.release()
        with self._changed:
            self._changed.notify_all()

    def _wait_for_turn(self, k: int, active: Callable[[Parts], int]) -> bool:
        """Wait while part k of its kind is not active; returns whether it was not."""
        if k < active(self.parts):
            return False
        with self._changed:
            while k >= active(self.parts):
                if self.crew.stopping.is_set():
                    raise Closed
                self._changed.wait()
        return True

    def _agent_loop(self, k: int, group: AgentGroup) -> Callable[[], None]:
        def loop() -> None:
            while not self.crew.stopping.is_set():
                if self._wait_for_turn(k, lambda parts: parts.groups):
                    group.drop_segments()
                with self._acting:
                    segments, episodes = group.step(self._asked[k])
                    size = group.environments.size
                    with self._changed:
                        self.steps += size
                        self.monitor.acted(size, episodes)
                        now = (self.steps, self.seconds)
                        self._ended += [Ended(episode, *now) for episode in episodes]
                        if episodes:
                            self._changed.notify_all()
                    for segment in segments:
                        self._training.put(segment)

        return loop

    def _predictor_loop(self, k: int, predictor: NetworkPredictor) -> Callable[[], None]:
        def loop() -> None:
            while not self.crew.stopping.is_set():
                self._wait_for_turn(k, lambda parts: parts.predictors)
                self.monitor.waiting(self._predictions.weight, self._training.weight)
                batch = answer_requests(self._predictions, predictor, self._prediction_batch)
                self.monitor.predicted(batch)

        return loop

    def _trainer_loop(self, k: int, trainer: Trainer) -> Callable[[], None]:
        def loop() -> None:
            while not self.crew.stopping.is_set():
                self._wait_for_turn(k, lambda parts: parts.trainers)
                with self._collecting:
                    while missing := self._batcher.missing:
                        self._batcher.add(self._training.take(missing))
                    batch = self._batcher.take()
                with self._learning:
                    if _version(batch) >= self._oldest:
                        steps = self._start_steps + self.steps
                        self.monitor.trained(trainer.update(batch, steps))

        return loop


def _version(batch: list[Sample] | list[Segment]) -> int:
    """Return the oldest version of the network that acted out part of a batch."""
    return min(e.version if isinstance(e, Sample) else e.versions[0] for e in batch)
