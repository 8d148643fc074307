"""Evaluation against plain emulators, and videos against the pictures they were made of."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("ale_py")

from ale_py import ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from scripted_network import Scripted, uniform

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c import evaluation, twins
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.evaluation import evaluate
from simsched.live.ga3c.games import atari_games
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.twins import Picture
from simsched.live.ga3c.video import VideoWriter, record_video

pytestmark = pytest.mark.torch


class Spied(EnvironmentGroup):
    """Keeps the seeds and the actions."""

    seeds: ClassVar[list[int]] = []
    taken: ClassVar[list[list[int]]] = []

    def reset(self, seeds: Any) -> NDArray[Any]:
        self.seeds.append(seeds[0])
        self.taken.append([])
        return super().reset(seeds)

    def step(self, actions: NDArray[np.int64]) -> Any:
        self.taken[-1].append(int(actions[0]))
        return super().step(actions)


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> type[Spied]:
    monkeypatch.setattr(evaluation, "EnvironmentGroup", Spied)
    Spied.seeds, Spied.taken = [], []
    return Spied


@pytest.mark.parametrize(("game", "actions"), [("Breakout", 4), ("AirRaid", 6), ("MsPacman", 9)])
def test_score_and_pictures_are_those_of_a_plain_emulator(
    spied: type[Spied], game: str, actions: int
) -> None:
    script = np.random.default_rng(5).integers(0, actions, 120)
    settings = Settings(game=game, preprocessing="original")
    pictures: list[Picture] = []
    [played] = evaluate(
        Scripted(np.eye(actions)[script]),
        settings,
        seed=1,
        greedy=True,
        max_steps=120,
        on_frame=pictures.append,
    )
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", spied.seeds[0])
    ale.loadROM(roms.get_rom_path(atari_games()[game]))
    ale.reset_game()
    legal = ale.getMinimalActionSet()
    screens, rewards = [ale.getScreenRGB()], 0
    for action in script.tolist():
        rewards += sum(ale.act(legal[action]) for _ in range(4))
        screens.append(ale.getScreenRGB())
    assert not ale.game_over()
    assert played == (rewards, 120)
    assert rewards > 0
    assert [np.array_equal(*pair) for pair in zip(pictures, screens, strict=True)] == [True] * 121


@pytest.mark.parametrize(
    ("game", "actions", "episodes", "max_steps"),
    [("Breakout", 4, 2, 27_000), ("Pong", 6, 1, 150), ("MsPacman", 9, 2, 100)],
)
def test_sticky_episodes_are_the_twins_too(
    spied: type[Spied], game: str, actions: int, episodes: int, max_steps: int
) -> None:
    settings = Settings(game=game, sticky_actions=0.25)
    pictures: list[Picture] = []
    plain = evaluate(uniform(actions), settings, seed=2, episodes=episodes, max_steps=max_steps)
    shown = evaluate(
        uniform(actions),
        settings,
        seed=2,
        episodes=episodes,
        max_steps=max_steps,
        on_frame=pictures.append,
    )
    assert shown == plain
    assert len(pictures) == sum(steps + 1 for _, steps in plain)
    assert spied.seeds[:episodes] == spied.seeds[episodes:]
    assert len(set(spied.seeds)) == episodes
    alone = AtariVectorEnv(
        atari_games()[game], 1, num_threads=1, reward_clipping=False, repeat_action_probability=0.25
    )
    for (score, steps), seed, taken in zip(plain, spied.seeds, spied.taken, strict=False):
        alone.reset(seed=np.array([seed]))
        played = [alone.step(np.array([action])) for action in taken]
        assert score == sum(float(rewards[0]) for _, rewards, *_ in played)
        assert [bool(t[0]) for _, _, t, *_ in played] == [False] * (steps - 1) + [steps < max_steps]
    alone.close()


def test_a_twin_that_goes_astray_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    true_reset = twins._AtariTwin.reset
    monkeypatch.setattr(twins._AtariTwin, "reset", lambda self, seed: true_reset(self, seed + 1))
    with pytest.raises(LiveError, match=r"twin of Breakout .* went astray at step"):
        evaluate(uniform(4), Settings(game="Breakout"), seed=2, on_frame=lambda picture: None)


class Drawing(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Ends after 1,000 steps; rewards the action, counted from 5, and draws it as a colour."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 25}
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(3, start=5)

    def __init__(self, render_mode: str | None = None, flaw: str = "") -> None:
        self.render_mode, self._flaw, self._last, self._steps = render_mode, flaw, 5, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self._last = int(action)
        self._steps += 1
        reward = action + (self._flaw == "astray" and self.render_mode is not None)
        return np.zeros(2, np.float32), float(reward), self._steps == 1000, False, {}

    def render(self) -> Any:
        if self._flaw == "fails":
            raise OSError("no screen\nanywhere")
        return "text" if self._flaw == "text" else np.full((4, 6, 3), (self._last - 5) / 2)


class Unseen(Drawing):
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}


@pytest.fixture
def drawing() -> Iterator[None]:
    for flaw in ("", "astray", "text", "fails"):
        name = f"Drawing{flaw.title()}-v0"
        gymnasium.register(name, Drawing, kwargs={"flaw": flaw}, disable_env_checker=True)
    gymnasium.register("Unseen-v0", Unseen, disable_env_checker=True)
    yield
    for name in [key for key in gymnasium.registry if key.startswith(("Drawing", "Unseen"))]:
        del gymnasium.registry[name]


@pytest.mark.usefixtures("drawing")
def test_actions_are_drawn_from_the_policy_or_greedy(spied: type[Spied]) -> None:
    network, settings = Scripted([[0.2, 0.7, 0.1]]), Settings(game="Drawing-v0")
    pictures: list[Picture] = []
    episodes = evaluate(network, settings, seed=7, episodes=2, on_frame=pictures.append)
    for (score, steps), taken in zip(episodes, spied.taken, strict=True):
        counts = np.bincount(taken, minlength=3)
        # Within five standard deviations.
        assert np.abs(counts - [200, 700, 100]).max() < 5 * np.sqrt(1000 * 0.7 * 0.3)
        assert (score, steps) == (5000 + counts @ [0, 1, 2], 1000)
    assert spied.taken[0] != spied.taken[1]
    shades = [int(picture[0, 0, 0]) for picture in pictures]
    assert shades[1:1001] == [{0: 0, 1: 128, 2: 255}[action] for action in spied.taken[0]]
    assert evaluate(network, settings, seed=7) == episodes[:1]
    assert spied.taken[2] == spied.taken[0]
    evaluate(network, settings, seed=8)
    assert spied.taken[3] != spied.taken[0]
    assert evaluate(network, settings, seed=7, greedy=True, max_steps=9) == [(54.0, 9)]


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize(
    ("game", "message"),
    [
        ("DrawingAstray-v0", r"astray at step 1: reward 6.0 and end False, not 5.0 and False"),
        ("DrawingText-v0", r"has no pictures, it draws <U4 of shape \(\)"),
        ("DrawingFails-v0", r"DrawingFails-v0 has no pictures here: no screen$"),
        ("Unseen-v0", r"Unseen-v0 has no pictures, it offers ansi instead of rgb_array"),
    ],
)
def test_what_cannot_be_shown_says_so(game: str, message: str, tmp_path: Path) -> None:
    network, settings = Scripted([[1.0, 0, 0]]), Settings(game=game)
    assert evaluate(network, settings, seed=0, max_steps=3) == [(15.0, 3)]
    with pytest.raises(LiveError, match=message) as caught:
        record_video(network, settings, tmp_path / "a.mp4", seed=0)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(LiveError, match=r"CartPole-v1 .* run `pip install .*classic-control"):
        record_video(uniform(2), Settings(game="CartPole-v1"), tmp_path / "a.mp4", seed=0)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(LiveError, match=r"^av is not installed, .* 'simsched\[live\]'$"):
        VideoWriter(tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_minatar_is_black_where_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minatar")
    settings, seen, pictures = Settings(game="MinAtar/Breakout-v1"), [], list[Picture]()
    network = uniform(3)
    network.register_forward_pre_hook(lambda _, given: seen.append(given[0][0].numpy()))
    [played] = evaluate(network, settings, seed=5, on_frame=pictures.append)
    assert len(pictures) == played.steps + 1 == len(seen) + 1 > 3
    for observation, picture in zip(seen, pictures, strict=False):
        np.testing.assert_array_equal(picture.any(axis=2), observation.any(axis=2))
    monkeypatch.setitem(sys.modules, "seaborn", None)
    with pytest.raises(LiveError, match="needs seaborn for pictures, run `pip install seaborn`"):
        evaluate(network, settings, seed=5, on_frame=pictures.append)


def test_bad_numbers_and_policies() -> None:
    settings = Settings(game="CartPole-v1")
    for name, value in (("seed", -1), ("episodes", 0), ("max_steps", 0)):
        arguments: dict[str, int] = {"seed": 0, name: value}
        with pytest.raises(LiveError, match=f"{name}: {value} is too small, use {value + 1}"):
            evaluate(uniform(2), settings, **arguments)
    with pytest.raises(DivergedError, match="not finite"):
        evaluate(Scripted([[0.5, float("nan")]]), settings, seed=0)
