"""Looks at a live search twice a second: what the terminal view draws, use, time left."""

import concurrent.futures
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from simsched.ledger import Ledger
from simsched.live.attempt import Attempt
from simsched.live.forecast import Costs, Forecast, Forecaster, SoFar
from simsched.live.nodes import Node
from simsched.live.parts import write_atomically
from simsched.live.settings import LiveSettings
from simsched.live.status import Doing, NodeStatus, Status
from simsched.live.usage import Sampler
from simsched.live.world import World
from simsched.messages import Hparams
from simsched.results import Usage
from simsched.timeline import US_PER_S, Interval, Kind

ALIVE = "alive.json"
ALIVE_EVERY_S = 1.0
DISK_EVERY_S = 5.0

_DOING: dict[str, Doing] = {
    "starting": "starting",
    "loading": "loading",
    "training": "training",
    "reported": "waiting",
    "saving": "saving",
    "parking": "saving",
    "leaving": "leaving",
}


def measured_costs(intervals: Sequence[Interval]) -> Costs:
    """Return medians of what starting, saving and loading took, from a timeline."""

    def middle(kind: Kind) -> float:
        lengths = [i.end_us - i.start_us for i in intervals if i.kind == kind]
        return median(lengths) / US_PER_S if lengths else 0.0

    return Costs(middle("start"), middle("save"), middle("load"))


class Watch:
    """Observes a running world; called as its `tick`."""

    def __init__(
        self,
        folder: Path,
        settings: LiveSettings,
        hparams: Sequence[Hparams],
        nodes: Sequence[Node],
        update: Callable[[Status], object],
    ) -> None:
        """Begin.

        Args:
            folder: the run's.
            settings: of the search.
            hparams: of all its trials.
            nodes: that it runs on.
            update: draws what is to be seen.
        """
        self._folder, self._settings, self._nodes = folder, settings, nodes
        self._update = update
        self._attempts: Mapping[int, Attempt] = {}
        self._sampler = Sampler(folder, nodes, self._groups)
        self._forecaster = Forecaster(settings, hparams)
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="forecast")
        self._due_s = 0.0
        self._coming: concurrent.futures.Future[Forecast | None] | None = None
        self._forecast: tuple[Forecast, float] | None = None
        """The newest, and when it was made."""
        self._alive_s = self._disk_s = 0.0
        self._bytes = 0
        self._sign = -1.0 if settings.mode == "min" else 1.0

    def _groups(self) -> dict[int, int | None]:
        return {
            node: None if attempt.process is None else attempt.process.group
            for node, attempt in self._attempts.items()
        }

    def __call__(self, world: World) -> None:
        """Look at the world, and draw it."""
        now_us, now_s = world.now_us(), time.monotonic()
        self._attempts = dict(world.attempts)
        usage = self._sampler.sample(now_us / US_PER_S)
        if now_s - self._alive_s >= ALIVE_EVERY_S:
            self._alive_s = now_s
            alive = {"at_us": now_us, "pid": os.getpid()}
            write_atomically(self._folder / ALIVE, msgspec.json.encode(alive))
        if now_s - self._disk_s >= DISK_EVERY_S:
            self._disk_s = now_s
            self._bytes = world.workshop.store.size_bytes()
        self._look_ahead(world, now_us / US_PER_S, now_s)
        self._update(self._status(world, now_us, now_s, usage))

    def last(self, world: World, *, done: bool) -> None:
        """Draw how the search ended."""
        now_us = world.now_us()
        self._attempts = {}
        status = self._status(world, now_us, time.monotonic(), self._sampler.latest)
        if done:
            status = msgspec.structs.replace(status, time_left_s=0.0, progress=1.0)
        self._update(status)

    def close(self) -> None:
        """Stop looking."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._sampler.close()

    def _look_ahead(self, world: World, elapsed_s: float, now_s: float) -> None:
        if self._coming is not None and self._coming.done():
            forecast = self._coming.result()
            self._forecast = None if forecast is None else (forecast, now_s)
            self._coming = None
            self._due_s = now_s + self._forecaster.next_in_s
        if self._coming is None and now_s >= self._due_s:
            ledger = world.control.ledger
            trials = {
                trial: _so_far(world, trial, record.fate) for trial, record in ledger.trials.items()
            }
            costs = measured_costs(list(ledger.intervals))
            nodes = max(1, len(world.control.coordinator.nodes))
            self._coming = self._pool.submit(
                self._forecaster.forecast, trials, costs, elapsed_s, nodes
            )

    def _status(
        self, world: World, now_us: int, now_s: float, usage: Mapping[int, Usage]
    ) -> Status:
        ledger, coordinator = world.control.ledger, world.control.coordinator
        fates = Counter(r.fate for r in ledger.trials.values() if r.fate is not None)
        running = {slot.trial for slot in coordinator.slots.values() if not slot.last}
        best = ledger.best
        left_s = progress = None
        if self._forecast is not None:
            forecast, made_s = self._forecast
            left_s = max(0.0, forecast.time_left_s - (now_s - made_s))
            progress = forecast.progress
        return Status(
            elapsed_s=now_us / US_PER_S,
            nodes=[self._node(world, ledger, node, usage.get(node.number)) for node in self._nodes],
            trials=self._settings.workers,
            started=len(ledger.trials),
            fates=dict(fates),
            paused=len(ledger.trials) - fates.total() - len(running),
            milestones=ledger.milestones,
            best_score=None if best is None else best[0] * self._sign,
            best_trial=None if best is None else best[1],
            best_hparams=None if best is None else ledger.trials[best[1]].best_hparams,
            failures=coordinator.failures,
            checkpoint_bytes=self._bytes,
            time_left_s=left_s,
            progress=progress,
        )

    def _node(self, world: World, ledger: Ledger, node: Node, use: Usage | None) -> NodeStatus:
        attempt = world.attempts.get(node.number)
        cpu = None if use is None else use.cpu_percent
        gpu = None if use is None else use.gpu_percent
        memory = None if use is None else use.gpu_memory_bytes
        if attempt is None:
            doing: Doing = "out of service" if node.number in world.withdrawn else "idle"
            return NodeStatus(
                node=node.number, name=node.name, doing=doing, cpu_percent=cpu, gpu_percent=gpu,
                gpu_memory_bytes=memory,
            )  # fmt: skip
        record = ledger.trials.get(attempt.trial)
        scores = [] if record is None else [m.score for m in record.curve if m.score is not None]
        return NodeStatus(
            node=node.number,
            name=node.name,
            doing=_DOING[attempt.state],
            trial=attempt.trial,
            attempt=attempt.number,
            phase=max(0, attempt.until - 1) // self._settings.phase_length,
            count=attempt.count(self._settings.unit),
            until=attempt.until,
            score=scores[-1] * self._sign if scores else None,
            steps_per_s=attempt.rate if attempt.state == "training" else None,
            cpu_percent=cpu,
            gpu_percent=gpu,
            gpu_memory_bytes=memory,
        )


def _so_far(world: World, trial: int, fate: str | None) -> SoFar:
    curve = world.workshop.curve(trial)
    counters = curve.counters
    return SoFar(
        rows=list(curve.rows),
        counters=(counters.seconds, counters.steps, counters.episodes),
        ended=fate if fate in ("diverged", "lost") else None,  # type: ignore[arg-type]
    )
