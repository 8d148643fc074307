"""The rates that bound GA3C: what environments, prediction and training cost by themselves.

    python benchmarks/ga3c_baselines/limits.py --game Pong --cores 2

A process a core, each held to its core with one torch thread, all doing the same at the same time:
- environment: agents / cores emulators in one group with one C++ thread take random actions;
- prediction: the network's policy and values for a batch of all agents;
- training: loss, gradients and RMSProp on all parameters for one batch, the loss compiled.

Prints one line of JSON. With e, p and t the seconds of one core that a step costs in each, c cores
make at most c / (e + p + t) steps per second that are predicted once and trained on once: no queue,
copy, lock or idle moment is counted. `limit_steps_per_s` takes e, p, t from processor time, which
other programs slow only through shared caches and hyperthreads; `limit_by_clock_steps_per_s` takes
them from the wall clock.
"""

import multiprocessing
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import Any, NamedTuple

import common
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simsched.live.errors import LiveError
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.loss import actor_critic_loss
from simsched.live.ga3c.memory import keep_freed_memory
from simsched.live.ga3c.network import build
from simsched.live.ga3c.settings import Settings

PATIENCE_S = 600.0
"""How long one core waits for another, whose compiler may be at work."""

BATCHES = 8
"""Different batches to train on in turn, so that frames come from memory as they would."""


class Cost(NamedTuple):
    """What a step costs one core."""

    cpu_s: float
    wall_time_s: float


class Task(NamedTuple):
    """What each core is to do."""

    settings: Settings
    cores: int
    train_batch: int
    compiled: bool
    warmup_s: float
    seconds: float


def main() -> None:
    """Read the options, measure, print."""
    parser = common.parser(__doc__, agents=32, seconds=10.0)
    allowed = sorted(os.sched_getaffinity(0))
    parser.add_argument("--cores", type=int, default=len(allowed), help="default: all allowed")
    parser.add_argument("--train-batch", type=int, default=160, help="default 160")
    parser.add_argument("--eager", action="store_true", help="do not compile the loss")
    asked = vars(common.parse(parser))
    cores = asked["cores"]
    if cores > len(allowed) or asked["agents"] % cores:
        parser.error(
            f"--cores: {cores} must be at most {len(allowed)} and divide the "
            f"{asked['agents']} agents"
        )
    window = (asked.pop("warmup"), asked.pop("seconds"))
    try:
        settings = Settings(
            game=asked["game"], agents=asked["agents"], groups=cores, seed=asked["seed"]
        )
        EnvironmentGroup(settings, 1).close()
    except LiveError as error:
        parser.error(str(error))
    task = Task(settings, cores, asked["train_batch"], not asked["eager"], *window)
    common.report("limits", asked, summary(on_cores(task, allowed[:cores]), cores))


def summary(costs: list[dict[str, Cost]], cores: int) -> dict[str, Any]:
    """Return the mean cost of each part over the cores, and the limits that follow."""
    result: dict[str, Any] = {}
    by_cpu = by_clock = 0.0
    for part, letter in (("environment", "e"), ("prediction", "p"), ("training", "t")):
        cpu = statistics.fmean(cost[part].cpu_s for cost in costs)
        clock = statistics.fmean(cost[part].wall_time_s for cost in costs)
        result[f"{letter}_{part}_cpu_s"] = float(f"{cpu:.4g}")
        result[f"{letter}_{part}_clock_s"] = float(f"{clock:.4g}")
        rate = sum(1.0 / cost[part].wall_time_s for cost in costs)
        result[f"{part}_only_per_s"] = round(rate, 1)
        by_cpu += cpu
        by_clock += clock
    result["limit_steps_per_s"] = round(cores / by_cpu, 1)
    result["limit_by_clock_steps_per_s"] = round(cores / by_clock, 1)
    return result


def on_cores(task: Task, cores: list[int]) -> list[dict[str, Cost]]:
    """Measure on each of the cores at once; RuntimeError if one of them fails."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(len(cores))
    results: SimpleQueue[dict[str, Cost]] = context.SimpleQueue()
    processes = [
        context.Process(target=on_core, args=(core, task, together, results), daemon=True)
        for core in cores
    ]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            if process.exitcode != 0:
                sys.exit("error: a measurement failed, see above")
        return [results.get() for _ in processes]
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()


def on_core(
    core: int, task: Task, together: Barrier, results: "SimpleQueue[dict[str, Cost]]"
) -> None:
    """Measure the three parts on one core, beside the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    keep_freed_memory()
    try:
        random = np.random.default_rng([task.settings.seed, core])
        group = EnvironmentGroup(task.settings, task.settings.agents // task.cores)
        costs = {}
        common.say(f"core {core}: environment, prediction, training …")
        costs["environment"] = cost(acting(group, random), task, together)
        frames = recorded(group, random, max(task.settings.agents, task.train_batch * BATCHES))
        group.close()
        shape = (group.observation_shape, group.observation_dtype, group.actions)
        network = build(task.settings, *shape, task.settings.seed)
        costs["prediction"] = cost(predicting(network, frames, task), task, together)
        steps = training(network, frames, group.actions, random, task)
        costs["training"] = cost(steps, task, together)
        results.put(costs)
    except BaseException:
        together.abort()
        raise


def cost(work: Iterator[int], task: Task, together: Barrier) -> Cost:
    """Return the seconds of a step; each item of `work` is how many steps it just did."""
    next(work)  # whatever is made once, compiled code too
    together.wait(PATIENCE_S)
    end = time.perf_counter() + task.warmup_s
    while time.perf_counter() < end:
        next(work)
    steps, cpu, begin = 0, time.process_time(), time.perf_counter()
    while (now := time.perf_counter()) < begin + task.seconds:
        steps += next(work)
    return Cost((time.process_time() - cpu) / steps, (now - begin) / steps)


def acting(group: EnvironmentGroup, random: np.random.Generator) -> Iterator[int]:
    """Take random actions."""
    group.reset(random.integers(2**31 - 1, size=group.size).tolist())
    while True:
        group.step(random.integers(group.actions, size=group.size))
        yield group.size


def recorded(group: EnvironmentGroup, random: np.random.Generator, count: int) -> NDArray[Any]:
    """Return (count, ...) observations of random play."""
    seen: list[NDArray[Any]] = []
    while len(seen) * group.size < count:
        seen.append(group.step(random.integers(group.actions, size=group.size)).observations)
    return np.concatenate(seen)[:count]


def predicting(network: nn.Module, frames: NDArray[Any], task: Task) -> Iterator[int]:
    """Predict for a batch of all agents."""
    size = task.settings.agents
    starts = cycle(range(0, len(frames) - size + 1, size))
    while True:
        start = next(starts)
        with torch.inference_mode():
            logits, values = network(torch.from_numpy(frames[start : start + size]))
            torch.softmax(logits, dim=1).numpy()
            values.numpy()
        yield size


def training(
    network: nn.Module,
    frames: NDArray[Any],
    actions: int,
    random: np.random.Generator,
    task: Task,
) -> Iterator[int]:
    """Update the network with one batch."""
    settings, size = task.settings, task.train_batch
    optimizer = torch.optim.RMSprop(
        network.parameters(),
        lr=settings.learning_rate,
        alpha=settings.rms_decay,
        eps=settings.rms_epsilon,
        foreach=True,
    )

    def loss(observations: Tensor, chosen: Tensor, returns: Tensor) -> Tensor:
        logits, values = network(observations)
        return actor_critic_loss(logits, values, chosen, returns, settings.entropy_weight)

    function: Callable[..., Tensor] = torch.compile(loss) if task.compiled else loss
    chosen = torch.from_numpy(random.integers(actions, size=size))
    returns = torch.from_numpy(random.normal(size=size).astype(np.float32))
    starts = cycle(range(0, len(frames) - size + 1, size))
    while True:
        start = next(starts)
        value = function(torch.from_numpy(frames[start : start + size]), chosen, returns)
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield size


if __name__ == "__main__":
    common.run(main)
