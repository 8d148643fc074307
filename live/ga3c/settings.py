"""The settings of one training run, and which of them make sense.

The defaults are those of the published GA3C (Babaeizadeh et al., ICLR 2017, and its code);
`PRESETS` holds others.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from simsched.errors import nearest
from simsched.live.errors import LiveError

Algorithm: TypeAlias = Literal["ga3c", "a2c", "a3c"]
Overlap: TypeAlias = Literal["auto", "on", "off"]
Optimizer: TypeAlias = Literal["rmsprop", "rmsprop-tf", "adam"]
Network: TypeAlias = Literal["auto", "small", "large", "grid", "vector"]
Initialization: TypeAlias = Literal["uniform", "orthogonal"]
Preprocessing: TypeAlias = Literal["standard", "original"]
Compile: TypeAlias = Literal["auto", "on", "off"]
Adjustment: TypeAlias = Literal["none", "random-walk"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What one GA3C worker trains and how. Raises LiveError for values that cannot work."""

    game: str
    """An Atari game (`MsPacman`) or a Gymnasium environment with discrete actions."""
    algorithm: Algorithm = "ga3c"
    """ga3c: queues and threads around one network; a2c: act and train by turns, no policy lag
    (Stooke & Abbeel 2018); a3c: a process and a network copy per agent (Mnih et al. 2016)."""
    overlap: Overlap = "auto"
    """Whether GA3C's parts run in threads of their own; off: by turns in one thread, which can
    be repeated. auto: on for frames where there are two cores or a GPU."""

    learning_rate: float = 3e-4
    """Learning rate of the optimizer."""
    t_max: int = 5
    """The most steps in a segment of experience, that is, the n of the n-step return."""
    gamma: float = 0.99
    """Discount factor."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus."""
    anneal_steps: int = 0
    """The learning rate falls linearly to 0 over this many agent steps; 0 keeps it."""
    entropy_anneal_steps: int = 0
    """The entropy weight falls linearly to 0 over this many agent steps; 0 keeps it."""
    clip_rewards: bool = True
    """Train on rewards clipped to [-1, 1]. Scores are never clipped."""
    clip_norm: float = 0.0
    """The largest norm of a gradient; 0, as in the original, leaves gradients as they are."""
    optimizer: Optimizer = "rmsprop"
    """rmsprop: epsilon outside the root, mean square from 0; rmsprop-tf: inside and from 1, as
    in the original's TensorFlow; adam."""
    rms_decay: float = 0.99
    """Decay of RMSProp's mean square."""
    rms_epsilon: float = 0.1
    """RMSProp's epsilon."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon."""
    vtrace: bool = False
    """Correct the policy lag by V-trace (Espeholt et al. 2018)."""
    vtrace_rho: float = 1.0
    """V-trace's bound of the importance weights in the errors, rho-bar."""
    vtrace_c: float = 1.0
    """V-trace's bound of the importance weights in the traces, c-bar."""

    agents: int = 32
    """N_A: agents, one environment each."""
    groups: int = 2
    """Groups the agents are split in; a group is stepped together and overlaps with others."""
    predictors: int = 2
    """N_P: threads that batch predictions."""
    trainers: int = 2
    """N_T: threads that batch experience and train."""
    prediction_queue: int = 100
    """The most observations that wait for a prediction."""
    prediction_batch: int = 128
    """The most observations in one prediction."""
    training_queue: int = 500
    """The most samples that wait for training (the original: 100 segments of 5)."""
    least_batch: int = 0
    """Samples in one update; 0, as in the original: each segment is an update of its own."""
    adjust: Adjustment = "none"
    """random-walk: adjust groups, predictors, trainers and training queue while training."""
    adjust_after_s: float = 10.0
    """Seconds before the first adjustment."""
    adjust_every_s: float = 20.0
    """Length of each window in which an adjustment is measured, in seconds."""

    preprocessing: Preprocessing = "standard"
    """Frames of Atari. standard: maximum over two frames, up to 30 no-ops at the start, pixels
    from 0 to 1; original: as the first GA3C, one frame in four, no no-ops, pixels from -1 to 1."""
    sticky_actions: float = 0.0
    """Probability that an Atari emulator repeats the last action instead."""
    full_action_space: bool = False
    """All 18 Atari actions instead of those that the game uses."""
    network: Network = "auto"
    """small, large: those of the paper, for frames; grid: MinAtar's; vector: two small towers."""
    initialization: Initialization = "uniform"
    """First weights. uniform: within 1/sqrt(inputs), as in the original; orthogonal: as newer
    implementations, with a nearly even first policy and biases of 0."""
    stride: int = 4
    """Stride of the large network's first layer, 1 to 4."""

    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    threads: int = 0
    """Threads of one tensor operation on the processor; 0: half of the cores, at least one."""
    compile: Compile = "auto"
    """Whether training is compiled (torch.compile). auto: on a GPU, for frames with fixed batches,
    where it works; on a processor it takes seconds to begin with and gains nothing."""
    seed: int = 0
    """Every random draw of the run is keyed by this seed and the trial's number."""
    trial: int = 0
    """The trial's number."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value < least:
                kind = "negative" if least == 0 else "too small"
                raise LiveError(f"{name}: {value} is {kind}, use {least} or more")
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value > most:
                raise LiveError(f"{name}: {value} is too large, use {most} or less")
        for name in ("learning_rate", "rms_epsilon", "adam_epsilon", "vtrace_rho", "vtrace_c"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise LiveError(f"{name}: {value} must be a finite number above 0")
        for name in ("entropy_weight", "clip_norm", "adjust_after_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise LiveError(f"{name}: {value} must be a finite number, 0 or above")
        if not 0 < self.gamma <= 1:
            raise LiveError(f"gamma: {self.gamma} is outside (0, 1]")
        if not 0 <= self.rms_decay < 1:
            raise LiveError(f"rms_decay: {self.rms_decay} is outside [0, 1)")
        if not 0 <= self.sticky_actions < 1:
            raise LiveError(f"sticky_actions: {self.sticky_actions} is outside [0, 1)")
        if not (math.isfinite(self.adjust_every_s) and self.adjust_every_s >= 0.1):
            raise LiveError(f"adjust_every_s: {self.adjust_every_s} must be 0.1 or more")
        if not 1 <= self.stride <= 4:
            raise LiveError(f"stride: {self.stride} is outside 1 to 4")
        self._check_choices()
        self._check_parts()

    def _check_choices(self) -> None:
        for name, annotation in _CHOICES.items():
            if getattr(self, name) not in annotation.__args__:
                value = getattr(self, name)
                known = list(annotation.__args__)
                hint = nearest(str(value), known)
                raise LiveError(f"{name}: {value!r} is none of {', '.join(known)}{hint}")

    def _check_parts(self) -> None:
        for name in ("groups", "predictors"):
            if getattr(self, name) > self.agents:
                agents = "one agent" if self.agents == 1 else f"{self.agents} agents"
                raise LiveError(f"{name}: {getattr(self, name)} is more than the {agents}")
        if self.vtrace and self.algorithm != "ga3c":
            raise LiveError(f"vtrace: {self.algorithm} has no lag to correct, use it with ga3c")
        if self.algorithm == "a3c" and self.device not in ("auto", "cpu"):
            raise LiveError(f"device: {self.device} is not for a3c, which is a CPU algorithm")
        if self.adjust != "none" and (self.algorithm != "ga3c" or self.overlap == "off"):
            raise LiveError(f"adjust: {self.adjust} needs algorithm ga3c and overlap on")
        if self.adjust != "none" and self.predictors > self.groups:
            raise LiveError(
                f"predictors: {self.predictors} is more than the {self.groups} groups; more can "
                "only idle, so they cannot be adjusted"
            )


def settings_from(fields: Mapping[str, Any]) -> Settings:
    """Return the settings with these names and values, as a file or a message has them.

    Raises:
        LiveError: no such setting, or a value that is not of its kind or cannot work.
    """
    known = list(Settings.__struct_fields__)
    for name in fields:
        if name not in known:
            raise LiveError(f"{name}: is no setting of GA3C{nearest(str(name), known)}")
    try:
        return msgspec.convert(dict(fields), Settings)
    except msgspec.ValidationError as error:  # what Settings itself refuses comes so, too
        reason, _, name = str(error).partition(" - at `$.")
        raise LiveError(f"{name.rstrip('`')}: {reason}" if name else reason) from error


_LEAST = {
    "t_max": 1,
    "agents": 1,
    "groups": 1,
    "predictors": 1,
    "trainers": 1,
    "prediction_queue": 1,
    "prediction_batch": 1,
    "training_queue": 1,
    "least_batch": 0,
    "anneal_steps": 0,
    "entropy_anneal_steps": 0,
    "threads": 0,
    "seed": 0,
    "trial": 0,
}

_MOST = {
    "t_max": 1_000_000,
    "agents": 10_000,
    "groups": 1_000,
    "predictors": 1_000,
    "trainers": 1_000,
    "threads": 1_000,
}
"""Beyond these a number is a slip: the machine would run out of memory or threads, or crash."""

_CHOICES: dict[str, Any] = {
    "algorithm": Algorithm,
    "overlap": Overlap,
    "optimizer": Optimizer,
    "network": Network,
    "preprocessing": Preprocessing,
    "initialization": Initialization,
    "compile": Compile,
    "adjust": Adjustment,
}

PRESETS: dict[str, dict[str, Any]] = {
    "published": {},
    "fast": {
        "agents": 64,
        "predictors": 1,
        "trainers": 1,
        "training_queue": 320,
        "least_batch": 160,
        "learning_rate": 7e-4,
    },
    "repeatable": {
        "overlap": "off",
        "agents": 16,
        "groups": 1,
        "predictors": 1,
        "trainers": 1,
        "least_batch": 80,
        "learning_rate": 7e-4,
        "compile": "off",
    },
}
"""Settings that differ from the defaults.

published: none. fast: 64 agents, one predictor, one trainer and batches of 160, what trains most
samples per second on a few cores. repeatable: by turns in one thread, for one core, in batches
of 80.
"""
