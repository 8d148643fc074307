"""One training run in a folder of its own: what `simsched train` does.

plan.json           what is trained; --resume goes on with it
trial-0000.jsonl    a line per finished episode
trial-0000.pt       the newest checkpoint
trial-0000.log      what the worker logged, if anything: adjustments of its parts
curve.parquet       the learning curve as a trace file, once the run is complete
tensorboard/        event files, on request
"""

import datetime
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from simsched.live import machine
from simsched.live.assemble import assemble
from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings
from simsched.live.parts import (
    End,
    checkpoint_path,
    folder_lock,
    is_finished,
    read_lines,
    rows_path,
)
from simsched.live.plan import Plan, Session, read_plan
from simsched.live.training import Job, Progress, train

CURVE = "curve.parquet"
HPARAMS = ("learning_rate", "t_max", "gamma")
"""Settings that the curve's file holds as hyperparameters."""


def plan_run(settings: Settings, steps: int) -> Plan:
    """Return the plan of a run of one trial."""
    if steps < 1:
        raise LiveError(f"steps: {steps} is too small, use 1 or more")
    fields = msgspec.structs.asdict(settings)
    own = {"game", "seed", "trial", *HPARAMS}
    return Plan(
        game=settings.game,
        trials=1,
        steps=steps,
        seed=settings.seed,
        space={},
        training={name: value for name, value in fields.items() if name not in own},
        cores_per_trial=len(machine.available_cores()),
        hparams=[{name: fields[name] for name in HPARAMS}],
    )


def read_run(folder: Path) -> Plan:
    """Return the plan of a run's folder; LiveError if there is none."""
    plan = read_plan(folder) if folder.is_dir() else None
    if plan is None or plan.trials != 1:
        raise LiveError(f"{folder}: not the folder of a training run, plan.json is missing")
    return plan


def run(
    plan: Plan, folder: Path, listener: Callable[[Progress], None], *, tensorboard: bool
) -> End | None:
    """Train the run in a folder, from its checkpoint if it has one.

    Ctrl-C once saves and stops; twice stops at once, the last checkpoint stands.

    Args:
        plan: what to train.
        folder: exists; it is empty or has this plan's files.
        listener: told how far it is.
        tensorboard: whether to write event files.

    Returns how it ended; None if it was stopped.
    """
    with folder_lock(folder), _stop_on_interrupt() as stopped:
        if not is_finished(read_lines(rows_path(folder, 0))):
            session = Session(
                datetime.datetime.now(datetime.UTC).date().isoformat(),
                plan.cores_per_trial,
                machine.processor(),
                machine.versions(),
            )
            plan = msgspec.structs.replace(plan, sessions=[*plan.sessions, session])
            plan.save(folder)

        def report(progress: Progress) -> bool:
            listener(progress)
            return stopped.is_set()

        job = Job(
            plan.settings(0),
            plan.steps,
            rows_path(folder, 0),
            checkpoint_path(folder, 0),
            tensorboard=folder / "tensorboard" if tensorboard else None,
            keep_checkpoint=True,
        )
        end = train(job, report)
        if end is not None and not (folder / CURVE).exists():
            assemble(plan, folder, folder / CURVE)
        return end


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets the first time; the second time it interrupts."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(number: int, frame: FrameType | None) -> Any:
        if stopped.is_set():
            return signal.default_int_handler(number, frame)
        stopped.set()
        return None

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def play(plan: Plan, folder: Path, video: Path, *, greedy: bool = False) -> float:
    """Play an evaluation episode with the newest checkpoint and film it; returns the score.

    Raises:
        LiveError: there is no checkpoint, or the game cannot be filmed.
    """
    from simsched.live.ga3c.trained import load_network
    from simsched.live.ga3c.video import record_video

    path = checkpoint_path(folder, 0)
    if not path.exists():
        raise LiveError(f"{path}: there is no checkpoint to play with")
    settings = plan.settings(0)
    network = load_network(path, settings)
    return record_video(network, settings, video, seed=settings.seed, greedy=greedy).score
