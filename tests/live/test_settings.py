"""Bad settings: one line each that says what would be right."""

import importlib.util
from typing import Any

import pytest

pytest.importorskip("ale_py")

from simsched.live import machine
from simsched.live.errors import LiveError
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.games import canonical_game
from simsched.live.ga3c.settings import Settings
from simsched.live.plan import make_plan

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"t_max": 0}, "t_max: 0 is too small, use 1 or more"),
        ({"agents": 0}, "agents: 0 is too small, use 1 or more"),
        ({"least_batch": -3}, "least_batch: -3 is too small, use 1 or more"),
        ({"gamma": 0.0}, "gamma: 0.0 is outside (0, 1]"),
        ({"gamma": 1.01}, "gamma: 1.01 is outside (0, 1]"),
        ({"gamma": float("nan")}, "gamma: nan is outside (0, 1]"),
        ({"learning_rate": 0.0}, "learning_rate: 0.0 must be a finite number above 0"),
        ({"learning_rate": float("inf")}, "learning_rate: inf must be a finite number above 0"),
        ({"rms_decay": 1.0}, "rms_decay: 1.0 is outside [0, 1)"),
        ({"clip_norm": -1.0}, "clip_norm: -1.0 must be a finite number, 0 or above"),
        ({"seed": -1}, "seed: -1 is negative, use 0 or more"),
    ],
)
def test_settings_that_cannot_work(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(LiveError) as caught:
        Settings(game="Pong", **fields)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("MsPackman", "'MsPacman'"),
        ("ms_pacmann", "'MsPacman'"),
        ("ALE/MsPacman-v5", "'MsPacman'"),
        ("PongNoFrameskip-v4", "'Pong'"),
        ("cartpole-v1", "'CartPole-v1'"),
        ("CartPole", "'CartPole-v1'"),
        ("qqqqqqqqq", "MsPacman or CartPole-v1"),
    ],
)
def test_an_unknown_game_gets_the_nearest_name(name: str, offered: str) -> None:
    with pytest.raises(LiveError) as caught:
        canonical_game(name)
    assert str(caught.value).startswith(f"game: {name!r} is unknown, ")
    assert offered in str(caught.value)


def test_games_by_both_their_names() -> None:
    assert canonical_game("ms_pacman") == canonical_game("mspacman") == "MsPacman"
    assert canonical_game("CartPole-v1") == "CartPole-v1"


@pytest.mark.parametrize(
    ("game", "reason"),
    [("Pendulum-v1", "only discrete ones"), ("FrozenLake-v1", "only a Box")],
)
def test_spaces_that_cannot_be_trained(game: str, reason: str) -> None:
    with pytest.raises(LiveError, match=reason) as caught:
        EnvironmentGroup(game, 1)
    assert str(caught.value).startswith(f"game: {game} has ")


def test_torch_missing_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else found(name)
    )
    with pytest.raises(LiveError) as caught:
        machine.require_training_packages()
    assert str(caught.value) == (
        "torch is not installed, training needs it: pip install 'simsched[live]'"
    )


def test_trials_are_those_of_random_search() -> None:
    from simsched.searchers import RandomSearcher
    from simsched.space import PUBLISHED_GA3C

    plan = make_plan("Pong", trials=20, steps=10, seed=5, agents=4)
    searcher = RandomSearcher(PUBLISHED_GA3C, seed=5)
    assert plan.hparams == [searcher.suggest(trial) for trial in range(20)]
    assert plan.settings(3).trial == 3
    assert plan.settings(3).learning_rate == plan.hparams[3]["learning_rate"]
    assert len({str(hparams) for hparams in plan.hparams}) == 20
    assert all(1e-5 <= float(h["learning_rate"]) <= 1e-2 for h in plan.hparams)
    assert all(2 <= int(h["t_max"]) <= 100 for h in plan.hparams)
