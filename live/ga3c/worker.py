"""A GA3C worker: trains one trial, step by step, and can be saved and restored."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.agents import Agents, Episode
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.network import build
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.trainer import NetworkPredictor, Trainer


class Row(NamedTuple):
    """An episode that ended, with the trial's counters at that moment."""

    seconds: float
    """Training seconds: those spent inside `Worker.advance`."""
    steps: int
    """Agent steps (after frame skip), summed over the trial's agents."""
    episodes: int
    score: float


class Worker:
    """Trains one trial in the calling thread: agents act, the trainer learns, in turn.

    A restored worker starts new episodes: those in flight when it was saved are lost.
    """

    def __init__(self, settings: Settings, checkpoint: Path | None = None) -> None:
        """Construct environments and network, or restore them from a checkpoint.

        Raises:
            LiveError: the game cannot be trained on, or the checkpoint does not fit.
        """
        self.settings = settings
        self.seconds = 0.0
        self.steps = 0
        self.episodes = 0
        self.diverged: str | None = None
        self._environments = EnvironmentGroup(settings.game, settings.agents)
        key = (settings.seed, settings.trial)
        self._network = build(
            self._environments.observation_shape,
            frames=self._environments.frames,
            actions=self._environments.actions,
            seed=int(np.random.SeedSequence((*key, 0)).generate_state(1)[0]),
        )
        self._trainer = Trainer(self._network, settings)
        if checkpoint is not None:
            self._restore(checkpoint)
        # Keyed by the steps too: a restored trial must not play its first episodes again.
        seeds = np.random.SeedSequence((*key, 1, self.steps))
        self._agents = Agents(
            self._environments, settings.t_max, seeds, clip_rewards=settings.clip_rewards
        )
        self._predictor = NetworkPredictor(self._network)

    def advance(self) -> list[Row]:
        """Take one step with every agent and do the updates that are due.

        Returns a row for each episode that ended, in agent order. If a number is no longer
        finite, `diverged` says which, and the trial is over.
        """
        ended: list[Episode] = []
        start = time.monotonic()
        try:
            segments, ended = self._agents.step(self._predictor)
            self.steps += self._environments.size
            self._trainer.train(segments, self.steps)
        except DivergedError as error:
            self.diverged = str(error)
        self.seconds += time.monotonic() - start
        rows = []
        for episode in ended:
            self.episodes += 1
            rows.append(Row(round(self.seconds, 6), self.steps, self.episodes, episode.score))
        return rows

    def check_finite(self) -> None:
        """Set `diverged` if a parameter is NaN or infinite."""
        for name, parameter in self._network.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                self.diverged = f"parameter {name} is not finite"

    def save(self, path: Path) -> bool:
        """Write weights, optimizer and counters, to a temporary file first.

        Returns whether it did: a diverged trial is not saved.
        """
        self.check_finite()
        if self.diverged is not None:
            return False
        state = {
            "network": self._network.state_dict(),
            "optimizer": self._trainer.optimizer.state_dict(),
            "updates": self._trainer.updates,
            "seconds": self.seconds,
            "steps": self.steps,
            "episodes": self.episodes,
        }
        temporary = path.with_name(f".{path.name}.tmp")
        torch.save(state, temporary)
        temporary.replace(path)
        return True

    def _restore(self, path: Path) -> None:
        state = read_checkpoint(path)
        try:
            self._network.load_state_dict(state["network"])
            self._trainer.optimizer.load_state_dict(state["optimizer"])
        except (KeyError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise LiveError(f"{path}: the checkpoint does not fit this trial: {reason}") from error
        self._trainer.updates = int(state["updates"])
        self.seconds = float(state["seconds"])
        self.steps = int(state["steps"])
        self.episodes = int(state["episodes"])

    def close(self) -> None:
        """Release the environments."""
        self._environments.close()


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `Worker.save` wrote; nothing in the file is executed.

    Raises:
        LiveError: the file is missing or is no checkpoint.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        missing = {"network", "optimizer", "updates", "seconds", "steps", "episodes"} - set(state)
    except Exception as error:  # torch.load raises a dozen unrelated classes
        raise LiveError(f"{path}: not a readable checkpoint: {type(error).__name__}") from error
    if missing:
        raise LiveError(f"{path}: not a checkpoint, {sorted(missing)[0]!r} is missing")
    return state
