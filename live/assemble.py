"""From the parts of a finished recording to the one trace file."""

import hashlib
import math
import os
from pathlib import Path

import msgspec
import numpy as np

from simsched.live.errors import LiveError
from simsched.live.ga3c.games import FRAME_SKIP, is_atari
from simsched.live.ga3c.settings import Settings
from simsched.live.parts import is_finished, read_lines, rows_path
from simsched.live.plan import Plan
from simsched.traces import Metadata, Trace, TraceSet, write


def read_trial(plan: Plan, parts: Path, trial: int) -> Trace:
    """Read a finished trial.

    Raises:
        LiveError: it is not finished, or its file is broken.
    """
    path = rows_path(parts, trial)
    lines = read_lines(path)
    if not is_finished(lines):
        raise LiveError(f"{path}: trial {trial} is not finished")
    return Trace(
        trial=trial,
        hparams=plan.hparams[trial],
        end=lines[-1].end or "complete",
        seconds=np.array([line.seconds for line in lines], dtype=np.float64),
        steps=np.array([line.steps for line in lines], dtype=np.int64),
        episodes=np.array([line.episodes for line in lines], dtype=np.int64),
        score=np.array(
            [math.nan if line.score is None else line.score for line in lines], dtype=np.float64
        ),
    )


def metadata(plan: Plan, traces: list[Trace]) -> Metadata:
    """Return what the file says about itself: enough to record it again."""
    cores = plan.sessions[-1].cores
    command = (
        f"simsched record --game {plan.game} --trials {plan.trials} --steps {plan.steps} "
        f"--cores {cores} --cores-per-trial {plan.cores_per_trial} --clock {plan.clock} "
        f"--seed {plan.seed} --preset published{_changed(plan)}"
    )
    skip = f" ({FRAME_SKIP} frames each)" if is_atari(plan.game) else ""
    hardware = dict.fromkeys(
        f"{s.hardware}; {max(1, s.cores // plan.cores_per_trial)} trial(s) at a time, "
        f"{plan.cores_per_trial} core(s) each"
        for s in plan.sessions
    )
    clock = (
        "seconds are processor time of the trial's one thread"
        if plan.clock == "cpu"
        else "seconds are wall time"
    )
    return Metadata(
        game=plan.game,
        metric="return",
        mode="max",
        resource_note=f"steps are agent steps{skip}, summed over a trial's agents; "
        f"{clock}; scores are undiscounted, unclipped returns of whole episodes",
        space=plan.space,
        seed=plan.seed,
        hardware="; ".join(hardware),
        versions=plan.sessions[-1].versions,
        date=plan.sessions[0].date,
        recorded_by=f"{command}; {len(plan.sessions)} session(s)",
        ends={str(trace.trial): trace.end for trace in traces},
    )


def _changed(plan: Plan) -> str:
    """Return the options that set what differs from the published settings."""
    published = msgspec.structs.asdict(Settings(game=plan.game))
    changed = {k: v for k, v in plan.training.items() if v != published[k]}
    return "".join(f" --set {name}={value}" for name, value in changed.items())


def assemble(plan: Plan, parts: Path, out: Path) -> Path:
    """Write the trace file of a recording whose trials are all finished.

    The file is first made inside the parts folder and its SHA-256 noted in the plan, so that
    a later call knows its own output from somebody else's file.

    Raises:
        LiveError: a trial is not finished.
        TraceError: the traces break a rule of the format.
    """
    traces = [read_trial(plan, parts, trial) for trial in range(plan.trials)]
    made = parts / out.name
    write(TraceSet(out.stem, None, metadata(plan, traces), tuple(traces)), made)
    msgspec.structs.replace(plan, output_sha256=sha256(made)).save(parts)
    os.replace(made, out)
    return out


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
