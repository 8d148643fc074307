"""Bad settings: one line each that says what would be right."""

import importlib.util
import math
import sys
from typing import Any

import msgspec
import pytest

pytest.importorskip("ale_py")

from simsched.live import machine
from simsched.live.errors import LiveError
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.games import canonical_game
from simsched.live.ga3c.knobs import CHANGEABLE
from simsched.live.ga3c.settings import PRESETS, Settings
from simsched.live.plan import make_plan

pytestmark = pytest.mark.torch


def refusal(**fields: Any) -> str:
    with pytest.raises(LiveError) as caught:
        Settings(**{"game": "Pong", **fields})
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("t_max", 0, "0 is too small, use 1 or more"),
        ("agents", 0, "0 is too small, use 1 or more"),
        ("groups", 0, "0 is too small, use 1 or more"),
        ("predictors", 0, "0 is too small, use 1 or more"),
        ("trainers", 0, "0 is too small, use 1 or more"),
        ("prediction_queue", 0, "0 is too small, use 1 or more"),
        ("prediction_batch", 0, "0 is too small, use 1 or more"),
        ("training_queue", -1, "-1 is too small, use 1 or more"),
        ("least_batch", -3, "-3 is negative, use 0 or more"),
        ("anneal_steps", -1, "-1 is negative, use 0 or more"),
        ("entropy_anneal_steps", -1, "-1 is negative, use 0 or more"),
        ("threads", -1, "-1 is negative, use 0 or more"),
        ("seed", -1, "-1 is negative, use 0 or more"),
        ("trial", -1, "-1 is negative, use 0 or more"),
        ("gamma", 0.0, "0.0 is outside (0, 1]"),
        ("gamma", 1.5, "1.5 is outside (0, 1]"),
        ("gamma", math.nan, "nan is outside (0, 1]"),
        ("rms_decay", 1.0, "1.0 is outside [0, 1)"),
        ("rms_decay", -0.1, "-0.1 is outside [0, 1)"),
        ("sticky_actions", 1.0, "1.0 is outside [0, 1)"),
        ("sticky_actions", -0.25, "-0.25 is outside [0, 1)"),
        ("sticky_actions", math.nan, "nan is outside [0, 1)"),
        ("learning_rate", 0.0, "0.0 must be a finite number above 0"),
        ("learning_rate", math.inf, "inf must be a finite number above 0"),
        ("learning_rate", math.nan, "nan must be a finite number above 0"),
        ("rms_epsilon", 0.0, "0.0 must be a finite number above 0"),
        ("adam_epsilon", -1e-5, "-1e-05 must be a finite number above 0"),
        ("vtrace_rho", 0.0, "0.0 must be a finite number above 0"),
        ("vtrace_c", math.inf, "inf must be a finite number above 0"),
        ("entropy_weight", -0.01, "-0.01 must be a finite number, 0 or above"),
        ("clip_norm", -1.0, "-1.0 must be a finite number, 0 or above"),
        ("adjust_after_s", math.nan, "nan must be a finite number, 0 or above"),
        ("adjust_every_s", 0.0, "0.0 must be 0.1 or more"),
        ("adjust_every_s", math.inf, "inf must be 0.1 or more"),
        ("stride", 5, "5 is outside 1 to 4"),
        ("stride", 0, "0 is outside 1 to 4"),
        ("algorithm", "ga3d", "'ga3d' is none of ga3c, a2c, a3c (did you mean 'ga3c'?)"),
        ("overlap", "yes", "'yes' is none of auto, on, off"),
        ("optimizer", "adm", "'adm' is none of rmsprop, rmsprop-tf, adam (did you mean 'adam'?)"),
        (
            "network",
            "lage",
            "'lage' is none of auto, small, large, grid, vector (did you mean 'larg",
        ),
        (
            "preprocessing",
            "orig",
            "'orig' is none of standard, original (did you mean 'original'?)",
        ),
        ("compile", True, "True is none of auto, on, off"),
        ("adjust", "random", "'random' is none of none, random-walk (did you mean 'random-walk'?)"),
    ],
)
def test_a_value_that_cannot_work_is_named_with_what_would(
    name: str, value: object, message: str
) -> None:
    assert refusal(**{name: value}).startswith(f"{name}: {message}")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"predictors": 33}, "predictors: 33 is more than the 32 agents"),
        ({"predictors": 5, "agents": 4}, "predictors: 5 is more than the 4 agents"),
        ({"groups": 5, "agents": 4}, "groups: 5 is more than the 4 agents"),
        (
            {"vtrace": True, "algorithm": "a2c"},
            "vtrace: a2c has no lag to correct, use it with ga3c",
        ),
        (
            {"adjust": "random-walk", "algorithm": "a2c"},
            "adjust: random-walk needs algorithm ga3c and overlap on",
        ),
        (
            {"adjust": "random-walk", "overlap": "off"},
            "adjust: random-walk needs algorithm ga3c and overlap on",
        ),
        (
            {"algorithm": "a3c", "device": "cuda"},
            "device: cuda is not for a3c, which is a CPU algorithm",
        ),
    ],
)
def test_values_that_do_not_go_together(fields: dict[str, Any], message: str) -> None:
    assert refusal(**fields) == message


def test_adjusted_predictors_are_no_more_than_the_groups() -> None:
    message = refusal(adjust="random-walk", predictors=3, groups=2)
    assert message.startswith("predictors: 3 is more than the 2 groups; ")


def test_the_edges_of_what_works_are_let_through() -> None:
    Settings(game="Pong", agents=1, groups=1, predictors=1, gamma=1.0, rms_decay=0.0, t_max=1)
    Settings(game="Pong", entropy_weight=0.0, sticky_actions=0.0, stride=1, adjust_every_s=0.1)


def test_the_defaults_are_the_published_ones() -> None:
    """Babaeizadeh et al., ICLR 2017, and its code: Config.py."""
    published = {
        "agents": 32,
        "predictors": 2,
        "trainers": 2,
        "prediction_queue": 100,
        "prediction_batch": 128,
        "training_queue": 100 * 5,
        "least_batch": 0,
        "t_max": 5,
        "gamma": 0.99,
        "learning_rate": 3e-4,
        "entropy_weight": 0.01,
        "rms_decay": 0.99,
        "rms_epsilon": 0.1,
        "clip_rewards": True,
        "clip_norm": 0.0,
        "adjust_after_s": 10.0,
        "adjust_every_s": 20.0,
    }
    defaults = msgspec.structs.asdict(Settings(game="Pong"))
    assert {name: defaults[name] for name in published} == published


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_presets_can_be_used_and_differ_from_the_defaults_as_they_say(preset: str) -> None:
    settings = Settings(game="Pong", **PRESETS[preset])
    changed = msgspec.structs.asdict(settings)
    defaults = msgspec.structs.asdict(Settings(game="Pong"))
    differs = {name: value for name, value in changed.items() if value != defaults[name]}
    assert differs == PRESETS[preset]


def test_every_setting_that_can_change_is_one() -> None:
    assert set(CHANGEABLE) <= {field.name for field in msgspec.structs.fields(Settings)}


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("MsPackman", "'MsPacman'"),
        ("ms_pacmann", "'MsPacman'"),
        ("ALE/MsPacman-v5", "'MsPacman'"),
        ("PongNoFrameskip-v4", "'Pong'"),
        ("cartpole-v1", "'CartPole-v1'"),
        ("CartPole", "'CartPole-v1'"),
        ("MinAtar/Brakeout-v1", "'MinAtar/Breakout-v1'"),
        ("qqqqqqqqq", "MsPacman or CartPole-v1"),
    ],
)
def test_an_unknown_game_gets_the_nearest_name(name: str, offered: str) -> None:
    if name.startswith("MinAtar/"):
        pytest.importorskip("minatar")
    with pytest.raises(LiveError) as caught:
        canonical_game(name)
    assert str(caught.value).startswith(f"game: {name!r} is unknown, ")
    assert offered in str(caught.value)


def test_games_by_both_their_names() -> None:
    assert canonical_game("ms_pacman") == canonical_game("mspacman") == "MsPacman"
    assert canonical_game("CartPole-v1") == "CartPole-v1"


def test_minatar_missing_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minatar", None)
    monkeypatch.setitem(sys.modules, "minatar.gym", None)
    with pytest.raises(LiveError) as caught:
        canonical_game("MinAtar/Breakout-v1")
    assert str(caught.value) == (
        "game: MinAtar/Breakout-v1 needs the package minatar: pip install 'simsched[minatar]'"
    )


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        ("Pendulum-v1", "only discrete ones can be trained"),
        ("MountainCarContinuous-v0", "only discrete ones can be trained"),
        ("FrozenLake-v1", "only a Box can be trained"),
        ("Blackjack-v1", "only a Box can be trained"),
    ],
)
def test_spaces_that_cannot_be_trained(game: str, reason: str) -> None:
    with pytest.raises(LiveError, match=reason) as caught:
        EnvironmentGroup(Settings(game=game), 1)
    assert str(caught.value).startswith(f"game: {game} has ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sticky_actions": 0.25}, "sticky_actions: 0.25 is for Atari games"),
        ({"preprocessing": "original"}, "preprocessing: original is for Atari games"),
        ({"full_action_space": True}, "full_action_space: True is for Atari games"),
    ],
)
def test_choices_of_atari_are_refused_elsewhere(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(LiveError) as caught:
        EnvironmentGroup(Settings(game="CartPole-v1", **fields), 1)
    assert str(caught.value) == f"{message}, CartPole-v1 has no such choice"


@pytest.mark.parametrize("package", ["torch", "gymnasium", "ale_py"])
def test_a_package_missing_is_one_clear_line(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else found(name)
    )
    with pytest.raises(LiveError) as caught:
        machine.require_training_packages()
    name = package.replace("_", "-")
    assert str(caught.value) == (
        f"{name} is not installed, training needs it: pip install 'simsched[live]'"
    )


def test_trials_are_those_of_random_search() -> None:
    from simsched.searchers import RandomSearcher
    from simsched.space import PUBLISHED_GA3C

    plan = make_plan("Pong", trials=20, steps=10, seed=5)
    searcher = RandomSearcher(PUBLISHED_GA3C, seed=5)
    assert plan.hparams == [searcher.suggest(trial) for trial in range(20)]
    assert plan.settings(3).trial == 3
    assert plan.settings(3).learning_rate == plan.hparams[3]["learning_rate"]
    assert len({str(hparams) for hparams in plan.hparams}) == 20
    assert all(1e-5 <= float(h["learning_rate"]) <= 1e-2 for h in plan.hparams)
    assert all(2 <= int(h["t_max"]) <= 100 for h in plan.hparams)


def test_a_recorded_trial_has_what_the_preset_and_the_search_say() -> None:
    plan = make_plan("Pong", trials=2, steps=10, seed=5, training={"agents": 4, "groups": 2})
    settings = plan.settings(1)
    assert (settings.agents, settings.groups, settings.seed, settings.trial) == (4, 2, 5, 1)
    repeatable = make_plan("Pong", trials=1, steps=10, seed=5).settings(0)
    ours = {name: getattr(repeatable, name) for name in PRESETS["repeatable"]}
    searched = {"learning_rate": repeatable.learning_rate}
    assert ours == {**PRESETS["repeatable"], **searched}


def test_compiling_is_refused_where_it_would_do_nothing() -> None:
    from simsched.live.ga3c.worker import Worker

    with pytest.raises(LiveError, match=r"^compile: on is for GA3C's parts in threads"):
        Worker(Settings(game="CartPole-v1", agents=2, overlap="off", compile="on", least_batch=8))
    with pytest.raises(LiveError, match=r"^compile: on needs batches of a fixed size"):
        Worker(Settings(game="CartPole-v1", agents=2, overlap="on", compile="on", least_batch=0))
