"""How fast the layout of the original GA3C is: agents in processes, Python's queues, threads.

    python benchmarks/ga3c_baselines/original_layout.py --game Pong
    python benchmarks/ga3c_baselines/original_layout.py --game Pong --least-batch 40

The architecture of Babaeizadeh et al. (ICLR 2017) as its authors laid it out, written anew:
every agent is an operating system process with one environment; it puts each state in one
multiprocessing.Queue and waits for the answer in a queue of its own; predictors are threads of
the main process that batch what waits; agents put segments of t_max steps in a second
multiprocessing.Queue; trainers are threads that batch those and update the one network.

What is not as in the original, each to its advantage or without effect on speed: PyTorch, not
TensorFlow 1; states travel as bytes, not as 32-bit floats of four times the size; the frames,
n-step returns and loss are simsched's; RMSProp's epsilon is outside the root. A lock keeps one
update at a time, from the forward pass to the new weights, because trainers share gradients;
predictions run beside it, as they do in the original.

Prints one line of JSON. Rates are per second of the measured window; the lag of a sample is
the number of updates between the prediction it was acted on and the update it is in.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, parent_process
from queue import Full
from typing import Any

import numpy as np
import torch

from simsched.live.errors import LiveError
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.loss import actor_critic_loss, n_step_returns
from simsched.live.ga3c.network import build
from simsched.live.ga3c.settings import Settings

QUEUE = 100
"""The most entries of the prediction queue and of the training queue."""

START_S = 120.0
"""How long the agents may take to their first step."""

# Processes are forked, as Python 2 and 3 did on Linux when GA3C was written.
CONTEXT = multiprocessing.get_context("fork")


class Agent:
    """What an agent's process does: acts on predictions and hands on what it experienced."""

    def __init__(self, agent: int, settings: Settings, server: "Server") -> None:
        self._agent = agent
        self._settings = settings
        self._server = server
        self._random = np.random.default_rng([settings.seed, agent])
        self._observations: list[Any] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self._versions: list[int] = []

    def run(self) -> None:
        """Play until the server answers None; Ctrl-C is for the main process alone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        environment = EnvironmentGroup(self._settings, 1)
        seed = int(self._random.integers(2**31 - 1))
        observation = environment.reset([seed])[0]
        while (answer := self._ask(observation)) is not None:
            policy, value, version = answer
            if len(self._rewards) >= self._settings.t_max:
                self._send(value)
            action = self._draw(policy)
            step = environment.step(np.array([action]))
            self._observations.append(observation)
            self._actions.append(action)
            self._rewards.append(max(-1.0, min(1.0, float(step.rewards[0]))))
            self._versions.append(version)
            self._server.steps[self._agent] += 1
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
        self._server.requests.put((self._agent, observation))
        answer: tuple[Any, float, int] | None = self._server.answers[self._agent].get()
        return answer

    def _draw(self, policy: Any) -> int:
        cumulative = np.cumsum(policy)
        drawn = int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], "right"))
        return min(drawn, len(policy) - 1)

    def _send(self, bootstrap: float) -> None:
        returns = n_step_returns(self._rewards, bootstrap, self._settings.gamma)
        self._server.experience.put(
            (np.stack(self._observations), self._actions, returns, self._versions)
        )
        self._observations, self._actions, self._rewards, self._versions = [], [], [], []
        self._server.cpu_s[self._agent] = time.process_time()


def _end_with_parent() -> None:
    """End this process when the main one is gone, however it went."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


class Server:
    """The main process: the queues, the one network, predictors, trainers and their counters."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        agents = settings.agents
        # Made before the fork, and closed, so that a bad game is named here and only once.
        environment = EnvironmentGroup(settings, 1)
        shape, dtype = environment.observation_shape, environment.observation_dtype
        actions = environment.actions
        environment.close()
        self.requests = CONTEXT.Queue(maxsize=QUEUE)
        self.experience = CONTEXT.Queue(maxsize=QUEUE)
        self.answers = [CONTEXT.Queue() for _ in range(agents)]
        self.steps = CONTEXT.RawArray("q", agents)
        self.cpu_s = CONTEXT.RawArray("d", agents)
        self._processes = [
            CONTEXT.Process(target=Agent(agent, settings, self).run, daemon=True)
            for agent in range(agents)
        ]
        self._make_network = lambda: build(settings, shape, dtype, actions, settings.seed)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.failure: BaseException | None = None
        self.updates = 0
        self._samples = 0
        self._lag = 0
        self._predictions = [0] * settings.predictors

    def start(self) -> None:
        """Fork the agents, then start the threads."""
        for process in self._processes:
            process.start()
        self._network = self._make_network()
        self._optimizer = torch.optim.RMSprop(
            self._network.parameters(),
            lr=self._settings.learning_rate,
            alpha=self._settings.rms_decay,
            eps=self._settings.rms_epsilon,
            foreach=True,
        )
        jobs: list[Callable[[], None]] = [
            lambda n=n: self._predict(n) for n in range(self._settings.predictors)
        ]
        jobs += [self._train] * self._settings.trainers
        self._threads = [threading.Thread(target=self._guard, args=[job]) for job in jobs]
        for thread in self._threads:
            thread.start()

    def _guard(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.failure = error

    def _predict(self, predictor: int) -> None:
        while not self._stopping.is_set():
            waiting = [self.requests.get()]
            while len(waiting) < self._settings.prediction_batch and not self.requests.empty():
                waiting.append(self.requests.get())
            if None in waiting:
                return
            version = self.updates
            with torch.inference_mode():
                batch = torch.from_numpy(np.stack([observation for _, observation in waiting]))
                logits, values = self._network(batch)
                policies = torch.softmax(logits, dim=1).numpy()
            self._predictions[predictor] += len(waiting)
            estimates = values.tolist()
            for (agent, _), policy, value in zip(waiting, policies, estimates, strict=True):
                self.answers[agent].put((policy, value, version))

    def _train(self) -> None:
        while not self._stopping.is_set():
            segments: list[Any] = []
            size = 0
            while size < max(1, self._settings.least_batch):
                segment = self.experience.get()
                if segment is None:
                    return
                segments.append(segment)
                size += len(segment[1])
            observations = torch.from_numpy(np.concatenate([s[0] for s in segments]))
            actions = torch.tensor([a for s in segments for a in s[1]])
            returns = torch.tensor([r for s in segments for r in s[2]], dtype=torch.float32)
            versions = [v for s in segments for v in s[3]]
            with self._lock:
                self._update(observations, actions, returns)
                self._samples += size
                self._lag += size * self.updates - sum(versions)
                self.updates += 1

    def _update(
        self, observations: torch.Tensor, actions: torch.Tensor, returns: torch.Tensor
    ) -> None:
        logits, values = self._network(observations)
        loss = actor_critic_loss(logits, values, actions, returns, self._settings.entropy_weight)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def counters(self) -> dict[str, float]:
        """Return what was counted so far, and the seconds of processor and clock."""
        with self._lock:
            return {
                "agent_steps": sum(self.steps),
                "samples_trained": self._samples,
                "predictions": sum(self._predictions),
                "updates": self.updates,
                "lag": self._lag,
                "cpu_s": time.process_time() + sum(self.cpu_s),
                "wall_time_s": time.perf_counter(),
            }

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let it run, at most `seconds`; RuntimeError if a thread or an agent has died."""
        end = time.perf_counter() + seconds
        while not until() and (left := end - time.perf_counter()) > 0:
            time.sleep(min(0.2, left))
            if self.failure is not None:
                raise RuntimeError(f"a thread died: {self.failure!r}") from self.failure
            for agent, process in enumerate(self._processes):
                if not process.is_alive():
                    raise RuntimeError(f"agent {agent} ended with exit code {process.exitcode}")

    def stop(self, patience_s: float = 5.0) -> None:
        """End threads and processes; those that do not listen are killed."""
        self._stopping.set()
        end = time.perf_counter() + patience_s
        # A queue that is full wakes its readers itself.
        for _ in self._threads:
            for queue in (self.requests, self.experience):
                with contextlib.suppress(Full):
                    queue.put_nowait(None)
        for thread in self._threads:
            thread.join(max(0.0, end - time.perf_counter()))
        # Agents that wait for room in a queue must get it, or they never look at their answers.
        for queue in (self.requests, self.experience):
            threading.Thread(target=_drain, args=[queue], daemon=True).start()
        started = [process for process in self._processes if process.pid is not None]
        for answers in self.answers:
            answers.put(None)
        for process in started:
            process.join(max(0.0, end - time.perf_counter()))
        for process in started:
            if process.is_alive():
                process.kill()
                process.join()
        for queue in (self.requests, self.experience, *self.answers):
            queue.cancel_join_thread()


def _drain(queue: Any) -> None:
    while True:
        queue.get()


def measure(settings: Settings, warmup_s: float, seconds: float) -> dict[str, Any]:
    """Run the layout and return its rates over the window that follows the warm-up."""
    server = Server(settings)
    try:
        server.start()
        print(f"starting {settings.agents} agents …", file=sys.stderr)
        server.wait(START_S, until=lambda: min(server.steps) > 0)
        server.wait(warmup_s)
        before = server.counters()
        print(f"measuring for {seconds:g} s …", file=sys.stderr)
        server.wait(seconds)
        after = server.counters()
    finally:
        server.stop()
    spent = {name: after[name] - value for name, value in before.items()}
    wall = spent["wall_time_s"]
    rates = {
        f"{name}_per_s": round(spent[name] / wall, 1)
        for name in ("agent_steps", "samples_trained", "predictions", "updates")
    }
    trained = spent["samples_trained"]
    return {
        **rates,
        "policy_lag_updates": round(spent["lag"] / trained, 2) if trained else None,
        "cores_used": round(spent["cpu_s"] / wall, 2),
        "wall_time_s": round(wall, 3),
    }


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--predictors", type=int, default=2)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--t-max", type=int, default=5)
    parser.add_argument(
        "--least-batch", type=int, default=0, help="0: each segment is an update of its own"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the window")
    parser.add_argument("--warmup", type=float, default=10.0, help="seconds before the window")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if not (chosen.seconds > 0 and chosen.warmup >= 0):
        parser.error(
            f"--seconds {chosen.seconds} must be above 0, --warmup {chosen.warmup} not below"
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    torch.set_num_threads(1)
    try:
        settings = Settings(
            game=chosen.game,
            agents=chosen.agents,
            groups=1,
            predictors=chosen.predictors,
            trainers=chosen.trainers,
            t_max=chosen.t_max,
            least_batch=chosen.least_batch,
            seed=chosen.seed,
        )
        result = measure(settings, chosen.warmup, chosen.seconds)
    except LiveError as error:
        parser.error(str(error))
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    names = ("game", "agents", "predictors", "trainers", "t_max", "least_batch", "seed")
    asked = {name: getattr(settings, name) for name in names}
    print(json.dumps({"baseline": "original-layout", **asked, **result}))


if __name__ == "__main__":
    main()
