"""A3C on the processor, the original asynchronous algorithm: what GA3C is compared with.

Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning", arXiv 1602.01783. Each
agent is a process with an environment and a copy of the network of its own; they meet only in
the shared parameters and the optimizer's shared statistics. What such a process does is in
`a3c_process`; here is what starts them, listens to them and ends them.
"""

import math
import multiprocessing
import signal
import time
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.a3c_process import (
    STEPS,
    UPDATES,
    Failure,
    Go,
    Held,
    Hold,
    Report,
    Task,
    run_agent,
    share,
)
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.monitor import Monitor
from simsched.live.ga3c.pausing import Pausable, Stopwatch
from simsched.live.ga3c.turns import Ended

WAIT_S = 0.1
"""How long `advance` waits for a process to say something."""

PATIENCE_S = 5.0
"""How long processes may take to end by themselves, when all is over."""


@dataclass(slots=True)
class _Member:
    """A process, as its parent sees it."""

    agent: int
    process: BaseProcess
    connection: Connection
    held: bool = False
    heard_s: float = 0.0
    """Up to when it has reported what it did, in the engine's seconds."""


class A3CEngine(Pausable):
    """Runs a process for each agent. Nothing of it can be repeated: their order is by chance.

    Statistics come in reports, four a second from each process, so episodes are given out up to
    half a second after they ended, with their exact counters and in the order of their ends. A
    prediction, for the monitor, is one that an agent acted by: the value that ends a segment
    does not count, as in the other engines.
    """

    def __init__(
        self, learner: Learner, monitor: Monitor, seed_key: tuple[int, ...], start_steps: int
    ) -> None:
        """Start the processes, and wait until each has made its environment.

        Args:
            learner: its parameters and its optimizer's state move to shared memory.
            monitor: counts.
            seed_key: keys all random draws, with the steps at the start and the agent's number.
            start_steps: agent steps before this engine, for the schedules.

        Raises:
            LiveError: the network is not on the processor, this process is daemonic and so may
                start none, or one of them died.
        """
        device = learner.flat.values.device
        if device.type != "cpu":
            raise LiveError(f"device: a3c trains on the processor, not on {device}; use cpu")
        if multiprocessing.current_process().daemon:
            raise LiveError("a3c starts processes, which a daemonic process may not")
        self._learner = learner
        self._monitor = monitor
        self._settings = learner.knobs.settings
        self._failure: Exception | None = None
        self._ended: list[Ended] = []
        self._given_steps = 0
        self._members: list[_Member] = []
        self._acting = False
        self._shared = share(learner, self._settings.agents, start_steps)
        self._counts = self._shared.counts.numpy()
        self._watch = Stopwatch()
        try:
            for agent in range(self._settings.agents):
                self._members.append(self._start(agent, seed_key))
            self._listen_until_held()
            self._raise_failure()
        except BaseException:
            self.close()
            raise
        self._watch = Stopwatch()
        self._move()

    @property
    def steps(self) -> int:
        """Agent steps of all processes."""
        return int(self._counts[:-1, STEPS].sum())

    @property
    def seconds(self) -> float:
        """Seconds since the processes began to act, less those of standing still.

        They end when the engine fails or is closed.
        """
        return self._watch.seconds

    def advance(self) -> None:
        """Pass on changed settings, and listen for a moment.

        Raises:
            DivergedError: a prediction, a loss or a gradient of a process is not finite.
            LiveError: a process died; the message names it and the cause. In both cases the
                others stand still from then on.
        """
        self._raise_failure()
        self._tell_settings()
        self._listen(WAIT_S)
        self._count_updates()
        if self._failure is not None:
            self._halt(PATIENCE_S)
            self._raise_failure()

    def take_ended(self) -> list[Ended]:
        """Return the episodes that ended since the last call, in the order of their ends.

        Those that a slower report could still precede wait for the next call.
        """
        over = self._failure is not None or all(member.held for member in self._members)
        horizon = math.inf if over else min(member.heard_s for member in self._members)
        self._ended.sort(key=lambda ended: ended.seconds)
        taken = [ended for ended in self._ended if ended.seconds <= horizon]
        self._ended = self._ended[len(taken) :]
        for k, ended in enumerate(taken):
            # Two that ended within microseconds may have counted in the other order.
            self._given_steps = max(self._given_steps, ended.steps)
            taken[k] = ended._replace(steps=self._given_steps)
        return taken

    def _stand(self) -> None:
        self._halt()
        self._watch.stop()

    def _random_states(self) -> dict[str, Any]:
        """Nothing: A3C cannot be repeated, so there is nothing to go on with.

        A restored trial draws anew, keyed by its steps.
        """
        return {"groups": []}

    def forget(self, version: int) -> None:
        """Do nothing: a process that stands still has trained on all that it played."""

    def close(self) -> None:
        """End every process: let it finish its segment if it is at one, then kill it.

        Raises:
            LiveError: one is there even after that; it is named.
        """
        self._halt(PATIENCE_S)
        self._watch.stop()
        members, self._members = self._members, []
        for member in members:
            member.connection.close()
            member.process.kill()  # nothing is left to do, and an interpreter is slow to go
        for member in members:
            _bury(member)

    def _start(self, agent: int, seed_key: tuple[int, ...]) -> _Member:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        task = Task(agent, self._settings, self._shared, seed_key)
        process = context.Process(
            target=run_agent, args=(task, theirs), name=f"agent-{agent}", daemon=True
        )
        # Ctrl-C is for the parent, from the new process's first moment on: it inherits the mask.
        # The tracker, which the first process of all would start, takes the mask off.
        resource_tracker.ensure_running()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        return _Member(agent, process, ours)

    def _tell(self, word: object) -> None:
        for member in self._members:
            try:
                member.connection.send(word)
            except OSError:
                continue  # it has ended; listening tells why

    def _tell_settings(self) -> None:
        settings = self._learner.knobs.settings
        if settings is not self._settings:
            self._settings = settings
            self._tell(settings)

    def _move(self) -> None:
        if self._failure is not None:
            return
        for member in self._members:
            member.held = False
        self._acting = True
        self._tell_settings()
        self._watch.go()
        self._tell(Go(self._watch.start_s))

    def _halt(self, patience_s: float = math.inf) -> None:
        """Have every process report and stand still; returns when all do, or out of patience."""
        if self._acting:
            self._acting = False
            self._tell(Hold())
            self._listen_until_held(patience_s)
        self._count_updates()
        if self._failure is not None:
            self._watch.stop()  # now that everything that happened before has been reported

    def _listen_until_held(self, patience_s: float = math.inf) -> None:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and not all(m.held for m in self._members):
            self._listen(WAIT_S)

    def _listen(self, patience_s: float) -> None:
        """Take in all that the processes have said; waits for the first word."""
        wait([member.connection for member in self._members], patience_s)
        for member in list(self._members):
            while member in self._members and member.connection.poll():
                self._hear(member)

    def _hear(self, member: _Member) -> None:
        try:
            word = member.connection.recv()
        except (EOFError, OSError):
            member.process.join(PATIENCE_S)
            self._lose(member, LiveError(f"agent {member.agent} died: {_end_of(member.process)}"))
            return
        if isinstance(word, Held):
            member.held = True
        elif isinstance(word, Report):
            self._count(member, word)
        elif isinstance(word, Failure):
            error = DivergedError if word.diverged else LiveError
            prefix = "" if word.diverged else f"agent {member.agent} died: "
            failure = error(prefix + word.reason)
            failure.add_note(word.traceback)
            self._lose(member, failure)

    def _count(self, member: _Member, report: Report) -> None:
        member.heard_s = report.seconds
        self._ended += report.ended
        self._monitor.acted(report.steps, [ended.episode for ended in report.ended])
        for _ in range(report.steps):
            self._monitor.predicted(1)
        for update in report.updates:
            self._monitor.trained(update)

    def _lose(self, member: _Member, failure: Exception) -> None:
        self._failure = self._failure or failure
        self._members.remove(member)
        member.connection.close()
        member.process.kill()
        _bury(member)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _count_updates(self) -> None:
        self._learner.updates = int(self._counts[:, UPDATES].sum())


def _bury(member: _Member) -> None:
    """Wait for the end of a process that was killed; LiveError if it does not end."""
    member.process.join(PATIENCE_S)
    if member.process.is_alive():
        raise LiveError(f"agent {member.agent} did not end within {PATIENCE_S:.0f} s of its kill")
    member.process.close()


def _end_of(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None:
        return "it closed its connection"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"it ended with exit code {code}"
