"""The agents of the original GA3C's layout: a process and an environment each."""

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import connection, parent_process
from typing import Any

import numpy as np

from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.loss import n_step_returns
from simsched.live.ga3c.settings import Settings

QUEUE = 100
"""The most entries of the prediction queue and of the training queue."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Processes are forked, as Python 2 and 3 did on Linux when GA3C was written.
CONTEXT = multiprocessing.get_context("fork")


class Wires:
    """What joins the agents to the main process."""

    def __init__(self, agents: int) -> None:
        self.requests = CONTEXT.Queue(maxsize=QUEUE)
        """Of (agent, observation)."""
        self.answers = [CONTEXT.Queue() for _ in range(agents)]
        """Each of (policy, value, number of updates before); None ends the agent."""
        self.experience = CONTEXT.Queue(maxsize=QUEUE)
        """Of segments: (observations, actions, returns, numbers of updates)."""
        self.steps = CONTEXT.RawArray("q", agents)
        """Taken so far by each agent."""
        self.cpu_s = CONTEXT.RawArray("d", agents)
        """Processor time of each agent up to its last segment."""


class Agent:
    """What an agent's process does: acts on predictions and hands on what it experienced."""

    def __init__(self, agent: int, settings: Settings, wires: "Wires") -> None:
        self._agent = agent
        self._settings = settings
        self._wires = wires
        self._random = np.random.default_rng([settings.seed, agent])
        self._segment: list[tuple[Any, int, float, int]] = []

    def run(self) -> None:
        """Play until the server answers None; Ctrl-C is for the main process alone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        environment = EnvironmentGroup(self._settings, 1)
        seed = int(self._random.integers(2**31 - 1))
        observation = environment.reset([seed])[0]
        while (answer := self._ask(observation)) is not None:
            policy, value, version = answer
            if len(self._segment) >= self._settings.t_max:
                self._send(value)
            action = self._draw(policy)
            step = environment.step(np.array([action]))
            reward = max(-1.0, min(1.0, float(step.rewards[0])))
            self._segment.append((observation, action, reward, version))
            self._wires.steps[self._agent] += 1
            if step.truncated[0]:
                last = self._ask(np.asarray(step.final_observations[0]))
                if last is None:
                    break
                self._send(last[1])
            elif step.terminated[0]:
                self._send(0.0)
            observation = step.observations[0]
        environment.close()

    def _ask(self, observation: Any) -> tuple[Any, float, int] | None:
        self._wires.requests.put((self._agent, observation))
        answer: tuple[Any, float, int] | None = self._wires.answers[self._agent].get()
        return answer

    def _draw(self, policy: Any) -> int:
        cumulative = np.cumsum(policy)
        drawn = int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], "right"))
        return min(drawn, len(policy) - 1)

    def _send(self, bootstrap: float) -> None:
        observations, actions, rewards, versions = zip(*self._segment, strict=True)
        returns = n_step_returns(rewards, bootstrap, self._settings.gamma)
        self._wires.experience.put((np.stack(observations), actions, returns, versions))
        self._segment = []
        self._wires.cpu_s[self._agent] = time.process_time()


def _end_with_parent() -> None:
    """End this process when the main one is gone, however it went."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
