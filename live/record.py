"""Recording learning curves: trains the trials of a search space for real, keeps every score.

What this makes is what `simsched simulate` replays. A recording can be killed at any moment:
the same call goes on where it stopped.
"""

import datetime
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec

from simsched.live import machine
from simsched.live.assemble import assemble, sha256
from simsched.live.errors import LiveError
from simsched.live.ga3c.compiled import require_compilable
from simsched.live.ga3c.engines import overlaps
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.network import build
from simsched.live.ga3c.transfer import choose_device
from simsched.live.parts import folder_lock, is_finished, read_lines, rows_path
from simsched.live.plan import Plan, Session, read_plan, require_same
from simsched.live.training import Progress, finished_progress
from simsched.live.trial_process import Failure, Task, run_trial

STOP_PATIENCE_S = 20.0
"""How long workers may take to save a checkpoint when the recording is interrupted."""

SUFFIXES = (".parquet", ".csv", ".jsonl")
"""Kinds of trace files."""

Listener = Callable[[Progress | Failure], None]


def parts_folder(out: Path) -> Path:
    """Return the folder that holds a recording while it is made, beside its output."""
    return out.with_name(out.name + ".parts")


def record(
    plan: Plan, out: Path, *, cores: int, listener: Listener, tensorboard: bool = False
) -> Path:
    """Train every trial of a plan and write their learning curves.

    Args:
        plan: what to record; its game under the canonical name.
        out: the trace file to write. Parts are kept in a folder beside it.
        cores: how many may be used; trials are trained side by side, each by a process on
            cores of its own.
        listener: is told how each trial gets on; called in this thread.
        tensorboard: whether each trial writes TensorBoard event files into the parts folder.

    Raises:
        LiveError: the output is somebody else's, the parts are those of another recording,
            there are too few cores, or a trial's process failed. The parts are kept.
        KeyboardInterrupt: interrupted; checkpoints were saved.
    """
    if out.suffix not in SUFFIXES:
        raise LiveError(f"{out}: the name must end in one of {', '.join(SUFFIXES)}")
    available = machine.available_cores()
    if not 1 <= cores <= len(available):
        raise LiveError(
            f"cores: {cores} must be from 1 to {len(available)}, which are available here"
        )
    if plan.cores_per_trial > cores:
        raise LiveError(
            f"cores-per-trial: {plan.cores_per_trial} is more than the {cores} cores that are used"
        )
    _require_trainable(plan)
    parts = parts_folder(out)
    if out.exists() and not parts.exists():
        raise LiveError(f"{out}: exists and is not this recording's; use another --out")
    if not out.parent.is_dir():
        raise LiveError(f"{out}: the folder {out.parent} does not exist")
    parts.mkdir(exist_ok=True)
    with folder_lock(parts):
        recorded = read_plan(parts)
        if recorded is not None:
            require_same(recorded, plan, parts)
            plan = recorded
        if out.exists():
            if sha256(out) == plan.output_sha256:
                return out
            raise LiveError(f"{out}: exists and is not this recording's; use another --out")
        if _unfinished(plan, parts):
            plan = _begin_session(plan, parts, cores)
            each = plan.cores_per_trial
            slots = [tuple(available[k : k + each]) for k in range(0, cores - each + 1, each)]
            failures = _train_all(plan, parts, slots, listener, tensorboard=tensorboard)
            if failures:
                trials = ", ".join(str(failure.trial) for failure in failures)
                raise LiveError(
                    f"{parts}: trials {trials} failed: {failures[0].reason}; "
                    "the same command goes on with them"
                )
        return assemble(plan, parts, out)


def _require_trainable(plan: Plan) -> None:
    """Refuse a game, or a trial's settings, before anything is written."""
    settings = [plan.settings(trial) for trial in range(plan.trials)]
    first = EnvironmentGroup(settings[0], 1)
    first.close()
    device = choose_device(settings[0].device)
    many_threads = overlaps(
        settings[0], frames=first.frames, device=device, cores=plan.cores_per_trial
    )
    if plan.clock == "cpu" and (
        many_threads or settings[0].algorithm == "a3c" or device.type != "cpu"
    ):
        raise LiveError(
            "clock: cpu measures training in one thread; use wall, or --set overlap=off"
        )
    require_compilable(settings[0], overlapped=many_threads)
    build(settings[0], first.observation_shape, first.observation_dtype, first.actions, seed=0)


def _unfinished(plan: Plan, parts: Path) -> list[int]:
    return [t for t in range(plan.trials) if not is_finished(read_lines(rows_path(parts, t)))]


def _begin_session(plan: Plan, parts: Path, cores: int) -> Plan:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    session = Session(today, cores, machine.processor(), machine.versions())
    plan = msgspec.structs.replace(plan, sessions=[*plan.sessions, session])
    plan.save(parts)
    return plan


@dataclass(slots=True)
class _Worker:
    trial: int
    cores: tuple[int, ...]
    process: BaseProcess
    over: bool = False
    """Whether it has said how it ended."""


def _train_all(
    plan: Plan,
    parts: Path,
    slots: list[tuple[int, ...]],
    listener: Listener,
    *,
    tensorboard: bool,
) -> list[Failure]:
    """Run a process for each unfinished trial, as many at a time as there are sets of cores."""
    waiting = _unfinished(plan, parts)
    for trial in sorted(set(range(plan.trials)) - set(waiting)):
        listener(finished_progress(trial, read_lines(rows_path(parts, trial))))
    free = list(slots)
    running: dict[Connection, _Worker] = {}
    failures: list[Failure] = []

    def hear(message: Progress | Failure) -> None:
        if isinstance(message, Failure):
            failures.append(message)
        listener(message)

    try:
        while waiting or running:
            while waiting and free:
                trial, cores = waiting.pop(0), free.pop(0)
                events = parts / "tensorboard" / f"trial-{trial:04d}" if tensorboard else None
                settings = plan.settings(trial)
                task = Task(settings, plan.steps, parts, cores, plan.clock, events)
                connection, process = _start(task)
                running[connection] = _Worker(trial, cores, process)
            for ready in (c for c in wait(list(running)) if isinstance(c, Connection)):
                worker = running[ready]
                if not _receive(ready, worker, hear):
                    del running[ready]
                    free.append(worker.cores)
    finally:
        _stop(running)  # there are some only if we were interrupted
    return failures


def _start(task: Task) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=run_trial,
        args=(task, theirs),
        name=f"trial-{task.settings.trial}",
        daemon=task.settings.algorithm != "a3c",  # whose agents are processes of their own
    )
    with _interrupts_ignored():
        process.start()
    theirs.close()
    return ours, process


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let a new process inherit that it ignores Ctrl-C, from its very first moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _receive(
    connection: Connection, worker: _Worker, hear: Callable[[Progress | Failure], None]
) -> bool:
    """Take one message; returns False once the process is gone."""
    try:
        message = connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        connection.close()
        if not worker.over:
            hear(Failure(worker.trial, _cause_of_death(worker.process.exitcode)))
        return False
    worker.over = isinstance(message, Failure) or message.end is not None
    hear(message)
    return True


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"its process was killed by {signal.Signals(-exit_code).name}"
    return f"its process ended with exit code {exit_code}"


def _stop(running: dict[Connection, _Worker]) -> None:
    """Ask every worker to save a checkpoint and end; end those that do not."""
    for connection in running:
        try:
            connection.send("stop")
        except OSError:
            continue  # it has ended already
    for worker in running.values():
        worker.process.join(STOP_PATIENCE_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
