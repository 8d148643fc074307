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

Prints one line of JSON. Rates are per second of the measured window, `steps_per_s` of the agents'
steps; the lag of a sample is the number of updates between the prediction it was acted on and the
update it is in.
"""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from queue import Full
from typing import Any

import common
import numpy as np
import torch
from original_agent import CONTEXT, SIGNALS, Agent, Wires

from simsched.live.errors import LiveError
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.loss import actor_critic_loss
from simsched.live.ga3c.network import build
from simsched.live.ga3c.settings import Settings

START_S = 120.0
"""How long the agents may take to their first step."""


class Server:
    """The main process: the queues, the one network, predictors, trainers and their counters."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Made once before the fork, so that a bad game is named here, by one process.
        environment = EnvironmentGroup(settings, 1)
        shape, dtype = environment.observation_shape, environment.observation_dtype
        self._network = build(settings, shape, dtype, environment.actions, settings.seed)
        environment.close()
        self._optimizer = torch.optim.RMSprop(
            self._network.parameters(),
            lr=settings.learning_rate,
            alpha=settings.rms_decay,
            eps=settings.rms_epsilon,
            foreach=True,
        )
        self.wires = Wires(settings.agents)
        agents = [Agent(number, settings, self.wires) for number in range(settings.agents)]
        self._processes = [CONTEXT.Process(target=agent.run, daemon=True) for agent in agents]
        jobs = [self._predict] * settings.predictors + [self._train] * settings.trainers
        self._threads = [
            threading.Thread(target=self._guard, args=[job], daemon=True) for job in jobs
        ]
        self._updating = threading.Lock()
        self._counting = threading.Lock()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._predictions = self._updates = self._samples = self._lag = 0

    def start(self) -> None:
        """Fork the agents, then start the threads."""
        # A signal in the middle of a fork would be lost, and leave Python's locks taken.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            for process in self._processes:
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        for thread in self._threads:
            thread.start()

    def _guard(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._failure = error

    def _predict(self) -> None:
        while not self._stopping.is_set():
            waiting = [self.wires.requests.get()]
            while (
                len(waiting) < self._settings.prediction_batch and not self.wires.requests.empty()
            ):
                waiting.append(self.wires.requests.get())
            if None in waiting:
                return
            version = self._updates
            with torch.inference_mode():
                batch = torch.from_numpy(np.stack([observation for _, observation in waiting]))
                logits, values = self._network(batch)
                policies = torch.softmax(logits, dim=1).numpy()
            with self._counting:
                self._predictions += len(waiting)
            estimates = values.tolist()
            for (agent, _), policy, value in zip(waiting, policies, estimates, strict=True):
                self.wires.answers[agent].put((policy, value, version))

    def _train(self) -> None:
        while not self._stopping.is_set():
            segments: list[Any] = []
            size = 0
            while size < max(1, self._settings.least_batch):
                segment = self.wires.experience.get()
                if segment is None:
                    return
                segments.append(segment)
                size += len(segment[1])
            observations = torch.from_numpy(np.concatenate([s[0] for s in segments]))
            actions = torch.tensor([a for s in segments for a in s[1]])
            returns = torch.tensor([r for s in segments for r in s[2]], dtype=torch.float32)
            versions = [v for s in segments for v in s[3]]
            with self._updating:
                logits, values = self._network(observations)
                loss = actor_critic_loss(
                    logits, values, actions, returns, self._settings.entropy_weight
                )
                self._optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                self._optimizer.step()
                self._samples += size
                self._lag += size * self._updates - sum(versions)
                self._updates += 1

    def counters(self) -> dict[str, float]:
        """Return what was counted so far, and the seconds of processor and clock."""
        with self._updating:
            return {
                "steps": sum(self.wires.steps),
                "samples_trained": self._samples,
                "predictions": self._predictions,
                "updates": self._updates,
                "lag": self._lag,
                "cpu_s": time.process_time() + sum(self.wires.cpu_s),
                "wall_time_s": time.perf_counter(),
            }

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let it run, at most `seconds`; RuntimeError if a thread or an agent has died."""
        end = time.perf_counter() + seconds
        while not until() and (left := end - time.perf_counter()) > 0:
            time.sleep(min(0.2, left))
            if self._failure is not None:
                raise RuntimeError(f"a thread died: {self._failure!r}") from self._failure
            for agent, process in enumerate(self._processes):
                if not process.is_alive():
                    raise RuntimeError(f"agent {agent} ended with exit code {process.exitcode}")

    def stop(self, patience_s: float = 5.0) -> None:
        """End threads and processes; those that do not listen are killed."""
        self._stopping.set()
        end = time.perf_counter() + patience_s
        # A queue that is full wakes its readers itself.
        for _ in self._threads:
            for queue in (self.wires.requests, self.wires.experience):
                with contextlib.suppress(Full):
                    queue.put_nowait(None)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.perf_counter()))
        # Agents that wait for room in a queue must get it, or they never look at their answers.
        for queue in (self.wires.requests, self.wires.experience):
            threading.Thread(target=_drain, args=[queue], daemon=True).start()
        for answers in self.wires.answers:
            answers.put(None)
        for process in self._processes:
            if process.pid is not None:
                process.join(max(0.0, end - time.perf_counter()))
                process.kill()
                process.join()
        for queue in (self.wires.requests, self.wires.experience, *self.wires.answers):
            queue.cancel_join_thread()


def _drain(queue: Any) -> None:
    while True:
        queue.get()


def measure(settings: Settings, warmup_s: float, seconds: float) -> dict[str, Any]:
    """Run the layout and return its rates over the window that follows the warm-up."""
    server = Server(settings)
    try:
        server.start()
        common.say(f"starting {settings.agents} agents …")
        server.wait(START_S, until=lambda: min(server.wires.steps) > 0)
        server.wait(warmup_s)
        before = server.counters()
        common.say(f"measuring for {seconds:g} s …")
        server.wait(seconds)
        after = server.counters()
    finally:
        server.stop()
    spent = {name: after[name] - value for name, value in before.items()}
    wall = spent["wall_time_s"]
    rates = {
        f"{name}_per_s": round(spent[name] / wall, 1)
        for name in ("steps", "samples_trained", "predictions", "updates")
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
    parser = common.parser(__doc__, agents=32, seconds=30.0)
    for name, value in {"predictors": 2, "trainers": 2, "t-max": 5, "least-batch": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    asked = vars(common.parse(parser))
    window = (asked.pop("warmup"), asked.pop("seconds"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    torch.set_num_threads(1)
    try:
        result = measure(Settings(groups=1, **asked), *window)
    except LiveError as error:
        parser.error(str(error))
    except RuntimeError as error:
        sys.exit(f"error: {error}")
    common.report("original-layout", asked, result)


if __name__ == "__main__":
    common.run(main)
