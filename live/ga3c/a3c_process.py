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

import contextlib
import os
import select
import signal
import time
import traceback
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.agents import AgentGroup, Episode, Segment
from simsched.live.ga3c.batches import samples_of
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.knobs import Knobs
from simsched.live.ga3c.learner import Learner
from simsched.live.ga3c.network import build
from simsched.live.ga3c.optimizers import RMSpropTF
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


def run_agent(task: Task, connection: Connection) -> None:
    """Act and learn until the parent closes the connection or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        _serve(task, connection)
    except (EOFError, ConnectionError):
        os._exit(0)  # the parent is gone, and an interpreter would take its time to go
    except Exception as error:  # noqa: BLE001 - a boundary: whatever it was, the parent says it
        diverged = isinstance(error, DivergedError)
        first_line = str(error).splitlines()[0] if str(error) else "no reason given"
        reason = first_line if diverged else f"{type(error).__name__}: {first_line}"
        with contextlib.suppress(ConnectionError):
            connection.send(Failure(reason, diverged, traceback.format_exc()))


def _serve(task: Task, connection: Connection) -> None:
    agent = Agent(task)
    connection.send(Held())
    _obey(agent, connection, held=True)
    try:
        while True:
            agent.turn()
            late = agent.unreported_s >= REPORT_S
            if late and (_has_room(connection) or len(agent.updates) >= BACKLOG):
                connection.send(agent.report())
            _obey(agent, connection)
    except DivergedError:
        connection.send(agent.report())
        raise


def _obey(agent: "Agent", connection: Connection, *, held: bool = False) -> None:
    """Do what the parent says; wait while it wants the agent held still."""
    while held or connection.poll():
        word = connection.recv()
        if isinstance(word, Settings):
            agent.knobs.settings = word
        elif isinstance(word, Go):
            held, agent.start_s = False, word.start_s
        elif isinstance(word, Hold):
            connection.send(agent.report())
            connection.send(Held())
            held = True


def _has_room(connection: Connection) -> bool:
    """Whether a message can be sent without waiting for the parent to read others."""
    room = select.poll()
    room.register(connection.fileno(), select.POLLOUT)
    return bool(room.poll(0))


def share(learner: Learner, agents: int, start_steps: int) -> Shared:
    """Move a learner's parameters and its optimizer's state to shared memory, where they are."""
    optimizer = learner.optimizer
    vector = optimizer.param_groups[0]["params"][0]
    statistics = optimizer.state[vector]
    if not statistics:
        statistics.update(_first_statistics(optimizer, vector))
    counts = torch.zeros(agents + 1, 2, dtype=torch.int64)
    counts[-1] = torch.tensor([start_steps, learner.updates])
    try:
        for tensor in (learner.flat.values, counts, *statistics.values()):
            tensor.share_memory_()  # in place: the network's parameters are views of it
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise LiveError(f"a3c: there is too little shared memory: {reason}") from error
    return Shared(learner.flat.values, statistics, counts)


def _first_statistics(optimizer: torch.optim.Optimizer, vector: Tensor) -> dict[str, Tensor]:
    """Return the state an optimizer makes at its first update, before that update."""
    if isinstance(optimizer, RMSpropTF):
        return {"square_avg": torch.ones_like(vector)}
    names = ["square_avg"]
    if isinstance(optimizer, torch.optim.Adam):
        names = ["exp_avg", "exp_avg_sq"]
    means = {name: torch.zeros_like(vector) for name in names}
    return {"step": torch.tensor(0.0), **means}


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


class Agent:
    """Plays one environment and learns from it; counts what it does."""

    def __init__(self, task: Task) -> None:
        torch.set_num_threads(1)
        self.start_s = time.monotonic()
        self.steps = 0
        self.ended: list[Ended] = []
        self.updates: list[Update] = []
        self._reported = 0.0
        self._agent = task.agent
        self._weights = task.shared.weights
        self._counts = task.shared.counts.numpy()
        environments = EnvironmentGroup(task.settings, 1)
        self._learner = shared_learner(task.settings, environments, task.shared)
        self.knobs = self._learner.knobs
        # Agents are numbered as other engines number groups: a single one draws what theirs do.
        number = [task.agent] if task.agent else []
        start_steps = int(self._counts[-1, STEPS])
        seeds = np.random.SeedSequence((*task.seed_key, start_steps, *number))
        self._group = AgentGroup(environments, self.knobs, seeds, stagger=False)
        transfer = Transfer(torch.device("cpu"))
        self._predictor = NetworkPredictor(self._learner, transfer, most=1)
        self._trainer = Trainer(self._learner, transfer)

    def turn(self) -> None:
        """Copy the parameters, play a segment by them, and do the update.

        Raises:
            DivergedError: a prediction, a loss or a gradient is not finite.
        """
        copied = int(self._counts[:, UPDATES].sum())
        self._learner.flat.values.copy_(self._weights)
        self._learner.updates = copied
        samples = samples_of(self._play(), self.knobs.settings.gamma)
        update = self._trainer.update(samples, int(self._counts[:, STEPS].sum()))
        others = int(self._counts[:, UPDATES].sum()) - copied
        self._counts[self._agent, UPDATES] += 1
        self.updates.append(update._replace(lag=float(others), greatest_lag=others))

    def _play(self) -> Segment:
        """Take t_max steps, or fewer up to the end of the episode."""
        for _ in range(self.knobs.settings.t_max):
            prediction = self._predictor.predict(self._group.observations)
            segments, episodes = self._group.act(prediction, self._predictor)
            self.steps += 1
            self._counts[self._agent, STEPS] += 1
            for episode in episodes:
                self._note(episode)
            if segments:
                return segments[0]
        values = self._predictor.predict(self._group.observations).values
        return self._group.cut(values, all_of_them=True)[0]

    def _note(self, episode: Episode) -> None:
        steps = int(self._counts[:-1, STEPS].sum())
        self.ended.append(Ended(episode._replace(agent=self._agent), steps, self._seconds()))

    def _seconds(self) -> float:
        return time.monotonic() - self.start_s

    @property
    def unreported_s(self) -> float:
        """Seconds since the last report."""
        return self._seconds() - self._reported

    def report(self) -> Report:
        """Return what happened since the last report."""
        self._reported = self._seconds()
        report = Report(self._reported, self.steps, self.ended, self.updates)
        self.steps, self.ended, self.updates = 0, [], []
        return report
