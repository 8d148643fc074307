"""`simsched train`, `record` and `play`: what a newcomer tried that went wrong once."""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from cli_outcome import Outcome  # noqa: E402

from simsched.cli.training_options import parse  # noqa: E402
from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.adjust import Parts, RandomWalk  # noqa: E402
from simsched.live.ga3c.checkpoint import require_game  # noqa: E402
from simsched.live.ga3c.engines import limits  # noqa: E402
from simsched.live.ga3c.environment import EnvironmentGroup  # noqa: E402
from simsched.live.ga3c.settings import PRESETS, Settings  # noqa: E402
from simsched.live.ga3c.trained import load_network  # noqa: E402
from simsched.live.ga3c.video import VideoWriter  # noqa: E402
from simsched.live.parts import TrialLog  # noqa: E402
from simsched.live.run_one import command, plan_run  # noqa: E402
from simsched.traces import read  # noqa: E402

pytestmark = pytest.mark.torch

Run = Callable[..., Outcome]

CARTPOLE = ("train", "--game", "CartPole-v1", "--threads", "1")
QUICK = (*CARTPOLE, "--preset", "repeatable", "--agents", "4", "--steps", "400")


def unfinished(folder: str, **fields: Any) -> Path:
    """A run's folder as one has it that was stopped before its first checkpoint."""
    values = {"game": "CartPole-v1", **PRESETS["repeatable"], "agents": 4, "threads": 1, **fields}
    path = Path(folder)
    path.mkdir()
    plan_run(Settings(**values), 400).save(path)
    return path


@pytest.mark.parametrize(
    "given",
    [
        ("--steps", "900"),
        ("--seed", "0"),
        ("--preset", "fast"),
        ("--out", "b"),
        ("--gamma", "0.99"),
        ("--game", "CartPole-v1"),
    ],
)
def test_a_resumed_run_says_what_it_will_not_take(given: tuple[str, str], simsched: Run) -> None:
    folder = unfinished("a")
    refusal = simsched("train", "--resume", folder, *given).refusal
    assert refusal == f"{given[0]}: a resumed run keeps its settings; leave it out"
    assert [path.name for path in Path().iterdir()] == ["a"]
    assert [path.name for path in folder.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--compile", "on", "--overlap", "off"), "compile: on is for GA3C's parts in threads"),
        (
            ("--compile", "on", "--overlap", "on", "--vtrace", "true"),
            "compile: on needs batches of a fixed size",
        ),
        (("--threads", "100000"), "threads: 100000 is too large, use 1000 or less"),
        (("--agents", str(10**20)), f"agents: {10**20} is too large, use 10000 or less"),
        (("--trainers", "100000"), "trainers: 100000 is too large, use 1000 or less"),
        (("--t-max", str(2**63)), f"t_max: {2**63} is too large, use 1000000 or less"),
        (("--steps", str(2**63)), f"steps: {2**63} is too large, use {10**15} or less"),
        (("--agents", "1"), "groups: 2 is more than the one agent"),
    ],
)
def test_what_no_worker_can_do_is_refused_before_a_folder_is_made(
    options: tuple[str, ...], said: str, simsched: Run
) -> None:
    assert simsched(*CARTPOLE, *options).refusal.startswith(said)
    assert list(Path().iterdir()) == []


def test_a_folder_that_cannot_be_made_is_the_options(simsched: Run) -> None:
    Path("file").write_text("")
    said = simsched(*QUICK, "--out", "file/run").refusal
    assert said == "--out file/run: the folder cannot be made: Not a directory"


def test_numbers_as_people_write_them() -> None:
    assert parse("gamma", ".95") == 0.95
    assert parse("learning_rate", "1.") == 1.0
    assert parse("rms_epsilon", "1e-5") == 1e-5
    assert parse("agents", "16") == 16
    for name, text, wanted in (
        ("agents", "1.5", "a whole number"),
        ("gamma", "", "a number"),
        ("vtrace", "1.5", "true or false"),
    ):
        with pytest.raises(LiveError, match=rf"^{name}: '{text}' must be {wanted}$"):
            parse(name, text)


@given(
    agents=st.integers(1, 64),
    share=st.floats(0, 1),
    trainers=st.integers(1, 9),
    queue=st.integers(1, 2_000),
    batch=st.integers(0, 2_000),
    t_max=st.integers(1, 200),
)
def test_adjustment_can_start_from_any_setting(
    agents: int, share: float, trainers: int, queue: int, batch: int, t_max: int
) -> None:
    groups = max(1, round(share * agents))
    settings = Settings(
        game="Pong", adjust="random-walk", agents=agents, groups=groups, predictors=groups,
        trainers=trainers, training_queue=queue, least_batch=batch, t_max=t_max,
    )  # fmt: skip
    start = Parts(groups, groups, trainers, queue)
    walk = RandomWalk(start, *limits(settings), np.random.default_rng(0))
    walk.next(100.0)
    assert walk.parts != start


def test_the_curve_says_what_trains_it_again(simsched: Run) -> None:
    once = simsched(
        *QUICK, "--seed", "3", "--gamma", ".95", "--clip-rewards", "false", "--out", "a"
    )
    assert once.code == 0, once
    curve = read("a/curve.parquet")
    recorded, _, sessions = curve.meta.recorded_by.rpartition("; ")
    assert sessions == "1 session(s)"
    program, *words = shlex.split(recorded)
    assert program == "simsched"
    again = simsched(*words, "--out", "b")
    assert again.code == 0, again
    (first,), (second,) = curve.traces, read("b/curve.parquet").traces
    assert first.hparams == second.hparams == {"learning_rate": 7e-4, "t_max": 5, "gamma": 0.95}
    assert len(first.score) > 5
    np.testing.assert_array_equal(first.score, second.score)
    np.testing.assert_array_equal(first.steps, second.steps)
    plans = [json.loads(Path(name, "plan.json").read_text()) for name in "ab"]
    assert plans[0]["training"] == plans[1]["training"]
    assert plans[0]["seed"] == plans[1]["seed"] == 3


def test_the_command_of_every_preset_gives_its_settings(simsched: Run) -> None:
    for number, preset in enumerate(PRESETS):
        plan = plan_run(Settings(game="CartPole-v1", seed=4, **PRESETS[preset]), 64)
        made = simsched(*shlex.split(command(plan))[1:], "--out", f"run-{number}")
        assert made.code == 0, made
        kept = json.loads(Path(f"run-{number}", "plan.json").read_text())
        assert kept["training"] == plan.training
        assert kept["hparams"] == plan.hparams
        assert (kept["steps"], kept["seed"]) == (64, 4)


def test_a_divergence_has_a_reason(simsched: Run) -> None:
    wild = ("--learning-rate", "1e30")
    done = simsched(*QUICK, *wild, "--out", "a", "--json", "a.json")
    assert done.code == 0
    result = json.loads(Path("a.json").read_text())
    assert result["end"] == "diverged"
    assert result["reason"].endswith(" is not finite")
    assert done.out.startswith(f"a/curve.parquet: diverged ({result['reason']}), ")
    log = Path("a/trial-0000.log").read_text()
    assert log.endswith(f"diverged after {result['steps']} steps: {result['reason']}\n")
    assert read("a/curve.parquet").traces[0].end == "diverged"


def test_a_run_that_diverged_is_not_filmed_and_still_gives_its_results(simsched: Run) -> None:
    pytest.importorskip("minatar")
    pytest.importorskip("av")
    done = simsched(
        "train", "--game", "MinAtar/Breakout-v1", "--preset", "repeatable", "--steps", "400",
        "--learning-rate", "1e30", "--out", "a", "--video", "a.mp4", "--json", "a.json",
    )  # fmt: skip
    assert done.code == 0, done
    assert done.err.endswith("a.mp4: not filmed, for the run diverged\n")
    assert not Path("a.mp4").exists()
    assert json.loads(Path("a.json").read_text())["end"] == "diverged"


def test_how_many_episodes_a_mean_is_of(simsched: Run) -> None:
    some = simsched(*QUICK, "--out", "a").out
    episodes = int(read("a/curve.parquet").traces[0].episodes[-1])
    assert 0 < episodes < 100
    assert f"{episodes} episodes, mean score of the last {episodes}: " in some
    none = simsched(*QUICK, "--steps", "8", "--out", "b").out
    assert none.endswith(" 0 episodes, no episode ended\n")


def test_a_video_is_checked_before_a_resumed_run_trains(
    simsched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unfinished("a")
    said = simsched("train", "--resume", folder, "--video", "a.avi").refusal
    assert said == "a.avi: videos are written as MP4, use a name that ends in .mp4"
    assert [path.name for path in folder.iterdir()] == ["plan.json"]
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(LiveError, match=r"^a/b\.mp4: nothing can be written in the folder a$"):
        VideoWriter(Path("a/b.mp4"))


def test_a_checkpoint_of_another_game_is_named_even_if_it_fits(simsched: Run) -> None:
    assert simsched(*QUICK, "--out", "a").code == 0
    path = Path("a/trial-0000.pt")
    state = torch.load(path, weights_only=True)
    require_game(state, "CartPole-v1", path)
    state["settings"]["game"] = "Acrobot-v1"
    torch.save(state, path)
    rows = Path("a/trial-0000.jsonl")
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))  # not finished
    reason = "it is of Acrobot-v1, not of CartPole-v1"
    wanted = f"a/trial-0000.pt: the checkpoint does not fit this trial: {reason}"
    assert simsched("train", "--resume", "a").refusal == wanted
    for_play = "the weights are not those of a network for CartPole-v1: they are of Acrobot-v1"
    with pytest.raises(LiveError, match=f"^{path}: {for_play}$"):
        load_network(path, Settings(game="CartPole-v1"))


def test_a_checkpoint_that_does_not_say_its_game_is_taken() -> None:
    require_game({}, "Pong", Path("old.pt"))
    require_game({"settings": {}}, "Pong", Path("old.pt"))


@pytest.mark.parametrize("change", ["t_max=3", " t_max = 3", "t-max =3"])
def test_a_searched_setting_cannot_be_set_however_it_is_spelt(change: str, simsched: Run) -> None:
    said = simsched("record", "--game", "CartPole-v1", "--set", change).refusal
    assert said == "--set t_max: every trial draws its own from the search space"


def test_record_refuses_what_no_worker_can_do_before_it_writes(simsched: Run) -> None:
    said = simsched("record", "--game", "CartPole-v1", "--set", "compile=on").refusal
    assert said.startswith("compile: on is for GA3C's parts in threads")
    assert list(Path().iterdir()) == []


def test_what_breaks_is_one_line_and_its_traceback_lies_aside(
    simsched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: EnvironmentGroup, actions: object) -> None:
        raise RuntimeError("the emulator is gone\nand so on")

    monkeypatch.setattr(EnvironmentGroup, "step", broken)
    said = simsched(*QUICK, "--out", "a").refusal
    assert said == "RuntimeError: the emulator is gone (see a/trial-0000.error.txt)"
    aside = Path("a/trial-0000.error.txt").read_text()
    assert "in broken\n" in aside
    assert aside.endswith("RuntimeError: the emulator is gone\nand so on\n")


def test_a_full_disk_names_the_folder(simsched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: TrialLog) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TrialLog, "sync", full)
    assert simsched(*QUICK, "--out", "a").refusal == "a: No space left on device"
