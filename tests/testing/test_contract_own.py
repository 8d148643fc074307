"""The contract on schedulers of one's own: how a user runs it, and what it says to bad ones."""

import importlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simsched.messages import (
    Checkpoint,
    Continue,
    Decision,
    Exploit,
    Pause,
    Report,
    Run,
    Stop,
    TrialId,
)
from simsched.schedulers import InPlace, Plan
from simsched.testing.contract_checks import SCORES, play
from simsched.testing.contract_player import Player
from simsched.testing.contract_values import ContractError

OWN = """
from simsched.messages import Decision, Pause, Report
from simsched.schedulers import InPlace, Parameter, register
from simsched.testing.contract import SchedulerContract


@register
class Threshold(InPlace):
    name = "threshold"
    summary = "stops below a fixed score"
    parameters = (Parameter("lower", float, 0.0, "the least score that may go on"),)

    def __init__(self, plan, searcher, *, lower=0.0):
        super().__init__(plan, searcher)
        self.lower = lower

    def goes_on(self, place, trial, score):
        return score is not None and score >= self.lower


@register
class Forgetful(Threshold):
    name = "forgetful"
    checkpoints = "pause"

    def tell(self, report: Report) -> Decision:
        self.running.discard(report.trial)
        return Decision(Pause())


class TestThreshold(SchedulerContract):
    scheduler = "threshold:lower=0.5"


class TestForgetful(SchedulerContract):
    scheduler = "forgetful"
    examples = 3
"""


def test_a_user_runs_it_with_two_lines(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(OWN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfp",
         "--color=no"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert len([line for line in passed if "TestThreshold" in line]) > 15, done.stdout
    assert not [line for line in failed if "TestThreshold" in line], done.stdout
    assert len([line for line in failed if "TestForgetful" in line]) > 15, done.stdout
    assert "are paused" in done.stdout


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_what_it_needs_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("contract", "contract_machine"):
        monkeypatch.delitem(sys.modules, f"simsched.testing.{module}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=f"needs {missing}: pip install 'simsched\\[testing\\]'"):
        importlib.import_module("simsched.testing.contract")


def test_simulating_needs_neither() -> None:
    code = (
        "import sys, simsched, simsched.cli; assert not {'pytest', 'hypothesis'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


class Bad(InPlace):
    """Breaks the protocol where it is told to, and is good else."""

    name, summary = "bad", "for tests"

    def goes_on(self, place: int, trial: TrialId, score: float | None) -> bool:
        return True


def bad(**members: Any) -> Callable[..., Bad]:
    return type("Bad", (Bad,), members)


def says(verdict: Any, retired: Any = ()) -> Callable[[Bad, Report], Decision]:
    def tell(self: Bad, report: Report) -> Decision:
        if isinstance(verdict, Pause | Stop):
            self.running.discard(report.trial)
        return Decision(verdict, retired)

    return tell


def runs(*answers: Run) -> Callable[[Bad], Run | None]:
    def ask(self: Bad) -> Run | None:
        self.started += 1
        return answers[self.started - 1] if self.started <= len(answers) else None

    return ask


def first(**changes: Any) -> Run:
    given: dict[str, Any] = {"trial": 0, "hparams": {}, "until": 5} | changes
    return Run(**given)


BREACHES = {
    "starts another number": (bad(ask=runs(first(trial=1))), "trial 1 was started; the next"),
    "starts a trial twice": (bad(ask=runs(first(), first())), "trial 0 is to run, and runs"),
    "starts from nothing saved": (
        bad(checkpoints="pause", ask=runs(first(source=Checkpoint(0, 5)))),
        "was never saved",
    ),
    "starts from where nothing is saved": (
        bad(ask=runs(first(source=Checkpoint(0, 5)))),
        "none are ever saved",
    ),
    "a milestone at 0": (bad(ask=runs(first(until=0))), "must be above 0 and at most 20"),
    "a milestone past the end": (bad(ask=runs(first(until=21))), "must be above 0 and at most 20"),
    "a milestone that is no integer": (bad(ask=runs(first(until=5.0))), "is no integer"),
    "a parameter that is no number": (
        bad(ask=runs(first(hparams={"x": float("nan")}))),
        "are no hyperparameters",
    ),
    "a list for a parameter": (bad(ask=runs(first(hparams={"x": []}))), "are no hyperparameters"),
    "goes on where it is": (bad(tell=says(Continue(5))), "must be above 5 and at most 20"),
    "goes on past the end": (bad(tell=says(Continue(25))), "must be above 5 and at most 20"),
    "pauses without checkpoints": (bad(tell=says(Pause())), "checkpoints are never saved"),
    "copies without checkpoints": (
        bad(tell=says(Exploit(Checkpoint(0, 5), {}, 10))),
        "none are ever saved",
    ),
    "copies what nobody saved": (
        bad(checkpoints="milestone", tell=says(Exploit(Checkpoint(7, 5), {}, 10))),
        "was never saved",
    ),
    "retires who is not paused": (bad(tell=says(Stop(), (3,))), "trial 3 retires, and is not"),
    "retires who reports": (
        bad(tell=lambda self, report: Decision(Stop(), (report.trial,))),
        "itself is among the retired",
    ),
    "retires a list": (bad(tell=says(Stop(), [])), "must be a tuple"),
    "gives no decision": (bad(tell=lambda self, report: Stop()), "not a Decision"),
    "gives no verdict": (bad(tell=says("stop")), "is no verdict"),
    "a snapshot of tuples": (bad(snapshot=lambda self: {"a": ()}), "JSON values only"),
    "a snapshot of infinity": (bad(snapshot=lambda self: {"a": float("inf")}), "JSON values only"),
    "never done": (bad(done=lambda self: False), "yet not done"),
    "done at once": (bad(done=lambda self: True), "done, yet"),
    "an answer that fails": (bad(ask=lambda self: {}[3]), "3"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_of_the_protocol_is_named(breach: str) -> None:
    made, message = BREACHES[breach]
    with pytest.raises((ContractError, KeyError), match=message) as caught:
        play(Player(made, Plan(3, 4, 5)), random.Random(0), 2, SCORES["random"])
    log = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert "Plan(trials=3, phases=4" in log or "snapshot" in breach


def test_a_scheduler_that_leaves_trials_out_says_so() -> None:
    made = bad(__init__=lambda self, plan, searcher: Bad.__init__(self, Plan(2, 4, 5), searcher))
    with pytest.raises(ContractError, match="done after 2 of 3 trials"):
        play(Player(made, Plan(3, 4, 5)), random.Random(0), 2, SCORES["random"])
    play(Player(made, Plan(3, 4, 5), starts_all=False), random.Random(0), 2, SCORES["random"])
