"""The contenders of learning.py: each trains on a game and gives the score of every episode."""

import csv
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from simsched import traces
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.settings import PRESETS, Settings
from simsched.live.ga3c.worker import Worker
from simsched.live.run_one import CURVE, plan_run, read_run, run

SB3_SCALE: dict[str, Any] = {"rms_epsilon": 8e-4, "clip_norm": 40.0}
"""What Stable-Baselines3's mean over 80 samples with 1e-5 and 0.5 is for a sum over them."""
SB3_DRAW: dict[str, Any] = {**SB3_SCALE, "initialization": "orthogonal"}
OURS: dict[str, dict[str, Any]] = {
    "GA3C, preset repeatable": {},
    "A2C, preset repeatable": {"algorithm": "a2c"},
    "GA3C, SB3's scale": SB3_SCALE,
    "A2C, SB3's scale": {"algorithm": "a2c", **SB3_SCALE},
    "GA3C, SB3's scale and draw": SB3_DRAW,
    "A2C, SB3's scale and draw": {"algorithm": "a2c", **SB3_DRAW},
}
"""What differs from the preset `repeatable`."""
FAST, SB3, RANDOM = "GA3C, preset fast", "Stable-Baselines3 A2C", "random play"
CONTENDERS = (*OURS, FAST, SB3, RANDOM)

Episodes = Iterable[tuple[int, float]]
"""Agent steps when an episode ended, and its score."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    game: str
    contender: str
    steps: int
    seed: int


def ours(case: Case) -> Episodes:
    """Train with simsched."""
    fields = {**PRESETS["repeatable"], **OURS[case.contender]}
    worker = Worker(Settings(game=case.game, threads=1, seed=case.seed, **fields))
    try:
        while worker.steps < case.steps and worker.diverged is None:
            for row in worker.advance():
                yield row.steps, row.score
        if worker.diverged is not None:
            raise SystemExit(f"error: {case}: {worker.diverged}")
    finally:
        worker.close()


def fast(case: Case, runs: Path) -> tuple[Episodes, float]:
    """Train with the preset `fast`, as `simsched train` does: in threads, in a folder.

    A run that was stopped, or whose process died, goes on from its newest checkpoint. Returns
    the episodes and the training seconds, of all its processes.
    """
    folder = runs / f"{case.game.replace('/', '-')}-{case.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "plan.json").exists():
        plan = read_run(folder)
        if (plan.game, plan.steps, plan.seed) != (case.game, case.steps, case.seed):
            raise SystemExit(f"error: {folder}: is a run of {plan.game}, {plan.steps:,} steps")
    else:
        plan = plan_run(Settings(game=case.game, seed=case.seed, **PRESETS["fast"]), case.steps)
    end = run(plan, folder, lambda _: None, tensorboard=False)
    if end is None:
        raise SystemExit(f"error: {folder}: stopped; the same command goes on")
    if end == "diverged":
        raise SystemExit(f"error: {folder}: diverged")
    curve = traces.read(folder / CURVE).traces[0]
    ended = ~np.isnan(curve.score)  # the last row may have counters only
    episodes = list(zip(curve.steps[ended].tolist(), curve.score[ended].tolist(), strict=True))
    return episodes, float(curve.seconds[-1])


def stable_baselines(case: Case, python: str) -> Episodes:
    """Train with Stable-Baselines3, in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "scores.csv"
        script = Path(__file__).parent / "ga3c_baselines" / "learning_sb3.py"
        options = {"game": case.game, "steps": case.steps, "seed": case.seed, "out": out}
        pairs = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        done = subprocess.run(
            [python, str(script), *pairs], capture_output=True, text=True, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"error: {case}: {done.stderr.strip().splitlines()[-1]}")
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
    return [(int(row["steps"]), float(row["score"])) for row in rows]


def random_play(case: Case) -> Episodes:
    """Play at random; with the preset's agents."""
    settings = Settings(game=case.game, **PRESETS["repeatable"])
    group = EnvironmentGroup(settings, settings.agents)
    random = np.random.default_rng(case.seed)
    group.reset(random.integers(0, 2**31 - 1, size=group.size).tolist())
    returns = np.zeros(group.size)
    try:
        for steps in range(group.size, case.steps + 1, group.size):
            step = group.step(random.integers(0, group.actions, size=group.size))
            returns += step.rewards
            for agent in np.flatnonzero(step.terminated | step.truncated):
                yield steps, float(returns[agent])
                returns[agent] = 0.0
    finally:
        group.close()
