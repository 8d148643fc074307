"""An agent of A3C, in a process of its own (Mnih et al. 2016, arXiv 1602.01783, algorithm S3).

    repeat
        copy the shared parameters
        act by the copy for t_max steps or until the episode ends
        R = 0 where it truly ended, else the copy's value of the state reached
        compute the gradients of the segment's summed loss, at the copy
        update the shared parameters and the optimizer's shared statistics

Nobody locks anything while it updates (Hogwild, Recht et al. 2011, arXiv 1106.5730): where two
processes write at once, parts of an update may be lost.
"""

import select
import signal
import time
import traceback
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from simsched.live.errors import DivergedError
from simsched.live.ga3c.agents import AgentGroup, Episode, Segment
from simsched.live.ga3c.batches import samples_of
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.network import build
from simsched.live.ga3c.predictor import NetworkPredictor
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.trainer import Trainer, Update
from simsched.live.ga3c.transfer import Transfer
from simsched.live.ga3c.turns import Ended

REPORT_S = 0.25
"""How often a process tells what it did."""

BACKLOG = 20_000
"""Updates that a process keeps for later while nobody reads its reports; then it waits."""

STEPS, UPDATES = 0, 1
"""Columns of the shared counts."""


class Shared(NamedTuple):
    """What all processes read and write, in shared memory."""

    weights: Tensor
    """All parameters of the network, flat."""
    statistics: dict[str, Tensor]
    """The optimizer's state of them."""
    counts: Tensor
    """int64, (agents + 1, 2): agent steps and updates of each agent, and in the last row those
    from before the start. Each process writes only its own row, so no count is ever lost."""


class Task(NamedTuple):
    """What a process is to do."""

    agent: int
    settings: Settings
    shared: Shared
    seed_key: tuple[int, ...]


class Go(NamedTuple):
    """From the parent: act, until told to hold."""

    start_s: float
    """When the engine's seconds began, by time.monotonic, which all processes share."""


class Hold(NamedTuple):
    """From the parent: stop after this segment, report, say Held, and wait for Go."""


class Held(NamedTuple):
    """To the parent: standing still. It is also the first word, once everything is made."""


class Report(NamedTuple):
    """To the parent: what happened since the last report."""

    seconds: float
    """The engine's seconds now; everything up to here has been reported."""
    steps: int
    ended: list[Ended]
    updates: list[Update]


class Failure(NamedTuple):
    """To the parent: the process ends, and why."""

    reason: str
    """One line."""
    diverged: bool
    traceback: str


class _ParentGone(Exception):  # noqa: N818 - no error here: the process ends
    """Nobody is at the other end of the connection."""


def run_agent(task: Task, connection: Connection) -> None:
    """Act and learn until the parent closes the connection or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        _Agent(task, _Line(connection)).run()
    except _ParentGone:
        return
    except Exception as error:  # noqa: BLE001 - a boundary: whatever it was, the parent says it
        diverged = isinstance(error, DivergedError)
        first_line = str(error).splitlines()[0] if str(error) else "no reason given"
        reason = first_line if diverged else f"{type(error).__name__}: {first_line}"
        try:
            connection.send(Failure(reason, diverged, traceback.format_exc()))
        except OSError:
            return  # the parent has ended meanwhile


class _Line:
    """The connection to the parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._room = select.poll()
        self._room.register(connection.fileno(), select.POLLOUT)

    def has_room(self) -> bool:
        """Whether a message can be sent without waiting for the parent."""
        return bool(self._room.poll(0))

    def has_word(self) -> bool:
        """Whether the parent said something, or is gone."""
        return self._connection.poll()

    def receive(self) -> object:
        """Wait for a word."""
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise _ParentGone from error

    def send(self, word: Held | Report) -> None:
        """Say something."""
        try:
            self._connection.send(word)
        except OSError as error:
            raise _ParentGone from error


def shared_learner(settings: Settings, environments: EnvironmentGroup, shared: Shared) -> Learner:
    """Return a learner whose network is a copy, and whose updates go to the shared parameters."""
    network = build(
        settings,
        environments.observation_shape,
        environments.observation_dtype,
        environments.actions,
        seed=0,  # whatever is drawn is overwritten before it is used
    )
    learner = Learner(network, Knobs(settings))
    vector = learner.optimizer.param_groups[0]["params"][0]
    vector.data = shared.weights
    learner.optimizer.state[vector] = dict(shared.statistics)
    return learner


class _Agent:
    """Plays one environment and learns from it."""

    def __init__(self, task: Task, line: _Line) -> None:
        torch.set_num_threads(1)
        self._line = line
        self._agent = task.agent
        self._weights = task.shared.weights
        self._counts = task.shared.counts.numpy()
        environments = EnvironmentGroup(task.settings, 1)
        self._learner = shared_learner(task.settings, environments, task.shared)
        start_steps = int(self._counts[-1, STEPS])
        # As engines that are not A3C number their groups: so a single agent draws what theirs do.
        number = [task.agent] if task.agent else []
        seeds = np.random.SeedSequence((*task.seed_key, start_steps, *number))
        self._group = AgentGroup(environments, self._learner.knobs, seeds, stagger=False)
        transfer = Transfer(torch.device("cpu"))
        self._predictor = NetworkPredictor(self._learner, transfer, most=1)
        self._trainer = Trainer(self._learner, transfer)
        self._held = True
        self._start_s = 0.0
        self._reported = 0.0
        self._steps = 0
        self._ended: list[Ended] = []
        self._updates: list[Update] = []

    def run(self) -> None:
        """Act and learn, until the parent is gone."""
        self._line.send(Held())
        while True:
            self._obey()
            self._turn()
            late = self._seconds() - self._reported >= REPORT_S
            if late and (self._line.has_room() or len(self._updates) >= BACKLOG):
                self._report()

    def _obey(self) -> None:
        """Do what the parent says; wait while it wants us still."""
        while self._held or self._line.has_word():
            word = self._line.receive()
            if isinstance(word, Settings):
                self._learner.knobs.settings = word
            elif isinstance(word, Go):
                self._held, self._start_s = False, word.start_s
            elif isinstance(word, Hold):
                self._report()
                self._held = True
                self._line.send(Held())

    def _turn(self) -> None:
        """Copy the parameters, play a segment by them, and do the update."""
        copied = int(self._counts[:, UPDATES].sum())
        own = int(self._counts[self._agent, UPDATES])
        self._learner.flat.values.copy_(self._weights)
        self._learner.updates = copied
        segment = self._play()
        samples = samples_of(segment, self._learner.knobs.settings.gamma)
        update = self._trainer.update(samples, int(self._counts[:, STEPS].sum()))
        others = int(self._counts[:, UPDATES].sum()) - copied
        self._counts[self._agent, UPDATES] = own + 1
        self._updates.append(update._replace(lag=float(others), greatest_lag=others))

    def _play(self) -> Segment:
        """Take t_max steps, or fewer up to the end of the episode."""
        for _ in range(self._learner.knobs.settings.t_max):
            prediction = self._predictor.predict(self._group.observations)
            segments, episodes = self._group.act(prediction, self._predictor)
            self._steps += 1
            self._counts[self._agent, STEPS] += 1
            for episode in episodes:
                self._note(episode)
            if segments:
                return segments[0]
        values = self._predictor.predict(self._group.observations).values
        return self._group.cut(values, all_of_them=True)[0]

    def _note(self, episode: Episode) -> None:
        steps = int((self._counts[:, STEPS].sum()) - self._counts[-1, STEPS])
        self._ended.append(Ended(episode._replace(agent=self._agent), steps, self._seconds()))

    def _seconds(self) -> float:
        return time.monotonic() - self._start_s

    def _report(self) -> None:
        self._reported = self._seconds()
        self._line.send(Report(self._reported, self._steps, self._ended, self._updates))
        self._steps, self._ended, self._updates = 0, [], []
