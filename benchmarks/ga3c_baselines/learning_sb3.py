"""How well Stable-Baselines3's A2C learns a game: the score of every episode, for a comparison.

    python benchmarks/ga3c_baselines/learning_sb3.py --game Pong --steps 1000000 --out pong.csv

Writes `steps,score`: the agent steps of all environments when an episode ended, and its return of
raw rewards; episodes that ended together stand in the order of the environments. Atari's frames
and clipped rewards are as in sb3_a2c.py. Networks are simsched's layer by layer (frames: GA3C's
small one; MinAtar: one convolution, a layer of 128; vectors: two towers of 2 x 64 tanh), drawn
orthogonally, as the library does. Losses are means over the batch and gradients are clipped at
0.5, where simsched sums and does not clip: give each its own learning rate.

With `--threads 1 --torch-threads 1`, the defaults, the same seed gives the same file. Needs nothing
of simsched. Prints one line of JSON.
"""

import csv
import os
import time
from pathlib import Path
from typing import Any, TextIO

import common
import numpy as np
import torch
from sb3_a2c import Environments, a2c, opened
from stable_baselines3.common.callbacks import BaseCallback

SAY_EVERY_S = 10.0


class Recorder(BaseCallback):
    """Writes the episodes that ended and ends training at the first step that makes the number."""

    def __init__(self, environments: Environments, file: TextIO, steps: int) -> None:
        super().__init__()
        self._environments = environments
        self._rows = csv.writer(file, lineterminator="\n")
        self._rows.writerow(("steps", "score"))
        self._steps = steps
        self._said_s = time.perf_counter()
        self.scores: list[float] = []

    def _on_step(self) -> bool:
        for steps, score in self._environments.episodes:
            self._rows.writerow((steps, f"{score:g}"))
            self.scores.append(score)
        self._environments.episodes.clear()
        if time.perf_counter() - self._said_s >= SAY_EVERY_S:
            self._said_s = time.perf_counter()
            common.say(f"{self.num_timesteps:,} steps, last 100 episodes {self.recent():.2f}")
        return self.num_timesteps < self._steps

    def recent(self) -> float:
        """Return the mean score of the last 100 episodes; NaN before the first has ended."""
        return float(np.mean(self.scores[-100:])) if self.scores else float("nan")


def train(environments: Environments, asked: dict[str, Any], out: Path) -> dict[str, Any]:
    """Train and write `out`, which is there only when it is complete."""
    partial = out.with_name(f"{out.name}.{os.getpid()}.part")
    begin_s = time.perf_counter()
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            recorder = Recorder(environments, file, asked["steps"])
            options = {name: asked[name] for name in ("learning_rate", "n_steps", "seed")}
            a2c(environments, **options).learn(asked["steps"], callback=recorder)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
        environments.close()
    wall = time.perf_counter() - begin_s
    return {
        "trained_steps": environments.steps,
        "steps_per_s": round(environments.steps / wall, 1),
        "wall_time_s": round(wall, 3),
        "episodes": len(recorder.scores),
        "mean_score_last_100": round(recorder.recent(), 2) if recorder.scores else None,
    }


def main() -> None:
    """Read the options, train, print."""
    parser = common.parser(__doc__, agents=16, seconds=None)
    parser.add_argument("--steps", type=int, required=True, help="agent steps of all agents")
    parser.add_argument("--n-steps", type=int, default=5, help="default 5")
    parser.add_argument("--learning-rate", type=float, default=7e-4, help="default 7e-4")
    parser.add_argument("--threads", type=int, default=1, help="of the emulators, default 1")
    parser.add_argument("--torch-threads", type=int, default=1, help="of torch, default 1")
    parser.add_argument("--out", type=Path, required=True, help="the CSV file to write")
    asked = vars(common.parse(parser))
    out = asked.pop("out")
    if not out.parent.is_dir():
        parser.error(f"--out: there is no folder {out.parent}")
    torch.set_num_threads(asked["torch_threads"])
    common.report("sb3-a2c-learning", asked, train(opened(parser, asked), asked, out))


if __name__ == "__main__":
    common.run(main)
