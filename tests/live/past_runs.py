"""Folders of live searches: simulated ones whose every figure is known, and real small ones."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from simsched.cluster import Cluster
from simsched.events import Adopt, Event, Reported, Save, Start
from simsched.journal import Header, Journal, Record, read_journal
from simsched.live.curves import TrialCurve
from simsched.live.protocol import Counters
from simsched.live.search import configurations, make_scheduler
from simsched.live.settings import LiveSettings, code_digest
from simsched.own_curves import OwnCurves
from simsched.replay import Cursor, Curve, curve_of
from simsched.retries import Policy
from simsched.simulation import SimulatedCluster
from simsched.space import PUBLISHED_GA3C
from simsched.traces import Trace

PHASES, PHASE_LENGTH = 4, 30
COSTS = {"start_s": 2.0, "save_s": 0.25, "load_s": 0.125}
SPACE = json.loads(json.dumps(PUBLISHED_GA3C.to_json()))


def settings_of(scheduler: str = "hypertrick", **changes: Any) -> LiveSettings:
    """Settings of a search of a made-up program."""
    fields: dict[str, Any] = {
        "version": "0",
        "code": code_digest(),
        "command": "train --lr {learning_rate}",
        "nodes": 3,
        "workers": 10,
        "scheduler": scheduler,
        "phases": PHASES,
        "phase_length": PHASE_LENGTH,
        "space": SPACE,
        "seed": 7,
    }
    return LiveSettings(**{**fields, **changes})


def made_traces(settings: LiveSettings, diverged: Sequence[int] = ()) -> list[Trace]:
    """A trace for each trial: a row every few steps, and episodes that end past milestones."""
    found = []
    for trial, hparams in enumerate(configurations(settings)):
        rng = np.random.default_rng([settings.seed, trial])
        steps = rng.integers(3, 12, size=60).cumsum()
        seconds = (rng.integers(100_000, 2_000_000, size=60)).cumsum() / 1e6
        score = rng.normal(size=60).cumsum()
        end = "complete"
        if trial in diverged:
            steps, seconds, score, end = steps[:9], seconds[:9], score[:9], "diverged"
            score[-1] = np.nan
        episodes = np.arange(1, len(steps) + 1)
        found.append(Trace(trial, hparams, end, seconds, steps, episodes, score))  # type: ignore[arg-type]
    return found


class Uneven(SimulatedCluster):
    """A world where everything takes longer or shorter, as on a real machine."""

    def _outcome(self, node: Any, command: Any) -> Event:
        event = super()._outcome(node, command)
        trial = node.cursor.trial
        if isinstance(command, Save):
            odd = 1_000 * trial + command.checkpoint.step
            return msgspec.structs.replace(event, at=event.at + odd)
        odd = (7_919 * (trial + 1) * command.until) % 500_000
        start = odd if isinstance(command, Start | Adopt) else 0
        load = 3 * odd if getattr(command, "source", None) is not None else 0
        assert isinstance(event, Reported)
        return msgspec.structs.replace(
            event,
            at=event.at + start + load + odd // 10,
            start_us=event.start_us + start,
            load_us=event.load_us + load,
        )


def make_run(
    folder: Path,
    settings: LiveSettings,
    *,
    traces: Sequence[Trace] | None = None,
    world: Callable[..., SimulatedCluster] = SimulatedCluster,
    costs: dict[str, float] = COSTS,
) -> SimulatedCluster:
    """Simulate a search, and leave behind what a live one leaves. Returns its world."""
    sign = -1.0 if settings.mode == "min" else 1.0
    made = made_traces(settings) if traces is None else traces
    curves = [curve_of(trace, settings.unit, sign) for trace in made]
    folder.mkdir()
    about = {"run": "made up", "settings": msgspec.to_builtins(settings)}
    with (folder / "journal.jsonl").open("wb") as file:
        journal = Journal(file, about, settings.plan.maximum)
        simulated = world(
            make_scheduler(settings),
            curves,
            OwnCurves(curves),
            Cluster(settings.nodes, **costs),
            settings.plan.maximum,
            journal,
            Policy(save_at=settings.checkpoints),
        )
        simulated.timeline = simulated.run()  # type: ignore[attr-defined]
    for trial, record in simulated.ledger.trials.items():
        told = [(milestone.step, milestone.score) for milestone in record.curve]
        write_rows(folder, made[trial], curves[trial], told, sign)
    return simulated


def write_rows(
    folder: Path,
    trace: Trace,
    curve: Curve,
    told: Sequence[tuple[int, float | None]],
    sign: float = 1.0,
) -> None:
    """Write what a trial's worker told up to its last milestone."""
    rows = TrialCurve(folder / "trials" / f"{curve.trace:04d}" / "rows.jsonl")
    cursor, done = Cursor(curve, curve.trace), 0
    rows.started(1, Counters())
    for step, score in told:
        cursor.advance(step)
        end = cursor.row + 1
        lines = [
            (float(trace.seconds[i]), int(trace.steps[i]), int(trace.episodes[i]), float(s))
            for i, s in zip(range(done, end), trace.score[done:end], strict=True)
            if not np.isnan(s)
        ]
        rows.add(lines)
        columns = (trace.steps, trace.episodes, trace.seconds)
        counters = Counters(*(column[end - 1].item() for column in columns))
        rows.reached(step, step, counters, None if score is None else score * sign)
        done = end
    rows.close()


def rows(folder: Path, trial: int) -> Path:
    """The file of what a trial's worker told."""
    return folder / "trials" / f"{trial:04d}" / "rows.jsonl"


def rewrite(folder: Path, change: Callable[[int, Record], Record | None]) -> None:
    """Write a journal anew, whole, with other records; None ends it there."""
    path = folder / "journal.jsonl"
    header, *records = read_journal(path)
    assert isinstance(header, Header)
    with path.open("wb") as file:
        journal = Journal(file, header.run, header.maximum)
        for line, record in enumerate(records, 2):
            assert isinstance(record, Record)
            new = change(line, record)
            if new is None:
                return
            journal.append(new.event, new.decision, new.abandoned, new.commands)


PROGRAM = """
import json, math, sys, time
from pathlib import Path
from simsched.live.client import Trial

state = {"step": 0}
def save(path): Path(path).write_text(json.dumps(state))
def load(path): state.update(json.loads(Path(path).read_text()))
rate = float(sys.argv[1])
def change(hparams): global rate; rate = hparams["rate"]
with Trial(save=save, load=load, change=change) as trial:
    trial.begin()
    state["step"] = trial.steps
    while True:
        time.sleep(0.01)
        state["step"] += 1
        if not trial.report(state["step"] * (1 - abs(math.log10(rate) + 2))):
            break
"""
SEARCH = """
import sys
from pathlib import Path
from simsched.live.machine import available_cores
from simsched.live.nodes import Node
from simsched.live.search import run_search
from simsched.live.settings import LiveSettings, code_digest

class Show:
    def update(self, status): pass
    def line(self, text): pass

folder, scheduler, program = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
folder.mkdir()
settings = LiveSettings(
    version="0", code=code_digest(), command=f"{sys.executable} {program} {{rate}}", nodes=2,
    workers=4, scheduler=scheduler, phases=3, phase_length=5, grace_s=60,
    space={"rate": {"type": "real", "low": 1e-3, "high": 0.1, "log": True}},
)
cores = tuple(available_cores())
nodes = [Node(number=number, name=f"slot {number}", cores=cores) for number in range(2)]
run_search(settings, nodes, folder, resume=False, show=Show())
"""


def run_for_real(folder: Path, scheduler: str) -> Path:
    """Run a small search with real processes; returns its folder."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", SEARCH, folder / scheduler, scheduler, program],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / scheduler
