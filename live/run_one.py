"""One training run in a folder of its own: what `simsched train` does.

plan.json           what is trained; --resume goes on with it
trial-0000.jsonl    a line per finished episode
trial-0000.pt       the newest checkpoint
trial-0000.log      what the worker logged, if anything: adjustments of its parts, why it diverged
trial-0000.error.txt    where the worker broke, if it did
curve.parquet       the learning curve as a trace file, once the run is complete
tensorboard/        event files, on request
"""

import datetime
import shlex
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from simsched.live import machine
from simsched.live.assemble import metadata, read_trial
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
from simsched.traces import TraceSet, write

CURVE = "curve.parquet"
HPARAMS = ("learning_rate", "t_max", "gamma")
"""Settings that the curve's file holds as hyperparameters."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, what a cluster's batch system sends, and a closed terminal."""
MOST_STEPS = 10**15
"""More agent steps than any machine will ever take."""


def plan_run(settings: Settings, steps: int) -> Plan:
    """Return the plan of a run of one trial."""
    if steps < 1:
        raise LiveError(f"steps: {steps} is too small, use 1 or more")
    if steps > MOST_STEPS:
        raise LiveError(f"steps: {steps} is too large, use {MOST_STEPS} or less")
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

    Ctrl-C or SIGTERM once saves and stops; twice stops at once, the last checkpoint stands.

    Args:
        plan: what to train.
        folder: exists; it is empty or has this plan's files.
        listener: told how far it is.
        tensorboard: whether to write event files.

    Returns how it ended; None if it was stopped.

    Raises:
        LiveError: files that do not fit together, or a part of the worker broke; the traceback
            is in the folder then.
        OSError: a file cannot be written.
        KeyboardInterrupt: interrupted for the second time.
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
        end = _train(job, report)
        if end is not None and not (folder / CURVE).exists():
            _write_curve(plan, folder)
        return end


def _train(job: Job, report: Callable[[Progress], bool]) -> End | None:
    """Train; what breaks in an emulator or in torch becomes one line, with its traceback aside."""
    try:
        return train(job, report)
    except LiveError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise LiveError(f"{job.rows.parent}: {error.strerror or error}") from error  # a full disk
    except Exception as error:
        aside = job.rows.with_suffix(".error.txt")
        aside.write_text(traceback.format_exc())
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise LiveError(f"{type(error).__name__}: {reason} (see {aside})") from error


def _write_curve(plan: Plan, folder: Path) -> None:
    """Write the learning curve as a trace file, with the command that repeats it."""
    trace = read_trial(plan, folder, 0)
    told = metadata(plan, [trace])
    told = msgspec.structs.replace(
        told, recorded_by=f"{command(plan)}; {len(plan.sessions)} session(s)"
    )
    write(TraceSet(Path(CURVE).stem, None, told, (trace,)), folder / CURVE)


def command(plan: Plan) -> str:
    """Return the `simsched train` that trains what a plan of one trial says."""
    published = msgspec.structs.asdict(Settings(game=plan.game))
    own = plan.hparams[0]
    changed = {name: value for name, value in plan.training.items() if value != published[name]}
    words = ["simsched", "train", "--game", plan.game]
    options = {"steps": plan.steps, "seed": plan.seed, "preset": "published", **own, **changed}
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += [f"--{name.replace('_', '-')}", text]
    return shlex.join(words)


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """Give an event that a signal to stop sets the first time; the second time it interrupts."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(number: int, frame: FrameType | None) -> Any:
        if stopped.is_set():
            return signal.default_int_handler(number, frame)
        stopped.set()
        return None

    ignored = signal.SIG_IGN  # as nohup does
    handled = [number for number in STOPS if signal.getsignal(number) != ignored]
    before = [signal.signal(number, stop) for number in handled]
    try:
        yield stopped
    finally:
        for number, handler in zip(handled, before, strict=True):
            signal.signal(number, handler)


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
