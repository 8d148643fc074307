"""`simsched play`: finds the agent of a run, plays and films it, and says what it cannot."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cli_outcome import Outcome  # noqa: E402
from cli_play import HPARAMS, TRAINING, live_run, picture_count, saved, settings, winner  # noqa: E402

from simsched.live.plan import Plan  # noqa: E402
from simsched.live.winner import evaluate  # noqa: E402

pytestmark = pytest.mark.torch

Run = Callable[..., Outcome]


def test_the_winner_of_a_search_is_filmed(checkpoint: Path, simsched: Run) -> None:
    pytest.importorskip("av")
    run = live_run(Path("runs/live-1"))
    winner(run, checkpoint)
    outcome = simsched("play", run, "--episodes", 2, "--json", "a.json").good
    document = json.loads(Path("a.json").read_text())
    first, second = document["episodes"]
    expected = evaluate(checkpoint, settings(3), 2, seed=0)
    assert tuple(each["score"] for each in (first, second)) == expected.scores
    assert (first["steps"], second["steps"]) == expected.steps
    assert outcome.out == (
        "trial 3, Breakout: learning_rate 0.001, gamma 0.95\n"
        f"episode 1: score {first['score']:g} in {first['steps']} steps\n"
        f"episode 2: score {second['score']:g} in {second['steps']} steps\n"
        f"mean of 2: {expected.mean:g}\n"
        "film: runs/live-1/best/play.mp4\n"
    )
    assert document["video"] == "runs/live-1/best/play.mp4"
    assert document["mean_score"] == expected.mean
    # A picture at the start of each episode, and one after each step.
    assert picture_count(run / "best" / "play.mp4") == sum(expected.steps) + 2
    assert document["trial"] == 3

    again = simsched("play", run / "best", "--video", "b.mp4", "--seed", 1, "--json", "-")
    assert again.code == 0
    document = json.loads(again.out)
    assert again.err.startswith("trial 3, Breakout: ")
    assert again.err.endswith("film: b.mp4\n")
    assert document["episodes"][0]["score"] == evaluate(checkpoint, settings(3), 1, 1).scores[0]
    assert Path("b.mp4").is_file()


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let nobody play: notes who would, and how."""
    from simsched.live import play as playing

    asked: list[dict[str, Any]] = []

    def play(agent: Any, **options: Any) -> list[Any]:
        asked.append({"agent": agent, **options})
        options["ready"]()
        return []

    monkeypatch.setattr(playing, "play", play)
    return asked


@pytest.mark.usefixtures("quickly")
def test_a_trials_newest_checkpoint_is_found(
    checkpoint: Path, simsched: Run, quickly: list[dict[str, Any]]
) -> None:
    run = live_run(Path("run"))
    saved(run, checkpoint, 3, 900)
    saved(run, checkpoint, 3, 1000)
    saved(run, checkpoint, 12, 100)
    assert simsched("play", run).refusal == (
        "run: the search has no winner yet; use --trial: 3, 12 have one"
    )
    simsched("play", run, "--trial", 3, "--greedy").good  # noqa: B018 - it is a check
    agent = quickly[-1]["agent"]
    assert agent.checkpoint == Path("run/checkpoints/trial-0003-step-1000/data").absolute()
    assert agent.hparams == {"gamma": 0.95, "learning_rate": 1e-3}
    assert agent.settings == settings(3)
    assert quickly[-1]["greedy"]
    assert quickly[-1]["video"] == Path("run/play.mp4")
    assert simsched("play", run, "--trial", 5).refusal == (
        "--trial 5: it has no checkpoint; use: 3, 12 have one"
    )
    # The folder of a checkpoint, and the file in it, say themselves whose they are.
    folder = run / "checkpoints" / "trial-0003-step-900"
    for path in (folder, folder / "data"):
        assert simsched("play", path).good.out.startswith("trial 3, Breakout: learning_rate 0.001")
        assert quickly[-1]["agent"].checkpoint == folder / "data"
        # Not in the folder of the checkpoint: that is the search's to delete.
        assert quickly[-1]["video"] == Path("run/play.mp4")
    assert simsched("play", folder, "--trial", 4).refusal.startswith("--trial 4: ")
    winner(run, checkpoint, trial=7)
    simsched("play", run, "--trial", 7).good  # noqa: B018
    assert quickly[-1]["agent"].checkpoint == run / "best" / "checkpoint.pt"
    assert simsched("play", run / "best", "--trial", 3).refusal == (
        "--trial 3: run/best is of trial 7"
    )


def test_the_agent_of_simsched_train_and_of_a_recording(
    checkpoint: Path, simsched: Run, quickly: list[dict[str, Any]]
) -> None:
    def plan(folder: str, trials: int) -> Path:
        made = Plan(
            game="Breakout", trials=trials, steps=9, seed=0, space={}, training=TRAINING,
            hparams=[HPARAMS] * trials,
        )  # fmt: skip
        Path(folder).mkdir()
        made.save(Path(folder))
        return Path(folder)

    run = plan("train-1", 1)
    assert simsched("play", run).refusal == (
        "--trial 0: it has no checkpoint; no trial has one in train-1"
    )
    (run / "trial-0000.pt").write_bytes(checkpoint.read_bytes())
    simsched("play", run, "--seed", 6).good  # noqa: B018
    assert quickly[-1]["agent"].checkpoint == run / "trial-0000.pt"
    assert (quickly[-1]["video"], quickly[-1]["seed"]) == (run / "play.mp4", 6)
    parts = plan("curves.parquet.parts", 3)
    (parts / "trial-0002.pt").write_bytes(checkpoint.read_bytes())
    assert "a recording of 3 trials; use --trial: 2 have one" in simsched("play", parts).refusal
    simsched("play", parts, "--trial", 2).good  # noqa: B018
    assert quickly[-1]["agent"].trial == 2
    # An older checkpoint has no settings in it: its folder has them.
    state = torch.load(checkpoint, weights_only=True)
    del state["settings"]
    torch.save(state, run / "trial-0000.pt")
    simsched("play", run).good  # noqa: B018
    assert "it does not say what it was trained on" in simsched(
        "play", run / "trial-0000.pt"
    ).refusal  # fmt: skip


def test_what_is_no_run_is_one_line(checkpoint: Path, simsched: Run) -> None:
    Path("empty").mkdir()
    assert simsched("play", "nowhere").refusal == "nowhere: there is no such folder or file"
    assert simsched("play", "empty").refusal.startswith("empty: not the folder of a run: it has")
    run = live_run(Path("own"), game=None, command="python train.py --lr {lr}")
    assert simsched("play", run).refusal == (
        "own: its trials are 'python train.py --lr {lr}'; only GA3C can be played here"
    )
    run = live_run(Path("live"))
    assert simsched("play", run).refusal == (
        "live: the search has no winner yet; no trial has one in live"
    )
    (run / "settings.json").write_text("{")
    assert simsched("play", run).refusal.startswith("live/settings.json: these are no settings")
    winner(live_run(Path("ok")), checkpoint)
    for options, reason in (
        (("--video", "a.gif"), "a.gif: videos are written as MP4"),
        (("--video", "no/a.mp4"), "no/a.mp4: there is no folder no"),
        (("--episodes", 0), "--episodes"),
        (("--json", "no/a.json"), "--json no/a.json: there is no folder"),
    ):
        outcome = simsched("play", "ok", *options)
        assert outcome.code == 2
        assert reason in outcome.err
        assert outcome.err.count("\n") == 1
    assert sorted(path.name for path in Path("ok/best").iterdir()) == [
        "checkpoint.pt", "evaluation.json", "hparams.json",
    ]  # fmt: skip
