"""Threads that cannot die unnoticed: the crew alone, and a worker whose parts break."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c import crew as crew_module
from simsched.live.ga3c.agents import AgentGroup
from simsched.live.ga3c.batches import Batcher
from simsched.live.ga3c.crew import Crew
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.predictor import NetworkPredictor
from simsched.live.ga3c.queues import BoundedQueue, Closed
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.trainer import Trainer, Update
from simsched.live.ga3c.worker import Row, Worker

pytestmark = pytest.mark.torch

PATIENCE_S = 300.0  # with what comes for certain, on a machine however busy


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not left, f"still running: {left}"


class Rig:
    """A crew whose threads can wait at a queue, which closes when the crew stops."""

    def __init__(self) -> None:
        self.queue: BoundedQueue[str] = BoundedQueue(10, len)
        self.released = 0
        self.crew = Crew(self._release)
        self.before = set(threading.enumerate())

    def _release(self) -> None:
        self.released += 1
        self.queue.close()

    def wait(self) -> None:
        self.queue.take(1)

    def until_stopped(self) -> None:
        assert self.crew.stopping.wait(PATIENCE_S)

    def assert_nobody_is_left(self) -> None:
        self.crew.join()
        assert set(threading.enumerate()) <= self.before


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("x"), "trainer 1 died: KeyError: 'x'"),
        (RuntimeError("one\ntwo\nthree"), "trainer 1 died: RuntimeError: one"),
        (ValueError(), "trainer 1 died: ValueError: no reason given"),
        (MemoryError("no room"), "trainer 1 died: MemoryError: no room"),
        (SystemExit("3"), "trainer 1 died: SystemExit: 3"),
        (LiveError("game: gone"), "trainer 1 died: LiveError: game: gone"),
    ],
)
def test_a_failure_stops_all_and_is_named_in_one_line(error: BaseException, message: str) -> None:
    rig = Rig()
    rig.crew.start("agents 0", rig.wait)
    rig.crew.check()  # nothing has happened
    rig.crew.start("trainer 1", raising(error))
    rig.until_stopped()
    with pytest.raises(LiveError) as caught:
        rig.crew.check()
    assert str(caught.value) == message
    assert caught.value.__cause__ is error
    rig.assert_nobody_is_left()
    with pytest.raises(LiveError):  # and it is not forgotten
        rig.crew.check()


def test_divergence_stays_divergence() -> None:
    rig = Rig()
    rig.crew.start("trainer 0", raising(DivergedError("update 3: not finite")))
    rig.until_stopped()
    with pytest.raises(DivergedError, match=r"^update 3: not finite$"):
        rig.crew.check()
    rig.assert_nobody_is_left()


def test_the_first_failure_is_the_one_that_is_named() -> None:
    rig = Rig()

    def fails_because_all_stop() -> None:
        rig.crew.stopping.wait(PATIENCE_S)
        raise OSError("a consequence")

    rig.crew.start("predictor 0", fails_because_all_stop)
    rig.crew.start("agents 0", raising(RuntimeError("the reason")))
    rig.until_stopped()
    rig.crew.join()
    with pytest.raises(LiveError, match=r"^agents 0 died: RuntimeError: the reason$"):
        rig.crew.check()


def test_a_thread_that_simply_returns_has_failed_too() -> None:
    rig = Rig()
    rig.crew.start("agents 0", rig.wait)
    rig.crew.start("predictor 0", lambda: None)
    rig.until_stopped()
    with pytest.raises(LiveError, match=r"^predictor 0 died: RuntimeError: ended before the work"):
        rig.crew.check()
    rig.assert_nobody_is_left()


def test_who_ends_because_the_crew_stops_has_not_failed() -> None:
    rig = Rig()

    def polite() -> None:
        rig.crew.stopping.wait(PATIENCE_S)

    def closed() -> None:
        rig.crew.stopping.wait(PATIENCE_S)
        raise Closed

    for k, work in enumerate((polite, closed, rig.wait)):
        rig.crew.start(f"part {k}", work)
    rig.assert_nobody_is_left()
    rig.crew.check()
    assert rig.released >= 1


def test_a_thread_that_does_not_stop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "JOIN_S", 0.2)
    rig = Rig()
    enough = threading.Event()

    def stubborn() -> None:
        enough.wait(PATIENCE_S)

    rig.crew.start("agents 0", rig.wait)
    rig.crew.start("agents 1", stubborn)
    try:
        rig.crew.stop()
        rig.crew._threads[0].join(
            PATIENCE_S
        )  # so that it is the other alone whose patience runs out
        with pytest.raises(LiveError, match=r"^agents 1 did not stop within 0 s$"):
            rig.crew.join()
    finally:
        enough.set()
    monkeypatch.undo()
    rig.assert_nobody_is_left()


def cartpole(**changes: Any) -> Settings:
    fields = {
        "game": "CartPole-v1",
        "overlap": "on",
        "agents": 8,
        "groups": 2,
        "predictors": 2,
        "trainers": 1,
        "least_batch": 20,
        "training_queue": 40,
        "threads": 1,
        "seed": 3,
    }
    return Settings(**{**fields, **changes})


def go_on(worker: Worker, condition: Callable[[], Any] = lambda: False) -> list[Row]:
    """Train until the condition holds or the worker has diverged."""
    rows: list[Row] = []
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and worker.diverged is None:
        assert time.monotonic() < deadline, "waited in vain"
        rows += worker.advance()
    return rows


class PlantedError(Exception):
    """Nobody knows this one."""


def plant(
    monkeypatch: pytest.MonkeyPatch, kind: type, method: str, error: BaseException, after: int
) -> None:
    original, calls = getattr(kind, method), [0]

    def fails(self: Any, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] > after:
            raise error
        return original(self, *arguments)

    monkeypatch.setattr(kind, method, fails)


BREAKS = [
    (EnvironmentGroup, "step", "agents"),
    (NetworkPredictor, "predict", "predictor"),
    (Trainer, "update", "trainer"),
    (Batcher, "add", "trainer"),
    (AgentGroup, "act", "agents"),
]


@pytest.mark.parametrize("after", [0, 7])
@pytest.mark.parametrize(("kind", "method", "part"), BREAKS)
def test_a_part_that_breaks_ends_the_worker_which_names_it(
    kind: type, method: str, part: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, kind, method, PlantedError("planted\nhere"), after)
    worker = Worker(cartpole())
    with pytest.raises(LiveError, match=rf"^{part} \d died: PlantedError: planted$") as caught:
        go_on(worker)
    assert isinstance(caught.value.__cause__, PlantedError)
    with pytest.raises(LiveError):  # it says so again
        worker.advance()
    worker.close()


def test_a_part_that_breaks_while_others_wait_at_full_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trainer breaks in an update that is slow enough for the agents to fill the queue."""

    def slow(trainer: Trainer, batch: Any, steps: int) -> Update:
        time.sleep(0.5)
        raise PlantedError("planted")

    monkeypatch.setattr(Trainer, "update", slow)
    worker = Worker(cartpole(training_queue=4, prediction_queue=1, least_batch=4))
    with pytest.raises(LiveError, match=r"^trainer 0 died: PlantedError: planted$"):
        go_on(worker)
    worker.close()


def test_who_holds_still_while_a_part_breaks_is_not_held_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(cartpole())
    go_on(worker, lambda: worker.updates > 3)
    with worker.engine.still():
        plant(monkeypatch, AgentGroup, "step", PlantedError("planted"), 0)
    with pytest.raises(LiveError, match=r"^agents \d died: PlantedError: planted$"):
        go_on(worker)
    with worker.engine.still() as held:
        assert len(held["groups"]) == 2
    worker.close()


@pytest.mark.parametrize("part", ["update", "predict"])
def test_divergence_in_a_thread_is_the_trials_not_the_workers(
    part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    kind = Trainer if part == "update" else NetworkPredictor
    plant(monkeypatch, kind, part, DivergedError("a number is not finite"), 9)
    worker = Worker(cartpole())
    go_on(worker)
    assert worker.diverged == "a number is not finite"
    assert worker.save(tmp_path / "c.pt") is False
    worker.close()
    assert list(tmp_path.iterdir()) == []


def test_an_absurd_learning_rate_diverges_with_threads_too() -> None:
    worker = Worker(cartpole(learning_rate=1e30))
    rows = go_on(worker)
    worker.close()
    assert worker.diverged is not None
    assert "not finite" in worker.diverged
    assert [row.episodes for row in rows] == list(range(1, worker.episodes + 1))


def test_workers_come_and_go_and_leave_nothing() -> None:
    before = set(threading.enumerate())
    for k in range(4):
        worker = Worker(cartpole(agents=4, predictors=1, seed=k))
        if k % 2:
            go_on(worker, lambda worker=worker: worker.updates > 2)  # type: ignore[misc]
        worker.close()
        assert set(threading.enumerate()) <= before


def test_threads_do_not_outlive_a_worker_that_could_not_be_made(tmp_path: Any) -> None:
    (tmp_path / "c.pt").write_bytes(b"nothing")
    with pytest.raises(LiveError):
        Worker(cartpole(), tmp_path / "c.pt")
