"""Puts a worker's parts together: which engine, how many of each, on which device."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from simsched.live.errors import LiveError
from simsched.live.ga3c.a3c import A3CEngine
from simsched.live.ga3c.adjust import Parts, RandomWalk, Strategy
from simsched.live.ga3c.agents import AgentGroup
from simsched.live.ga3c.batches import Batcher
from simsched.live.ga3c.captured import try_capture
from simsched.live.ga3c.compiled import compile_loss, require_compilable, worth_compiling
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.monitor import Monitor
from simsched.live.ga3c.overlapped import OverlappedEngine
from simsched.live.ga3c.predictor import NetworkPredictor
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.trainer import LossFunction, Trainer, a3c_loss
from simsched.live.ga3c.transfer import Transfer
from simsched.live.ga3c.turns import A2CEngine, Engine, TurnsEngine
from simsched.live.machine import available_cores


class Sizes(NamedTuple):
    """How the agents are split, and how many parts there are at most."""

    groups: list[int]
    """Agents of each group; `settings.groups` of them act at first."""
    predictors: int
    trainers: int


def overlaps(
    settings: Settings, *, frames: bool, device: torch.device, cores: int | None = None
) -> bool:
    """Whether GA3C's parts run in threads of their own.

    Args:
        settings: of the worker.
        frames: whether it sees frames.
        device: the network's.
        cores: that the worker has; by default those this process may use.
    """
    if settings.algorithm != "ga3c" or settings.overlap == "off":
        return False
    if settings.overlap == "on" or settings.adjust != "none":
        return True
    return frames and (device.type == "cuda" or (cores or len(available_cores())) > 1)


def limits(settings: Settings) -> tuple[Parts, Parts]:
    """Return the least and the most of each part that adjustment may choose."""
    # A queue shorter than a batch works, so a start with a shorter one is within the limits.
    queue = min(max(settings.least_batch // 2, settings.t_max), settings.training_queue)
    least = Parts(1, 1, 1, queue)
    groups = 2 * settings.groups
    most = Parts(
        groups,
        max(settings.predictors, min(groups, 4)),
        max(settings.trainers, 4),
        8 * settings.training_queue,
    )
    return least, most


def sizes(settings: Settings) -> Sizes:
    """Return the parts to construct: those in use, or all that adjustment may choose."""
    per_group, extra = divmod(settings.agents, settings.groups)
    groups = [per_group + (k < extra) for k in range(settings.groups)]
    if settings.adjust == "none":
        return Sizes(groups, settings.predictors, settings.trainers)
    _, most = limits(settings)
    groups += [per_group] * (most.groups - len(groups))
    return Sizes(groups, most.predictors, most.trainers)


class Assembly(NamedTuple):
    """What an engine is made of."""

    settings: Settings
    learner: Learner
    transfer: Transfer
    monitor: Monitor
    environments: EnvironmentGroup
    """The first group; the others are made like it."""
    seed_key: tuple[int, ...]
    start_steps: int
    random_states: dict[str, Any]
    """Of a checkpoint: `groups` and, where parts are adjusted, `adjust`; empty without one."""


def make_engine(assembly: Assembly, clock: Callable[[], float] | None) -> Engine:
    """Return the engine that the settings ask for; it is at work if it has threads.

    Args:
        assembly: the parts.
        clock: for engines in one thread: what training seconds are measured with.
    """
    settings, device = assembly.settings, assembly.transfer.device
    overlapped = overlaps(settings, frames=assembly.environments.frames, device=device)
    require_compilable(settings, overlapped=overlapped)
    if overlapped:
        if clock is not None and clock is not time.monotonic:
            raise LiveError("clock: cpu measures training in one thread; use wall")
        return _overlapped(assembly)
    if settings.algorithm == "a3c":
        if clock is not None and clock is not time.monotonic:
            raise LiveError("clock: cpu measures training in one thread; use wall")
        assembly.environments.close()  # each process makes its own
        learner, monitor = assembly.learner, assembly.monitor
        return A3CEngine(learner, monitor, assembly.seed_key, assembly.start_steps)
    group = _group(assembly, assembly.environments, 0, stagger=settings.algorithm == "ga3c")
    kind = A2CEngine if settings.algorithm == "a2c" else TurnsEngine
    return kind(
        assembly.learner.knobs,
        group,
        _predictor(assembly),
        Trainer(assembly.learner, assembly.transfer),
        assembly.monitor,
        clock or time.monotonic,
        assembly.start_steps,
    )


def _overlapped(assembly: Assembly) -> Engine:
    settings, first = assembly.settings, assembly.environments
    split = sizes(settings)
    threads = len(available_cores())
    groups = [_group(assembly, first, 0, stagger=True)]
    for k, size in enumerate(split.groups[1:], start=1):
        environments = EnvironmentGroup(settings, size, threads=threads)
        groups.append(_group(assembly, environments, k, stagger=True))
    replicas = [assembly.learner.replica() for _ in range(split.trainers)]
    loss: LossFunction = a3c_loss
    if worth_compiling(settings, frames=first.frames, device=assembly.transfer.device):
        shape, dtype = first.observation_shape, first.observation_dtype
        loss = compile_loss(replicas, settings, assembly.transfer, shape, dtype)
    return OverlappedEngine(
        settings,
        groups,
        [_predictor(assembly) for _ in range(split.predictors)],
        [
            Trainer(assembly.learner, assembly.transfer, replica=replica, loss=loss)
            for replica in replicas
        ],
        Batcher(assembly.learner.knobs),
        assembly.monitor,
        assembly.start_steps,
        _strategy(assembly),
    )


def _strategy(assembly: Assembly) -> Strategy | None:
    settings = assembly.settings
    if settings.adjust == "none":
        return None
    least, most = limits(settings)
    start = Parts(settings.groups, settings.predictors, settings.trainers, settings.training_queue)
    random = np.random.default_rng(np.random.SeedSequence((*assembly.seed_key, 2)))
    walk = RandomWalk(start, least, most, random)
    if "adjust" in assembly.random_states:
        walk.restore(assembly.random_states["adjust"])
    return walk


def first_group_size(settings: Settings, *, overlapped: bool) -> int:
    """Return how many agents the first group has: all, unless groups overlap.

    For A3C it is one, to learn of the game: each process makes its own.
    """
    if settings.algorithm == "a3c":
        return 1
    return sizes(settings).groups[0] if overlapped else settings.agents


def _group(
    assembly: Assembly, environments: EnvironmentGroup, k: int, *, stagger: bool
) -> AgentGroup:
    seeds = np.random.SeedSequence((*assembly.seed_key, assembly.start_steps, *([k] if k else [])))
    group = AgentGroup(environments, assembly.learner.knobs, seeds, stagger=stagger)
    states = assembly.random_states.get("groups", [])
    if k < len(states):
        group.random.bit_generator.state = states[k]
    return group


def _predictor(assembly: Assembly) -> NetworkPredictor:
    first, most = assembly.environments, assembly.settings.prediction_batch
    shape, dtype = first.observation_shape, first.observation_dtype
    captured = try_capture(assembly.learner.network, most, shape, dtype)
    return NetworkPredictor(assembly.learner, assembly.transfer, most, captured)
