"""`simsched train`, by the command itself: run, stopped, taken up, looked at."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from simsched.cli.training_options import descriptions, parse, parse_all
from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import PRESETS, Settings
from simsched.live.parts import read_lines
from simsched.traces import read

pytestmark = pytest.mark.torch

QUICK = ("--game", "CartPole-v1", "--preset", "repeatable", "--agents", "4", "--seed", "3")


MAIN = "from simsched.cli import main; main()"
HELD = f"""
import time
from pathlib import Path
from simsched.live.ga3c.worker import Worker

def held(worker):
    if worker.episodes and not Path("go").exists():
        while not Path("go").exists():
            time.sleep(0.01)
        time.sleep(0.6)  # it looks whether it is to stop each half a second
    return advance(worker)

advance, Worker.advance = Worker.advance, held
{MAIN}
"""
"""Stands still after its first episode, until there is a file `go`."""


def command(*options: str, code: str = MAIN) -> list[str]:
    return [sys.executable, "-P", "-c", code, "train", *options]


def run(*options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*options), cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )


def refused(*options: str, cwd: Path) -> str:
    """The one line of a refusal; nothing is left behind."""
    done = run(*options, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    return done.stderr.removeprefix("error: ").rstrip("\n")


def test_a_run_gives_a_curve_scalars_and_json(tmp_path: Path) -> None:
    done = run(
        *QUICK, "--steps", "6000", "--out", "a", "--tensorboard", "--json", "a.json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a/curve.parquet: complete, 6,000 steps in ")
    (trace,) = read(tmp_path / "a" / "curve.parquet").traces
    assert trace.end == "complete"
    assert trace.steps[-1] == 6000
    assert trace.hparams == {"learning_rate": 7e-4, "t_max": 5, "gamma": 0.99}
    # CartPole pays 1 a step; four episodes are in flight at the end.
    assert 0 <= 6000 - np.nansum(trace.score) <= 4 * 500

    result = json.loads((tmp_path / "a.json").read_text())
    assert (result["end"], result["steps"]) == ("complete", 6000)
    assert result["episodes"] == trace.episodes[-1]
    assert result["recent_score"] == pytest.approx(np.mean(trace.score[:-1][-100:]))
    assert result["settings"]["agents"] == 4
    assert result["settings"]["seed"] == 3

    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator(str(tmp_path / "a" / "tensorboard"))
    accumulator.Reload()
    names = set(accumulator.Tags()["scalars"])
    assert {
        "speed/PPS", "speed/TPS", "batch/prediction", "batch/training", "train/policy_lag",
        "train/entropy", "train/value_loss", "train/policy_loss", "train/gradient_norm",
        "episode/score", "episode/length",
    } <= names  # fmt: skip
    entropy = [event.value for event in accumulator.Scalars("train/entropy")]
    assert all(0 < value <= np.log(2) + 1e-6 for value in entropy)
    assert accumulator.Scalars("batch/training")[-1].value == 80
    assert accumulator.Scalars("speed/steps_per_s")[-1].step == 6000
    assert 0 < accumulator.Scalars("episode/score")[-1].step <= 6000  # of its last episodes

    again = run("--resume", "a", "--json", "-", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["steps"] == 6000


def test_the_same_seed_gives_the_same_curve(tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = run(*QUICK, "--steps", "4000", "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    (first,), (second,) = (read(tmp_path / name / "curve.parquet").traces for name in ("a", "b"))
    np.testing.assert_array_equal(first.score, second.score)
    np.testing.assert_array_equal(first.steps, second.steps)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_stop_saves_and_resume_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    rows = tmp_path / "a" / "trial-0000.jsonl"
    with subprocess.Popen(
        command(*QUICK, "--steps", "30000", "--out", "a", code=HELD),
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 300
        while not (rows.exists() and read_lines(rows)):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, number)
        (tmp_path / "go").touch()
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 130, said
    assert "Interrupted and saved after" in said
    assert "simsched train --resume a" in said
    assert "Traceback" not in said
    assert (tmp_path / "a" / "trial-0000.pt").exists()
    assert not (tmp_path / "a" / "curve.parquet").exists()
    before = read_lines(rows)

    assert "keeps its settings" in refused("--resume", "a", "--t-max", "9", cwd=tmp_path)
    done = run("--resume", "a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = read_lines(rows)
    assert after[: len(before)] == before
    assert after[-1].steps == 30_000
    assert after[-1].end == "complete"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--game", "MsPackman"), "game: 'MsPackman' is unknown, did you mean 'MsPacman'?"),
        (("--t-max", "0"), "t_max: 0 is too small, use 1 or more"),
        (("--t-max", "1.5"), "t_max: '1.5' must be a whole number"),
        (("--gamma", "1.5"), "gamma: 1.5 is outside (0, 1]"),
        (("--agents", "4", "--predictors", "5"), "predictors: 5 is more than the 4 agents"),
        (("--game", "Pendulum-v1"), "game: Pendulum-v1 has actions Box"),
        (("--optimizer", "rmsprob"), "optimizer: 'rmsprob' is none of rmsprop, rmsprop-tf, adam"),
        (("--vtrace", "perhaps"), "vtrace: 'perhaps' must be true or false"),
        (("--device", "tpu"), "device: 'tpu' is none of auto, cpu, cuda, cuda:N"),
        (("--network", "large"), "network: large cannot take the observations of CartPole-v1"),
        (("--sticky-actions", "0.25"), "sticky_actions: 0.25 is for Atari games"),
        (("--steps", "0"), "steps: 0 is too small, use 1 or more"),
        (("--resume", "nowhere"), "nowhere: not the folder of a training run"),
    ],
)
def test_bad_settings_are_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from simsched.cli import main

    start = () if options[0] in ("--resume", "--game") else ("--game", "CartPole-v1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["simsched", "train", *start, *options])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {message}")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "precious.txt").write_text("x")
    said = refused(*QUICK, "--out", "a", cwd=tmp_path)
    assert said == "--out a: is there already; name a new folder, or use --resume"
    assert (tmp_path / "a" / "precious.txt").read_text() == "x"


def test_every_setting_is_described_and_parsed() -> None:
    fields = Settings.__struct_fields__
    assert set(descriptions()) == set(fields)
    assert all(text.endswith(".") or text for text in descriptions().values())
    assert parse_all(("least-batch=40", "vtrace=true", "gamma=0.9")) == {
        "least_batch": 40, "vtrace": True, "gamma": 0.9,
    }  # fmt: skip
    with pytest.raises(LiveError, match=r"agnets: is no setting \(did you mean 'agents'\?\)"):
        parse("agnets", "3")
    with pytest.raises(LiveError, match="must be NAME=VALUE"):
        parse_all(("agents",))


def test_presets_work_and_the_docs_have_their_numbers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ga3c.md").read_text()
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    rows = {line[0].strip(): line[1:] for line in lines if len(line) == 4}
    names = {
        "agents (N_A)": "agents", "groups": "groups", "predictors (N_P)": "predictors",
        "trainers (N_T)": "trainers", "prediction queue, observations": "prediction_queue",
        "largest prediction batch": "prediction_batch", "training queue, samples": "training_queue",
        "least training batch, samples": "least_batch", "learning rate": "learning_rate",
    }  # fmt: skip
    for column, preset in enumerate(("published", "fast", "repeatable")):
        settings = Settings(game="Pong", **PRESETS[preset])
        for row, name in names.items():
            assert float(rows[row][column]) == getattr(settings, name), (preset, name)


def test_adjustments_are_logged(tmp_path: Path) -> None:
    done = run(
        "--game", "CartPole-v1", "--steps", "60000", "--agents", "8", "--least-batch", "40",
        "--overlap", "on", "--adjust", "random-walk", "--adjust-after-s", "0.2",
        "--adjust-every-s", "0.3", "--out", "a", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "a" / "trial-0000.log").read_text().splitlines()
    assert "INFO adjustment, window 1: groups 2, predictors 1, trainers 1, training " in lines[0]
    assert lines[0].endswith(" samples/s, measured")
    assert "window 2: " in lines[1]
    assert lines[1].endswith((", kept", ", reverted"))
