"""A GA3C worker: trains one trial, step by step, and can be saved and restored."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from simsched.live.errors import DivergedError
from simsched.live.ga3c.checkpoint import (
    read_checkpoint,
    require_game,
    restore,
    write_checkpoint,
)
from simsched.live.ga3c.engines import (
    Assembly,
    first_group_size,
    make_engine,
    overlaps,
)
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.games import canonical_game, is_atari
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.memory import keep_freed_memory
from simsched.live.ga3c.monitor import Monitor
from simsched.live.ga3c.network import build
from simsched.live.ga3c.overlapped import OverlappedEngine
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.transfer import Transfer, choose_device
from simsched.live.ga3c.turns import Engine
from simsched.live.machine import available_cores


class Row(NamedTuple):
    """An episode that ended, with the trial's counters at that moment."""

    seconds: float
    """Training seconds."""
    steps: int
    """Agent steps (after frame skip), summed over the trial's agents."""
    episodes: int
    score: float


class Counters(NamedTuple):
    """How far a trial is."""

    seconds: float = 0.0
    """Training seconds."""
    steps: int = 0
    episodes: int = 0


class Worker:
    """Trains one trial: agents act, predictors answer them, trainers learn.

    A restored worker starts new episodes: those in flight when it was saved are lost, and so
    are the samples that waited for training.
    """

    def __init__(
        self,
        settings: Settings,
        checkpoint: Path | None = None,
        *,
        own: Counters | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Construct environments and network, or restore them from a checkpoint.

        Args:
            settings: what to train and how.
            checkpoint: what `save` wrote, of a worker for the same game and network.
            own: the trial's own counters, where the checkpoint is another trial's or none: only
                weights and optimizer are then taken from it.
            clock: measures training seconds of engines in one thread: `time.monotonic`, the
                default, or `time.process_time`, which other programs on the core cannot slow.

        Raises:
            LiveError: the game cannot be trained on, or the checkpoint does not fit.
        """
        settings = msgspec.structs.replace(settings, game=canonical_game(settings.game))
        keep_freed_memory()
        torch.set_num_threads(settings.threads or max(1, len(available_cores()) // 2))
        device = choose_device("cpu" if settings.algorithm == "a3c" else settings.device)
        overlapped = overlaps(settings, frames=is_atari(settings.game), device=device)
        self._environments = EnvironmentGroup(
            settings,
            first_group_size(settings, overlapped=overlapped),
            # All cores for each group: while one waits for predictions, the other has them.
            threads=len(available_cores()) if overlapped else 1,
        )
        self.monitor = Monitor()
        self.diverged: str | None = None
        self._engine: Engine | None = None
        self.load_s = 0.0
        """Seconds that reading the checkpoint took."""
        self._base_seconds, self._base_steps, self.episodes = own or Counters()
        try:
            key = (settings.seed, settings.trial)
            network = build(
                settings,
                self._environments.observation_shape,
                self._environments.observation_dtype,
                self._environments.actions,
                seed=int(np.random.SeedSequence((*key, 0)).generate_state(1)[0]),
            ).to(device)
            self._knobs = Knobs(settings)
            self._learner = Learner(network, self._knobs)
            random_states: dict[str, Any] = {}
            if checkpoint is not None:
                random_states = self._restore(checkpoint, own)
            self._engine = make_engine(
                Assembly(
                    settings,
                    self._learner,
                    Transfer(device),
                    self.monitor,
                    self._environments,
                    # Keyed by the steps too: a restored trial must not play the same episodes.
                    (*key, 1),
                    self._base_steps,
                    random_states,
                ),
                clock,
            )
        except BaseException:
            self.close()
            raise

    @property
    def settings(self) -> Settings:
        """The settings, with all changes made at run time."""
        return self._knobs.settings

    @property
    def engine(self) -> Engine:
        """What drives the parts."""
        assert self._engine is not None  # noqa: S101 - told to the type checker
        return self._engine

    @property
    def network(self) -> torch.nn.Module:
        """The one network; training goes on changing it."""
        return self._learner.network

    @property
    def steps(self) -> int:
        """Agent steps of the trial."""
        return self._base_steps + self.engine.steps

    @property
    def seconds(self) -> float:
        """Training seconds of the trial."""
        return self._base_seconds + self.engine.seconds

    @property
    def counters(self) -> Counters:
        """How far the trial is, as rows tell it: `episodes` are those that were told."""
        return Counters(round(self.seconds, 6), self.steps, self.episodes)

    @property
    def updates(self) -> int:
        """Updates of the network."""
        return self._learner.updates

    def part_counts(self) -> dict[str, float]:
        """Return how many parts are active, if that changes while training; else nothing."""
        if self.settings.adjust == "none" or not isinstance(self.engine, OverlappedEngine):
            return {}
        return {f"adjust/{name}": n for name, n in self.engine.parts._asdict().items()}

    def advance(self) -> list[Row]:
        """Train for a moment: a step of every agent, or a tenth of a second with threads.

        Returns a row for each episode that ended, in order. If a number is no longer finite,
        `diverged` says which, and the trial is over.

        Raises:
            LiveError: a part of the worker died; the message names it and the cause.
        """
        try:
            self.engine.advance()
        except DivergedError as error:
            self.diverged = str(error)
        return self._rows()

    def finish(self) -> list[Row]:
        """End all threads and processes; returns the episodes that `advance` had not told yet.

        The worker can still be saved, but not go on.
        """
        self.engine.close()
        return self._rows()

    def hold(self) -> list[Row]:
        """Stand still until `go`: nothing acts or learns, and no training second passes.

        Returns a row for each episode that ended on the way to the halt.
        """
        self.engine.hold()
        return self._rows()

    def go(self) -> None:
        """Go on where `hold` stopped, at once."""
        self.engine.go()

    def _rows(self) -> list[Row]:
        rows = []
        for ended in self.engine.take_ended():
            self.episodes += 1
            seconds = round(self._base_seconds + ended.seconds, 6)
            steps = self._base_steps + ended.steps
            rows.append(Row(seconds, steps, self.episodes, ended.episode.score))
        return rows

    def change(self, **changes: Any) -> None:
        """Change hyperparameters while training, as population based training does.

        Raises:
            LiveError: a value cannot work, or the setting cannot change at run time.
        """
        self._knobs.change(**changes)

    def adopt(self, path: Path, **changes: Any) -> None:
        """Take weights and optimizer of another trial's checkpoint, and change hyperparameters.

        Counters, random states and the episodes under way stay the trial's own; experience that
        the old weights gathered is dropped. The worker must be held.

        Raises:
            LiveError: the checkpoint does not fit, or `change` would raise it.
        """
        start = time.monotonic()
        state = read_checkpoint(path)
        require_game(state, self.settings.game, path)
        self._knobs.change(**changes)
        restore(self._learner.adopt, state, path)
        self.engine.forget(self._learner.updates)
        self.load_s = time.monotonic() - start

    def check_finite(self) -> None:
        """Set `diverged` if a parameter is NaN or infinite."""
        try:
            self._learner.check_finite()
        except DivergedError as error:
            self.diverged = str(error)

    def save(self, path: Path, *, durable: bool = True) -> bool:
        """Write all that training needs: whole and durable, or not at all.

        Args:
            path: a file.
            durable: False if the caller sees to that.

        Returns whether it did: a diverged trial is not saved.
        """
        self.check_finite()
        if self.diverged is not None:
            return False
        with self.engine.still() as random_states:
            counters = {**self.counters._asdict(), "seconds": self.seconds}
            state = self._learner.state()
        for name, tensor in state["network"].items():
            if not bool(torch.isfinite(tensor).all()):  # it became so after the check
                self.diverged = f"parameter {name} is not finite"
                return False
        more = {**counters, "random": random_states, "settings": msgspec.to_builtins(self.settings)}
        write_checkpoint(path, {**state, **more}, durable=durable)
        return True

    def _restore(self, path: Path, own: Counters | None) -> dict[str, Any]:
        """Take over a checkpoint; returns its random states, none of which are a donor's."""
        start = time.monotonic()
        state = read_checkpoint(path)
        require_game(state, self.settings.game, path)
        restore(self._learner.restore, state, path)
        self.load_s = time.monotonic() - start
        if own is not None:
            return {}
        self._base_seconds = state["seconds"]
        self._base_steps = state["steps"]
        self.episodes = state["episodes"]
        random_states: dict[str, Any] = state["random"]
        return random_states

    def close(self) -> None:
        """End every thread and process, release the environments."""
        if self._engine is not None:
            self._engine.close()
        else:
            self._environments.close()
