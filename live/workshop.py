"""A live search's folder while it runs: curves, checkpoints, logs, and the workers' processes."""

import logging
import shutil
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from simsched.control import Control
from simsched.events import Event, Reported, Start
from simsched.live.attempt import Attempt
from simsched.live.command_line import fill
from simsched.live.curves import TrialCurve
from simsched.live.gpu_memory import gpu_memory_in_use, wait_for_gpu_memory
from simsched.live.launch import Ending, WorkerProcess
from simsched.live.logs import RunLog
from simsched.live.nodes import Node
from simsched.live.protocol import Counters, Source, Welcome
from simsched.live.settings import LiveSettings
from simsched.live.storage import Store
from simsched.messages import Continue, Exploit, Hparams, Pause, TrialId, Verdict

ATTEMPTS = "attempts.jsonl"
GPU_PATIENCE_S = 10.0
LEAST_FREE_BYTES = 4 << 20


class Started(msgspec.Struct, frozen=True):
    """A worker's process, as a later coordinator must know it to end it."""

    attempt: int
    node: int
    trial: int
    pid: int
    created: float


class _Output(NamedTuple):
    last: deque[str]


class Costs:
    """What was measured lately of what takes time beside training, in seconds."""

    def __init__(self) -> None:
        self._saves: deque[float] = deque(maxlen=101)

    @property
    def save_s(self) -> float:
        """Median of the latest saves; 0 before the first."""
        return median(self._saves) if self._saves else 0.0

    def saved(self, seconds: float) -> None:
        """A save took so long."""
        self._saves.append(seconds)


class Workshop:
    """The folder of a run, and what is made in it."""

    def __init__(
        self,
        folder: Path,
        settings: LiveSettings,
        run: str,
        log: RunLog,
        say: Callable[[str], None],
    ) -> None:
        """Open it.

        Args:
            folder: the run's; it exists.
            settings: of the search.
            run: the run's id, which its workers have in their environment.
            log: its logs.
            say: tells people something, in a line.
        """
        self.folder = folder
        self.settings = settings
        self.run = run
        self.log = log
        self.store = Store(folder / "checkpoints")
        self.costs = Costs()
        self.welcomes: dict[int, Welcome] = {}
        self.what = repr(settings.command) if settings.command else f"GA3C on {settings.game}"
        self._say = say
        self._curves: dict[TrialId, TrialCurve] = {}
        self._touched: set[TrialId] = set()
        self._output: dict[int, deque[str]] = {}
        self._memory: dict[int, int | None] = {}
        self._sign = -1.0 if settings.mode == "min" else 1.0

    def say(self, text: str) -> None:
        """Tell people, and the log."""
        self.log.event(logging.INFO, text)
        self._say(text)

    @staticmethod
    def extra(attempt: Attempt) -> dict[str, int]:
        """Return what a log record says of an attempt."""
        return {"node": attempt.node, "trial": attempt.trial, "attempt": attempt.number}

    def trial_folder(self, trial: TrialId) -> Path:
        """Return where a trial's own files are."""
        return self.folder / "trials" / f"{trial:04d}"

    def curve(self, trial: TrialId) -> TrialCurve:
        """Return a trial's curve, open for writing."""
        self._touched.add(trial)
        if trial not in self._curves:
            self._curves[trial] = TrialCurve(self.trial_folder(trial) / "rows.jsonl")
        return self._curves[trial]

    def flush(self) -> None:
        """Hand what was told to the operating system."""
        for trial in self._touched:
            self._curves[trial].flush()
        self._touched.clear()

    def close(self) -> None:
        """Close the curves. What a full disk does not take is trained again, or was told."""
        for trial, curve in self._curves.items():
            try:
                curve.sync()
                curve.close()
            except OSError as error:
                self.log.event(logging.ERROR, f"its curve is not whole: {error}", trial=trial)

    def disk_is_full(self) -> bool:
        """Whether there is no room for a checkpoint, or nearly none."""
        return shutil.disk_usage(self.folder).free < LEAST_FREE_BYTES

    # Workers.

    def welcome(self, command: Start, source: Source | None) -> Welcome:
        """Return what a worker that starts is told."""
        curve = self.curve(command.trial)
        counters = self._begins_at(command, source, curve)
        settings = self.settings
        own: dict[str, Any] = {}
        if settings.command is None:
            own = {
                "game": settings.game,
                "training": settings.training,
                "tensorboard": settings.tensorboard,
            }
        return Welcome(
            trial=command.trial,
            attempt=command.attempt,
            node=command.node,
            hparams=command.hparams,
            settings=own,
            seed=settings.seed,
            unit=settings.unit,
            since=command.since,
            until=command.until,
            source=source,
            steps=counters.steps,
            episodes=counters.episodes,
            seconds=counters.seconds,
            last_score=curve.scores.get(command.since),
            folder=str(self.trial_folder(command.trial).absolute()),
            heartbeat_s=settings.heartbeat_s,
        )

    @staticmethod
    def _begins_at(command: Start, source: Source | None, curve: TrialCurve) -> Counters:
        """Return the trial's own counters where its worker begins."""
        if source is None:
            return Counters()
        if source.trial == command.trial:
            kept = {name: source.state.get(name, 0) for name in Counters.__struct_fields__}
            return msgspec.convert(kept, Counters)
        # A diverged trial's count is below the milestone that it told, so counts are compared.
        told = [milestone for milestone, count in curve.counts.items() if count == command.count]
        return curve.milestones[max(told)] if told else Counters()

    def launch(
        self,
        attempt: Attempt,
        node: Node,
        hparams: Hparams,
        socket: str,
        exited: Callable[[Attempt, int], None],
    ) -> WorkerProcess:
        """Start a worker's process. Raises LiveError if that cannot be done."""
        command = self.settings.command
        argv = (
            [sys.executable, "-P", "-m", "simsched.live.ga3c_trial"]
            if command is None
            else fill(command, hparams)
        )
        lines: deque[str] = deque(maxlen=5)
        self._output[attempt.number] = lines
        self._memory[attempt.number] = gpu_memory_in_use(node)

        def hear(line: str) -> None:
            if line.strip():
                lines.append(line.strip())
            self.log.worker_line(attempt.node, attempt.trial, attempt.number, line)

        process = WorkerProcess(
            argv,
            node,
            run=self.run,
            attempt=attempt.number,
            environment={
                "SIMSCHED_SOCKET": socket,
                "SIMSCHED_TOKEN": attempt.token,
                "SIMSCHED_TRIAL": str(attempt.trial),
                "SIMSCHED_ATTEMPT": str(attempt.number),
                "SIMSCHED_NODE": str(attempt.node),
            },
            hear=hear,
            on_exit=lambda code: exited(attempt, code),
        )
        started = Started(attempt.number, attempt.node, attempt.trial, process.pid, process.created)
        with (self.folder / ATTEMPTS).open("ab") as file:
            file.write(msgspec.json.encode(started) + b"\n")
        return process

    async def left(self, attempt: Attempt, node: Node, ending: Ending) -> None:
        """A worker and its group are gone; wait until its GPU memory is back."""
        self._output.pop(attempt.number, None)
        self.welcomes.pop(attempt.number, None)
        before = self._memory.pop(attempt.number, None)
        await wait_for_gpu_memory(node, before, GPU_PATIENCE_S, ending.pids)
        shutil.rmtree(self.store.folder / f".attempt-{attempt.number}", ignore_errors=True)
        self.curve(attempt.trial).sync()
        self.curve(attempt.trial).close()

    def last_line(self, attempt: Attempt) -> str:
        """Return what a worker printed last."""
        lines = self._output.get(attempt.number)
        return lines[-1][:300] if lines else ""

    # Events.

    def decided(self, event: Event, control: Control) -> None:
        """Tell people what became of an event."""
        decision = control.coordinator.decision
        if not isinstance(event, Reported) or decision is None:
            return
        trial = control.ledger.newest_trial
        score = "diverged" if event.score is None else f"{event.score * self._sign:,.4g}"
        phase = -(-event.step // self.settings.phase_length)
        self.say(
            f"trial {trial}: phase {phase} of {self.settings.phases}, score {score}: "
            f"{_in_words(decision.verdict, last=event.step == control.ledger.maximum)}"
        )


def _in_words(verdict: Verdict, *, last: bool) -> str:
    if isinstance(verdict, Continue):
        return "goes on"
    if isinstance(verdict, Pause):
        return "pauses" if verdict.save else "pauses, will copy another"
    if isinstance(verdict, Exploit):
        return f"copies trial {verdict.donor.trial}"
    return "finished" if last else "stopped"
