"""Environments: games by their seeds, actions from 0 on, and ends told from time limits."""

from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ale_py")

from environment_rig import make

from simsched.live.errors import LiveError

pytestmark = pytest.mark.torch


def test_sticky_actions_and_seeds_make_other_games() -> None:
    def play(seed: int, *, threads: int = 1, **fields: Any) -> bytes:
        environments = make("Breakout", 2, threads=threads, **fields)
        played = environments.reset([seed, seed + 1]).tobytes()
        rng = np.random.default_rng(0)
        for _ in range(20):
            step = environments.step(rng.integers(0, 4, 2))
            played += step.observations.tobytes() + step.rewards.tobytes()
        environments.close()
        return played

    first = play(3)
    assert play(3) == first == play(3, threads=2)
    assert play(5) != first
    assert play(3, sticky_actions=0.25) != first
    assert play(3, preprocessing="original") != first
    assert play(3, sticky_actions=0.25) == play(3, sticky_actions=0.25, threads=2)


@pytest.mark.parametrize(("game", "minimal"), [("Breakout", 4), ("Pong", 6), ("MsPacman", 9)])
def test_action_sets(game: str, minimal: int) -> None:
    for full, number in ((False, minimal), (True, 18)):
        environments = make(game, full_action_space=full)
        assert environments.actions == number
        assert environments.observation_shape == (4, 84, 84)
        assert environments.observation_dtype == np.uint8
        environments.reset([1])
        environments.step(np.array([number - 1]))  # the last one works
        environments.close()


@pytest.mark.parametrize(
    ("game", "fields", "actions", "shown"),
    [
        ("MsPacman", {}, [9], "[9] must be 1 whole numbers from 0 to 8"),
        (
            "MsPacman",
            {"full_action_space": True},
            [18],
            "[18] must be 1 whole numbers from 0 to 17",
        ),
        ("MsPacman", {}, [-1], "[-1] must be 1 whole numbers from 0 to 8"),
        ("MsPacman", {}, [1, 1], "[1, 1] must be 1 whole numbers from 0 to 8"),
        ("MsPacman", {}, [], "[] must be 1 whole numbers from 0 to 8"),
        ("CartPole-v1", {}, [2], "[2] must be 1 whole numbers from 0 to 1"),
    ],
)
def test_an_action_out_of_range_is_refused_before_ale_waits_for_ever(
    game: str, fields: dict[str, Any], actions: list[int], shown: str
) -> None:
    environments = make(game, **fields)
    environments.reset([1])
    with pytest.raises(LiveError) as caught:
        environments.step(np.array(actions, dtype=np.int64))
    assert str(caught.value) == f"actions: {shown}"
    assert environments.step(np.array([1])).rewards.shape == (1,)  # it still works
    environments.close()


def test_time_limits_are_told_from_true_ends() -> None:
    environments = make("MountainCar-v0", 2)  # nothing random reaches its flag
    environments.reset([1, 2])
    for k in range(200):
        step = environments.step(np.array([0, 2]))
        assert not step.terminated.any()
        assert step.truncated.tolist() == [k == 199] * 2
    final = np.asarray(step.final_observations[0])
    assert final.shape == (2,)
    assert not np.array_equal(final, step.observations[0])
    environments.close()


class Counting(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Counts its steps; actions are 5, 6 and 7: to go on, to end, and to end on the limit, too."""

    observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3, start=5)
    seen: ClassVar[list[int]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._look(), {}

    def step(
        self, action: np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.seen.append(int(action))
        self.count += 1
        return self._look(), 2.5, bool(action >= 6), bool(action == 7), {}

    def _look(self) -> NDArray[np.float32]:
        return np.array([self.count], dtype=np.float32)


@pytest.fixture
def counting() -> Iterator[str]:
    gymnasium.register("Counting-v0", lambda **options: Counting())
    Counting.seen.clear()
    yield "Counting-v0"
    del gymnasium.registry["Counting-v0"]


def test_actions_are_counted_from_0_whatever_the_space_starts_with(counting: str) -> None:
    environments = make(counting)
    assert environments.actions == 3
    assert environments.reset([0]).tolist() == [[0.0]]
    ends: list[Any] = []
    for action in (0, 0, 1, 0, 2):
        step = environments.step(np.array([action]))
        ends.append((step.observations[0, 0], bool(step.terminated[0]), bool(step.truncated[0])))
        assert step.rewards.tolist() == [2.5]
        if step.terminated[0]:
            ends.append(float(np.asarray(step.final_observations[0])[0]))
    environments.close()
    assert Counting.seen == [5, 5, 6, 5, 7]
    going = [(1, False, False), (2, False, False)]
    # An end on the time limit is a true end all the same: nothing comes after it.
    assert ends == [*going, (0, True, False), 3.0, going[0], (0, True, False), 2.0]
