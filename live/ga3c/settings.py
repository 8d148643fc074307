"""The settings of one training run, and which of them make sense."""

import math

import msgspec

from simsched.live.errors import LiveError


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What one GA3C worker trains and how. Raises LiveError for values that cannot work."""

    game: str
    """An Atari game (`MsPacman`) or a Gymnasium environment with discrete actions."""
    learning_rate: float = 7e-4
    """Learning rate of RMSProp."""
    t_max: int = 5
    """The most steps in a segment of experience, that is, the n of the n-step return."""
    gamma: float = 0.99
    """Discount factor."""
    agents: int = 16
    """Environments that are stepped together."""
    least_batch: int = 80
    """Segments are gathered until an update has at least this many samples."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus."""
    rms_decay: float = 0.99
    """Decay of RMSProp's mean square, which starts at 0."""
    rms_epsilon: float = 0.1
    """Added to the root of RMSProp's mean square."""
    clip_norm: float = 0.0
    """The largest norm of a gradient; 0, as in the original, leaves gradients as they are."""
    clip_rewards: bool = True
    """Train on rewards clipped to [-1, 1]. Scores are never clipped."""
    anneal_steps: int = 0
    """The learning rate falls linearly to 0 over this many agent steps; 0 keeps it."""
    seed: int = 0
    """Every random draw of the run is keyed by this seed and the trial's number."""
    trial: int = 0
    """The trial's number."""

    def __post_init__(self) -> None:
        for name, least in (("t_max", 1), ("agents", 1), ("least_batch", 1)):
            if getattr(self, name) < least:
                raise LiveError(f"{name}: {getattr(self, name)} is too small, use {least} or more")
        for name in ("anneal_steps", "seed", "trial"):
            if getattr(self, name) < 0:
                raise LiveError(f"{name}: {getattr(self, name)} is negative, use 0 or more")
        for name in ("learning_rate", "rms_epsilon"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise LiveError(f"{name}: {value} must be a finite number above 0")
        for name in ("entropy_weight", "clip_norm"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise LiveError(f"{name}: {value} must be a finite number, 0 or above")
        if not 0 < self.gamma <= 1:
            raise LiveError(f"gamma: {self.gamma} is outside (0, 1]")
        if not 0 <= self.rms_decay < 1:
            raise LiveError(f"rms_decay: {self.rms_decay} is outside [0, 1)")
