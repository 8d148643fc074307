"""The rehearsal of a live search: what it foretells, and when it says that it cannot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("psutil")

import simsched
from simsched.live.nodes import Node
from simsched.live.rehearsal import (
    LOAD_S,
    MOST_WORKERS,
    SAVE_S,
    START_S,
    recorded_curves,
    rehearse,
)
from simsched.live.settings import LiveSettings
from simsched.space import PUBLISHED_GA3C, Real, SearchSpace
from simsched.traces import Metadata, Trace, TraceError, TraceSet, load, write

SPACE = SearchSpace({"lr": Real(0.1, 1.0)})


def cores(count: int, each: int = 1) -> list[Node]:
    return [
        Node(number=n, name=f"node {n}", cores=tuple(range(n * each, (n + 1) * each)))
        for n in range(count)
    ]


GPU = [Node(number=0, name="GPU 0", cores=(0,), gpu=0)]


def settings(**fields: Any) -> LiveSettings:
    game = {"game": "MsPacman", "preset": "repeatable", "phase_length": 20_000, "nodes": 2,
            "space": PUBLISHED_GA3C.to_json()}  # fmt: skip
    return LiveSettings(version="0", code="0", **{**game, **fields})


def of_command(**fields: Any) -> LiveSettings:
    return settings(**{"game": None, "command": "sh x", "space": SPACE.to_json(), **fields})


def ladder(path: Path, trials: int = 4, *, game: str = "", synthetic: bool = False) -> str:
    """Curves whose row r (from 1 to 4) is at 10 r seconds and 100 r steps."""
    count = np.arange(1, 5)
    traces = tuple(
        Trace(trial, {"lr": 0.1 * (trial + 1)}, "complete", count * 10.0, count * 100, count,
              trial + count / 10.0)
        for trial in range(trials)
    )  # fmt: skip
    meta = Metadata(game=game, synthetic=synthetic, hardware="a toaster", space=SPACE.to_json())
    write(TraceSet("ladder", None, meta, traces), path)
    return str(path)


def test_it_is_what_simulate_says() -> None:
    plan = settings(scheduler="hyperband", seed=7, workers=12)
    rehearsal = rehearse(plan, cores(3))
    (run,) = simsched.simulate(
        "MsPacman", nodes=3, workers=12, schedulers=["hyperband"], phases=4, phase_length=20_000,
        start_s=START_S, save_s=SAVE_S, load_s=LOAD_S, seed=7, checkpoints="milestone",
    ).runs  # fmt: skip
    assert rehearsal.run is not None
    assert rehearsal.run == run
    assert run.saves > 0
    assert (rehearsal.curves, rehearsal.recorded_trials) == ("MsPacman", 16)
    assert rehearsal.hardware == load("MsPacman").meta.hardware
    assert (rehearsal.start_s, rehearsal.save_s, rehearsal.load_s) == (START_S, SAVE_S, LOAD_S)
    assert rehearsal.notes == ()


def test_curves_of_ones_own_by_hand(tmp_path: Path) -> None:
    """A command: nothing is charged. Four trials of 40 s on two nodes, none stopped: 80 s."""
    path = ladder(tmp_path / "a.csv")
    plan = of_command(scheduler="random", workers=4, phase_length=100)
    rehearsal = rehearse(plan, cores(2), path)
    assert rehearsal.run is not None
    assert (rehearsal.run.wall_time_s, rehearsal.run.utilization) == (80.0, 1.0)
    assert rehearsal.run.node_hours == 160 / 3600
    assert (rehearsal.curves, rehearsal.hardware) == ("a.csv", "a toaster")
    assert rehearsal.notes == ("nothing is charged for starting, saving and loading a command",)


def test_more_trials_than_were_recorded(tmp_path: Path) -> None:
    path = ladder(tmp_path / "a.csv")
    plan = of_command(scheduler="random", workers=6, phase_length=100)
    rehearsal = rehearse(plan, cores(2), path)
    assert rehearsal.run is not None
    assert rehearsal.run.wall_time_s == 120.0
    assert "6 trials are drawn from 4, with replacement" in rehearsal.notes


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"space": SPACE.to_json()}, "the recorded trials are of another search space"),
        ({"preset": "fast"}, "they were recorded with the preset repeatable, not fast"),
        ({"max_time_s": 60.0}, "it would not be over by --max-time"),
        ({"complete": True}, "training on what was stopped (--complete) is not in it"),
        ({"scheduler": "pbt"}, "what follows a change of hyperparameters is approximate"),
    ],
)
def test_what_to_keep_in_mind(fields: dict[str, Any], note: str) -> None:
    rehearsal = rehearse(settings(**fields), cores(2))
    assert rehearsal.run is not None
    assert rehearsal.notes == (note,)


def test_several_cores_a_node_are_told() -> None:
    rehearsal = rehearse(settings(), cores(1, each=2))
    assert rehearsal.run is not None
    assert rehearsal.notes == ("a trial had one core when it was recorded, and has 2 here",)


def test_curves_of_something_else_are_told(tmp_path: Path) -> None:
    path = ladder(tmp_path / "a.csv", game="Ladder", synthetic=True)
    rehearsal = rehearse(settings(workers=4, phase_length=100), cores(2), path)
    assert rehearsal.run is not None
    assert rehearsal.notes == (
        "the curves are of Ladder",
        "the curves are synthetic",
        "the recorded trials are of another search space",
    )


@pytest.mark.parametrize(
    ("fields", "nodes", "note"),
    [
        ({"game": "Qbert"}, cores(2), "there are no recorded curves of Qbert"),
        ({"game": None, "command": "x"}, cores(2), "there are no recorded curves of a command"),
        (
            {},
            GPU,
            ("the curves of MsPacman were recorded on one core a trial, so their times cannot be "
            "compared with those of a GPU"),
        ),
        (
            {"phase_length": 200_000},
            cores(2),
            ("recorded trial 0 of MsPacman has 500,000 steps, fewer than the 800,000 that 4 phases "
            "of 200,000 need"),
        ),
        (
            {"workers": MOST_WORKERS + 1},
            cores(2),
            "more than 20,000 trials take long to simulate; use simsched simulate",
        ),
    ],
)  # fmt: skip
def test_when_it_cannot_be(fields: dict[str, Any], nodes: list[Node], note: str) -> None:
    rehearsal = rehearse(settings(**fields), nodes)
    assert rehearsal.run is None
    assert rehearsal.notes == (note,)


def test_seconds_can_be_compared_on_a_gpu_and_ones_own_curves_always(tmp_path: Path) -> None:
    assert rehearse(settings(unit="seconds", phase_length=15), GPU).run is not None
    path = ladder(tmp_path / "a.csv")
    assert rehearse(settings(workers=4, phase_length=100), GPU, path).run is not None


def test_the_files_of_curves(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no such file"):
        rehearse(settings(), cores(1), str(tmp_path / "no.csv"))
    breakout = recorded_curves("MinAtar/Breakout-v1")
    assert breakout is not None
    assert breakout.meta.game == "MinAtar/Breakout-v1"
    assert recorded_curves("Qbert") is None
