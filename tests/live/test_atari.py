"""Atari environments against a plain emulator and environments made apart, driven by hand."""

import functools
import inspect
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ale_py")

from ale_py import Action, ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from environment_rig import Spied, UniformPredictor, make
from gymnasium.vector import AutoresetMode

from simsched.live.ga3c import environment
from simsched.live.ga3c.agents import AgentGroup, Episode
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.settings import Settings

pytestmark = pytest.mark.torch

Frame = NDArray[np.float64]
HALF = 0.501
"""Rounding to whole greys, and some."""


def overlaps(pixels: int, cells: int) -> Frame:
    """Share of each pixel in each of fewer, wider cells."""
    edges = np.arange(cells + 1) * pixels / cells
    left = np.maximum(edges[:-1, None], np.arange(pixels))
    right = np.minimum(edges[1:, None], np.arange(1, pixels + 1))
    shares: Frame = np.clip(right - left, 0, None) * cells / pixels
    return shares


ROWS, COLUMNS = overlaps(210, 84), overlaps(160, 84)


class Emulator:
    """A plain emulator, four frames a step; its screens shrunk by averaging areas."""

    def __init__(self, rom: str, seed: int, sticky: float = 0.0) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", sticky)
        path = roms.get_rom_path(rom)
        assert path is not None
        self.ale.loadROM(path)
        self.ale.reset_game()
        self.actions = self.ale.getMinimalActionSet()

    def screen(self) -> Frame:
        return self.ale.getScreenGrayscale().astype(np.float64)

    def step(self, action: int) -> tuple[float, list[Frame]]:
        """Reward and screens of up to four frames; the game may be over before."""
        reward, screens = 0.0, list[Frame]()
        while len(screens) < 4 and not self.ale.game_over():
            reward += self.ale.act(self.actions[action])
            screens.append(self.screen())
        return reward, screens


def shrunk(screen: Frame) -> Frame:
    return ROWS @ screen @ COLUMNS.T


def same(frame: NDArray[np.uint8], screen: Frame) -> bool:
    return bool(np.abs(frame - shrunk(screen)).max() < HALF)


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_original_frames_and_rewards_are_those_of_a_plain_emulator(sticky: float) -> None:
    """No maximum over two frames, no no-ops, no start by fire: three whole games of Breakout."""
    environments = make("Breakout", preprocessing="original", sticky_actions=sticky)
    emulator = Emulator("breakout", 7, sticky)
    observation = environments.reset([7])[0]
    stack = [np.zeros((210, 160))] * 3 + [emulator.screen()]
    rng = np.random.default_rng(0)
    games = paid = 0
    while games < 3:
        if rng.random() < 0.3:  # not at every step: shrinking is slow
            assert all(
                same(frame, screen) for frame, screen in zip(observation, stack, strict=True)
            )
        action = int(rng.integers(4))
        step = environments.step(np.array([action]))
        reward, screens = emulator.step(action)
        paid += int(reward)
        assert step.rewards[0] == reward
        assert step.terminated[0] == emulator.ale.game_over()
        assert not step.truncated[0]
        observation = step.observations[0]
        stack = [*stack[1:], screens[-1]]
        if step.terminated[0]:
            games += 1
            emulator.ale.reset_game()
            stack = [np.zeros((210, 160))] * 3 + [emulator.screen()]
            assert all(same(f, s) for f, s in zip(observation, stack, strict=True))
    environments.close()
    assert paid > 0


def test_standard_frames_are_the_maximum_of_the_last_two_after_some_no_ops() -> None:
    """How many no-ops is not told: of emulators with 0 to 30, one fits at every step."""
    environments = make("MsPacman")
    observation = environments.reset([7])[0]
    candidates = {}
    looked_at = Emulator("ms_pacman", 7)
    for no_ops in range(31):
        if same(observation[3], looked_at.screen()):
            candidates[no_ops] = Emulator("ms_pacman", 7)
            for _ in range(no_ops):
                candidates[no_ops].ale.act(Action.NOOP)
        looked_at.ale.act(Action.NOOP)
    assert len(candidates) > 1
    assert not observation[:3].any()
    rng = np.random.default_rng(0)
    newest, differs = [observation[3]], 0
    for _ in range(40):
        action = int(rng.integers(9))
        step = environments.step(np.array([action]))
        assert not step.terminated[0]
        newest.append(step.observations[0][3])
        for old, frame in zip(newest[-4:], step.observations[0][-len(newest[-4:]) :], strict=True):
            assert np.array_equal(old, frame)
        for no_ops, emulator in list(candidates.items()):
            reward, screens = emulator.step(action)
            fits = same(newest[-1], np.maximum(screens[-1], screens[-2]))
            if not (fits and reward == step.rewards[0]):
                del candidates[no_ops]
            elif not same(newest[-1], screens[-1]):
                differs += 1
    environments.close()
    assert len(candidates) == 1
    assert next(iter(candidates)) > 0
    assert differs > 5  # the game flickers: without the maximum it would not have fitted


@pytest.mark.parametrize(
    ("game", "rom", "fields", "options"),
    [
        ("MsPacman", "ms_pacman", {}, {}),
        ("MsPacman", "ms_pacman", {"sticky_actions": 0.25}, {"repeat_action_probability": 0.25}),
        (
            "Breakout",
            "breakout",
            {"preprocessing": "original", "full_action_space": True},
            {"maxpool": False, "noop_max": 0, "use_fire_reset": False, "full_action_space": True},
        ),
    ],
)
def test_atari_scores_are_unclipped_raw_rewards(
    game: str, rom: str, fields: dict[str, Any], options: dict[str, Any]
) -> None:
    """Rewards of a separately made environment, fed the same actions, counted by hand."""
    environments = Spied(Settings(game=game, **fields), 2)
    knobs = Knobs(Settings(game=game, **fields))
    agents = AgentGroup(environments, knobs, np.random.SeedSequence(4))
    scores: list[Episode] = []
    largest = 0.0
    while len(scores) < 2:
        segments, ended = agents.step(UniformPredictor(environments.actions))
        scores += ended
        largest = max([largest, *(r for segment in segments for r in segment.rewards)])
    environments.close()
    separate = AtariVectorEnv(
        rom,
        2,
        num_threads=1,
        reward_clipping=False,
        autoreset_mode=AutoresetMode.SAME_STEP,
        **options,
    )
    separate.reset(seed=np.asarray(environments.seeds))
    totals, lengths, expected = [0, 0], [0, 0], []
    for actions in environments.taken:
        _, rewards, terminated, truncated, _ = separate.step(actions)
        for agent in range(2):
            totals[agent] += int(rewards[agent])
            lengths[agent] += 1
            if terminated[agent] or truncated[agent]:
                expected.append((agent, float(totals[agent]), lengths[agent]))
                totals[agent] = lengths[agent] = 0
    separate.close()
    assert [tuple(episode) for episode in scores] == expected
    if game == "MsPacman":
        assert max(score for _, score, _ in expected) >= 60  # dots give 10 each
    assert largest == 1.0  # and are trained on as 1


def test_an_atari_game_that_lasts_too_long_is_cut_by_a_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At 108,000 frames; here at 400, which are 100 steps."""
    parameters = inspect.signature(AtariVectorEnv).parameters
    assert parameters["max_num_frames_per_episode"].default == 108_000
    short = functools.partial(AtariVectorEnv, max_num_frames_per_episode=400)
    monkeypatch.setattr(environment, "AtariVectorEnv", short)
    environments = make("Pong", preprocessing="original")
    environments.reset([7])
    emulator = Emulator("pong", 7)
    rng = np.random.default_rng(0)
    stack: list[Frame] = []
    for k in range(100):
        action = int(rng.integers(6))
        step = environments.step(np.array([action]))
        stack.append(emulator.step(action)[1][-1])
        assert not step.terminated[0]
        assert step.truncated[0] == (k == 99)
    environments.close()
    # ale-py 0.12 does not fetch the very last screen: the one before it stands there twice.
    final = np.asarray(step.final_observations[0])[:3]
    assert all(same(frame, screen) for frame, screen in zip(final, stack[-4:-1], strict=True))
    assert not step.observations[0][:3].any()  # the next game's first frame stands alone
