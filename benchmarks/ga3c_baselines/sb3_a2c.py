"""How fast Stable-Baselines3's A2C is with GA3C's network on the same frames.

    pip install -r benchmarks/ga3c_baselines/requirements-sb3.txt   (in an environment of its own)
    python benchmarks/ga3c_baselines/sb3_a2c.py --game Pong --agents 16

Everything but the game's frames and the network is the library's: its rollouts, loss, optimizer
and initial weights. A2C acts and trains by turns. Emulators and torch may each use threads: two
and two was the fastest on two cores, but on cores that others use torch's threads wait for each
other, and `--torch-threads 1` is faster.

Needs nothing of simsched. Prints one line of JSON. `steps_per_s` are agent steps per second of the
measured window, which begins and ends with a rollout; every step is trained on once.

`--environments` says who steps the emulators. ale: ale-py's AtariVectorEnv, in C++ threads, as
simsched has them. processes, one: what the library itself offers its users, `make_atari_env` with
its wrappers and four stacked frames, a process for each emulator or all in one.
"""

import argparse
import time
from typing import Any

import ale_py
import common
import gymnasium
import numpy as np
import torch
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecFrameStack,
)
from torch import Tensor, nn


def make(game: str, agents: int, threads: int) -> VectorEnv[Any, Any, Any]:
    """Make the environments, ended episodes restarting in the same step.

    Atari: 84x84 grey frames, 4 stacked, 4 skipped with the maximum over two, up to 30 no-ops and
    fire at the start, whole games, no sticky actions.
    """
    rom = {name.replace("_", ""): name for name in roms.get_all_rom_ids()}.get(game.lower())
    if rom is not None:
        environments: VectorEnv[Any, Any, Any] = AtariVectorEnv(
            rom,
            agents,
            num_threads=min(threads, agents),
            reward_clipping=False,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        return environments
    if game.startswith("MinAtar/"):
        from minatar.gym import register_envs

        register_envs()
    return gymnasium.make_vec(
        game,
        agents,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )


class Environments(VecEnv):
    """A Gymnasium vector environment as Stable-Baselines3 has them, with the scores kept.

    Rewards go out clipped to [-1, 1]; `episodes` holds (agent steps so far, raw return) of each
    episode that ended, those that ended together in the order of the environments.
    """

    def __init__(self, game: str, agents: int, threads: int) -> None:
        self._made = make(game, agents, threads)
        super().__init__(
            agents, self._made.single_observation_space, self._made.single_action_space
        )
        self.episodes: list[tuple[int, float]] = []
        self.steps = 0
        self._returns = np.zeros(agents)
        self._actions = np.zeros(agents, dtype=np.int64)

    def reset(self) -> Any:
        """Start an episode everywhere, with the seeds last given to `seed`."""
        seeds: Any = self._seeds
        if isinstance(self._made, AtariVectorEnv):
            seeds = None if None in seeds else np.asarray(seeds)
        observations, _ = self._made.reset(seed=seeds)
        self._reset_seeds()
        self._returns[:] = 0.0
        return observations

    def step_async(self, actions: Any) -> None:
        """Remember what to do."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Do it; (n, ...) observations, (n,) clipped rewards, (n,) ends, n dictionaries."""
        observations, rewards, terminated, truncated, info = self._made.step(self._actions)
        self.steps += self.num_envs
        self._returns += rewards
        done = np.logical_or(terminated, truncated)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for agent in np.flatnonzero(done).tolist():
            self.episodes.append((self.steps, float(self._returns[agent])))
            self._returns[agent] = 0.0
            infos[agent] = {
                "terminal_observation": np.asarray(info["final_obs"][agent]),
                "TimeLimit.truncated": bool(truncated[agent] and not terminated[agent]),
            }
        return observations, np.clip(rewards, -1.0, 1.0).astype(np.float32), done, infos

    def close(self) -> None:
        """Release the environments."""
        self._made.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute once per environment; they share what they have."""
        return [getattr(self._made, attr_name, None) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Environments that are stepped as one have no attributes of their own."""
        raise NotImplementedError(f"cannot set {attr_name} of single environments")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Environments that are stepped as one have no methods of their own."""
        raise NotImplementedError(f"cannot call {method_name} of single environments")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002
        """Return that none is."""
        return [False for _ in self._get_indices(indices)]


class Frames(BaseFeaturesExtractor):
    """GA3C's small network for (batch, 4, 84, 84): 16 of 8x8/4, 32 of 4x4/2, a layer of 256."""

    def __init__(self, observation_space: gymnasium.spaces.Box) -> None:
        super().__init__(observation_space, features_dim=256)
        convolutions = nn.Sequential(
            nn.Conv2d(observation_space.shape[0], 16, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            width = convolutions(torch.zeros(1, *observation_space.shape)).shape[1]
        self.network = nn.Sequential(convolutions, nn.Linear(width, 256), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Return (batch, 256); the library has divided the frames by 255."""
        features: Tensor = self.network(observations)
        return features


class Grid(BaseFeaturesExtractor):
    """MinAtar's network for (batch, height, width, channels): 16 of 3x3, a layer of 128."""

    def __init__(self, observation_space: gymnasium.spaces.Box) -> None:
        super().__init__(observation_space, features_dim=128)
        height, width, channels = observation_space.shape
        self.network = nn.Sequential(
            nn.Conv2d(channels, 16, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * (height - 2) * (width - 2), 128),
            nn.ReLU(),
        )

    def forward(self, observations: Tensor) -> Tensor:
        """Return (batch, 128)."""
        features: Tensor = self.network(observations.permute(0, 3, 1, 2))
        return features


def policy(space: gymnasium.Space[Any]) -> dict[str, Any]:
    """Return the network for observations: the same layers as simsched's, linear heads on top.

    Vectors get two towers of 2 x 64 tanh units, which is the library's own default.
    """
    shape = space.shape or ()
    if len(shape) == 3 and space.dtype == np.uint8:
        return {"features_extractor_class": Frames, "net_arch": []}
    if len(shape) == 3 and space.dtype == np.bool_:
        return {"features_extractor_class": Grid, "net_arch": []}
    return {
        "features_extractor_class": FlattenExtractor,
        "net_arch": {"pi": [64, 64], "vf": [64, 64]},
        "activation_fn": nn.Tanh,
    }


class Window(BaseCallback):
    """Ends training after a warm-up and a window, both of whole rollouts with their updates."""

    def __init__(self, warmup_s: float, seconds: float) -> None:
        super().__init__()
        self._warmup_s = warmup_s
        self._seconds = seconds
        self._begin_s = time.perf_counter()
        self._first: dict[str, float] | None = None
        self.spent: dict[str, float] = {}

    def _on_training_start(self) -> None:
        self._begin_s = time.perf_counter()

    def _on_rollout_start(self) -> None:
        now = {
            "wall_time_s": time.perf_counter(),
            "cpu_s": time.process_time(),
            "steps": self.num_timesteps,
        }
        if self._first is None:
            if now["wall_time_s"] - self._begin_s >= self._warmup_s:
                common.say(f"measuring for {self._seconds:g} s …")
                self._first = now
        elif now["wall_time_s"] - self._first["wall_time_s"] >= self._seconds:
            self.spent = {name: now[name] - self._first[name] for name in now}

    def _on_step(self) -> bool:
        return not self.spent


def of_the_library(game: str, agents: int, seed: int, *, processes: bool) -> VecEnv:
    """Return the library's own Atari environments (lives end episodes, rewards are signs)."""
    gymnasium.register_envs(ale_py)
    made = make_atari_env(
        f"{game}NoFrameskip-v4",
        n_envs=agents,
        seed=seed,
        vec_env_cls=SubprocVecEnv if processes else DummyVecEnv,
    )
    return VecFrameStack(made, 4)


def opened(parser: argparse.ArgumentParser, asked: dict[str, Any]) -> VecEnv:
    """Make the environments that were asked for; exit with 2 and one line where there are none."""
    kind = asked.get("environments", "ale")
    game, agents = asked["game"], asked["agents"]
    environments: VecEnv
    try:
        if kind == "ale":
            environments = Environments(game, agents, asked["threads"])
        else:
            processes = kind == "processes"
            environments = of_the_library(game, agents, asked["seed"], processes=processes)
    except (gymnasium.error.Error, ImportError) as error:
        parser.error(f"--game: {game} cannot be made: {error}")
    if not isinstance(environments.action_space, gymnasium.spaces.Discrete):
        environments.close()
        parser.error(f"--game: {game} has no discrete actions")
    return environments


def a2c(environments: VecEnv, *, learning_rate: float, n_steps: int, seed: int) -> A2C:
    """Return A2C at the library's defaults but for the arguments and the entropy weight."""
    return A2C(
        ActorCriticPolicy,
        environments,
        learning_rate=learning_rate,
        n_steps=n_steps,
        gamma=0.99,
        ent_coef=0.01,
        policy_kwargs=policy(environments.observation_space),
        seed=seed,
        device="cpu",
    )


def main() -> None:
    """Read the options, measure, print."""
    parser = common.parser(__doc__, agents=16, seconds=30.0)
    parser.add_argument("--n-steps", type=int, default=5, help="default 5")
    parser.add_argument("--learning-rate", type=float, default=7e-4, help="default 7e-4")
    parser.add_argument("--threads", type=int, default=2, help="of the emulators, default 2")
    parser.add_argument("--torch-threads", type=int, default=2, help="of torch, default 2")
    parser.add_argument(
        "--environments", choices=("ale", "processes", "one"), default="ale", help="default ale"
    )
    asked = vars(common.parse(parser))
    window = Window(asked.pop("warmup"), asked.pop("seconds"))
    torch.set_num_threads(asked["torch_threads"])
    environments = opened(parser, asked)
    try:
        options = {name: asked[name] for name in ("learning_rate", "n_steps", "seed")}
        a2c(environments, **options).learn(10**12, callback=window)
    finally:
        environments.close()
    scores = []
    if isinstance(environments, Environments):
        scores = [score for _, score in environments.episodes]
    wall = window.spent["wall_time_s"]
    result = {
        "steps_per_s": round(window.spent["steps"] / wall, 1),
        "cores_used": round(window.spent["cpu_s"] / wall, 2),
        "wall_time_s": round(wall, 3),
        "episodes": len(scores),
        "mean_score": round(float(np.mean(scores)), 2) if scores else None,
    }
    common.report("sb3-a2c", asked, result)


if __name__ == "__main__":
    common.run(main)
