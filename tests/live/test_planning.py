"""From what was asked for to a search's settings: what is derived, checked, refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("psutil")

from simsched.errors import SimschedError
from simsched.live.derived import ATARI_GPU_STEPS, ATARI_STEPS
from simsched.live.nodes import Node
from simsched.live.planning import PUBLISHED_SETTINGS, Asked, plan_search
from simsched.live.settings import LiveSettings
from simsched.space import PUBLISHED_GA3C, Categorical, Integer, Real, SearchSpace

CORES = [Node(number=n, name=f"core {n}", cores=(n,)) for n in range(2)]
PAIR = [Node(number=0, name="cores 0-1", cores=(0, 1))]
GPU = [Node(number=0, name="GPU 0", cores=(0,), gpu=0, gpu_uuid="GPU-1", gpu_name="H200")]
SPACE = SearchSpace({"lr": Real(1e-4, 1.0, log=True), "units": Integer(8, 64, q=8)})
COMMAND = "sh train.sh --lr {lr} {units}"


def of_command(**asked: Any) -> LiveSettings:
    return plan_search(Asked(command=COMMAND, space=SPACE, **asked), CORES).settings


def refusal(nodes: list[Node] = CORES, **asked: Any) -> str:
    with pytest.raises(SimschedError) as caught:
        plan_search(Asked(**asked), nodes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_command_by_default() -> None:
    plan = plan_search(Asked(command=COMMAND, space=SPACE), CORES)
    settings = plan.settings
    assert (settings.command, settings.game, settings.training) == (COMMAND, None, {})
    assert (settings.nodes, settings.workers, settings.phases) == (2, 16, 4)
    assert (settings.unit, settings.phase_length) == ("reports", 1)
    assert (settings.metric, settings.mode, settings.first) == ("score", "max", [])
    assert (settings.scheduler, settings.seed, settings.retries) == ("hypertrick", 0, 3)
    assert settings.search_space == SPACE
    assert plan.derived == (
        "unit reports: the default of a command",
        "phase length 1 report: the default of a command",
    )


def test_what_was_asked_for_is_kept_and_can_be_written() -> None:
    asked: dict[str, Any] = {
        "workers": 7, "scheduler": "asha: eta = 3", "phases": 9, "phase_length": 2, "unit": "steps",
        "metric": "loss", "mode": "min", "max_time_s": 90.0, "seed": 5, "retries": 0,
        "checkpoints": "scheduler", "complete": True, "nodes_per_gpu": 3, "cores_per_node": 1,
    }  # fmt: skip
    settings = of_command(**asked)
    for name, value in asked.items():
        assert getattr(settings, name) == (value if name != "scheduler" else "asha:eta=3")
    written = msgspec.json.encode(settings)
    assert msgspec.json.decode(written, type=LiveSettings) == settings


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"command": COMMAND}, "--command needs --search-space FILE"),
        ({"command": COMMAND, "game": "Pong"}, "--game and --command exclude each other"),
        ({"command": COMMAND, "preset": "fast"}, "--preset: is for GA3C, not for --command"),
        (
            {"command": COMMAND, "training": {"agents": 3}},
            "--set agents: is for GA3C, not for --command",
        ),
        (
            {"command": COMMAND, "space": SPACE, "unit": "episodes"},
            "--phase-length: say how many episodes a phase of the command has",
        ),
        (
            {"command": COMMAND, "space": SPACE, "scheduler": "hyperbnd"},
            "unknown scheduler 'hyperbnd' (did you mean 'hyperband'?)",
        ),
        (
            {"command": COMMAND, "space": SPACE, "scheduler": "asha:eta=1.01"},
            "asha: rungs at 1, 1.01, … phases of 1 (eta=1.01) round to less than one",
        ),
        (
            {
                "command": COMMAND,
                "space": SPACE,
                "scheduler": "asha:base=1e308",
                "phase_length": 100,
            },
            "asha:base=1e308: a parameter is too large",
        ),
        (
            {"command": COMMAND, "space": SPACE, "phases": 10**6, "phase_length": 10**10},
            "1,000,000 phases of 10,000,000,000 are 10,000,000,000,000,000 reports; ask for",
        ),
    ],
)
def test_what_cannot_be_planned(asked: dict[str, Any], said: str) -> None:
    assert refusal(**asked).startswith(said)


def test_known_configurations_come_first_and_must_have_room(tmp_path: Path) -> None:
    path = tmp_path / "known.csv"
    path.write_text("lr,units\n0.5,16\n0.25,8\n")
    settings = of_command(first=str(path), workers=2)
    assert settings.first == [{"lr": 0.5, "units": 16}, {"lr": 0.25, "units": 8}]
    assert of_command(first="none").first == []
    said = refusal(command=COMMAND, space=SPACE, first=str(path), workers=1)
    assert said == f"--first {path}: it has 2 configurations, more than the 1 trials (--workers)"


@pytest.mark.torch
class TestGame:
    @pytest.fixture(autouse=True)
    def _games(self) -> None:
        pytest.importorskip("ale_py")

    def test_by_default_on_cores_and_on_a_gpu(self) -> None:
        plan = plan_search(Asked(), CORES)
        settings = plan.settings
        assert (settings.game, settings.unit, settings.metric) == ("MsPacman", "steps", "return")
        assert (settings.preset, settings.phase_length) == ("repeatable", ATARI_STEPS)
        assert settings.first == [PUBLISHED_SETTINGS]
        assert settings.search_space == PUBLISHED_GA3C
        assert settings.training["agents"] == 16
        assert not {"learning_rate", "t_max", "gamma", "game"} & set(settings.training)
        assert [line.partition(":")[0] for line in plan.derived] == [
            "preset repeatable", "phase length 20,000 steps",
        ]  # fmt: skip
        assert plan_search(Asked(), PAIR).settings.preset == "fast"
        on_gpu = plan_search(Asked(), GPU).settings
        assert (on_gpu.preset, on_gpu.phase_length) == ("fast", ATARI_GPU_STEPS)

    @pytest.mark.parametrize(
        ("game", "asked", "length"),
        [
            ("pong", {}, 20_000),
            ("Pong", {"unit": "seconds"}, 15),
            ("Pong", {"unit": "episodes"}, 30),
            ("CartPole-v1", {}, 75_000),
            ("CartPole-v1", {"phases": 10}, 30_000),  # what 300,000 recorded steps can rehearse
            ("Acrobot-v1", {"phases": 10}, 75_000),  # nothing is recorded of it
            ("CartPole-v1", {"phase_length": 7}, 7),
        ],
    )
    def test_the_length_of_a_phase(self, game: str, asked: dict[str, Any], length: int) -> None:
        plan = plan_search(Asked(game=game, **asked), CORES)
        assert plan.settings.phase_length == length
        told = [line for line in plan.derived if line.startswith("phase length")]
        assert len(told) == ("phase_length" not in asked)

    def test_settings_of_ga3c(self) -> None:
        asked = Asked(preset="fast", training={"agents": 8, "gamma": 0.5},
                      space=SearchSpace({"learning_rate": Real(1e-4, 1e-3)}))  # fmt: skip
        settings = plan_search(asked, CORES).settings
        assert settings.training["agents"] == 8
        assert settings.training["least_batch"] == 160
        assert settings.training["gamma"] == 0.5
        assert settings.first == []  # another space than the published one

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            ({"game": "MsPackman"}, "game: 'MsPackman' is unknown, did you mean 'MsPacman'?"),
            ({"metric": "loss"}, "--metric: is for --command; a game's metric is its return"),
            ({"training": {"gamma": 0.5}}, "--set gamma: every trial draws its own"),
            ({"training": {"agents": 0}}, "agents: 0 is too small, use 1 or more"),
            ({"training": {"predictors": 99}}, "predictors: 99 is more than the 16 agents"),
            ({"space": SPACE}, "search space: lr: is no setting of GA3C; see simsched train"),
            (
                {"space": SearchSpace({"learnin_rate": Real(0.1, 1)})},
                "search space: learnin_rate: is no setting of GA3C (did you mean 'learning_rate'?)",
            ),
            (
                {"space": SearchSpace({"game": Categorical(("Pong",))})},
                "search space: game: is no setting of GA3C",
            ),
            # Out of a million draws none would be 0, but PBT may go there.
            (
                {"space": SearchSpace({"t_max": Integer(0, 1_000_000)})},
                "search space: t_max: 0 is too small, use 1 or more",
            ),
            (
                {"space": SearchSpace({"t_max": Real(1, 9)})},
                "search space: t_max: must be a whole number, got `float`",
            ),
            (
                {"space": SearchSpace({"optimizer": Categorical(("adam", "sgd"))})},
                "search space: optimizer: 'sgd' is none of rmsprop, rmsprop-tf, adam",
            ),
        ],
    )
    def test_what_cannot_be_trained(self, asked: dict[str, Any], said: str) -> None:
        assert refusal(**asked).startswith(said)


def test_weights_that_trials_copy_must_fit_all_of_them() -> None:
    space = SearchSpace({"network": Categorical(("small", "large")), "t_max": Integer(2, 50)})
    said = refusal(game="MsPacman", space=space, scheduler="pbt:quantile=0.5", preset="fast")
    assert said.startswith(
        "search space: network: cannot differ between trials with pbt:quantile=0.5"
    )
    plan_search(Asked(game="MsPacman", space=space, scheduler="asha", preset="fast"), CORES)
    agents = SearchSpace({"agents": Integer(32, 64, q=32)})
    plan_search(Asked(game="MsPacman", space=agents, scheduler="pbt", preset="fast"), CORES)
