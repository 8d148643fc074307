"""GA3C's parts at once: nothing lost or doubled, bounded lag, parking, and honest ends.

Every wait here has a limit: a part that hangs fails the test.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from simsched.live.errors import LiveError  # noqa: E402
from simsched.live.ga3c.adjust import Parts  # noqa: E402
from simsched.live.ga3c.agents import AgentGroup, Prediction, Segment  # noqa: E402
from simsched.live.ga3c.batches import Batcher, Sample  # noqa: E402
from simsched.live.ga3c.environment import EnvironmentGroup, Step  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.monitor import Monitor  # noqa: E402
from simsched.live.ga3c.overlapped import OverlappedEngine  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.trainer import Update  # noqa: E402
from simsched.live.ga3c.worker import Row, Worker  # noqa: E402

pytestmark = pytest.mark.torch

PATIENCE_S = 60.0
GAMMA = 0.9

Log = dict[tuple[int, int], tuple[int, float, bool]]
"""By agent and step: the action, the reward, and whether the episode truly ended."""


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not left, f"still running: {left}"


@pytest.fixture
def _threads_change_often() -> Iterator[None]:
    """So that every place where two threads can meet is met."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def until(condition: Callable[[], Any], limit_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)


class Numbered(EnvironmentGroup):
    """An observation is (agent, steps that it has taken); episodes end at random."""

    def __init__(self, first: int, size: int, seed: int, pause_s: float) -> None:
        self.size, self.actions, self._pause_s = size, 3, pause_s
        self._rng = np.random.default_rng(seed)
        self.place = np.array([[first + k, 0] for k in range(size)], dtype=np.float64)
        self.log: Log = {}
        self.steps = 0
        self.closed = 0

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        return self.place.copy()

    def step(self, actions: NDArray[np.int64]) -> Step:
        time.sleep(self._pause_s)
        ends = self._rng.random(self.size)
        terminated, truncated = ends < 0.05, ends > 0.95
        rewards = self._rng.normal(0, 1, self.size)
        for k, (agent, taken) in enumerate(self.place.astype(int).tolist()):
            self.log[agent, taken] = (int(actions[k]), float(rewards[k]), bool(terminated[k]))
        self.place[:, 1] += 1
        self.steps += 1
        # What is seen after an end is the same number: the row of steps goes on.
        return Step(self.place.copy(), rewards, terminated, truncated, self.place.copy())

    def close(self) -> None:
        self.closed += 1


class Stage:
    """What the scripted parts share: how many updates there were, and what was trained."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.updates = 0
        self.batches: list[list[Sample]] = []
        self.predicted: Counter[int] = Counter()
        self.trained: Counter[int] = Counter()
        self.greatest_lag = 0


def value(place: NDArray[Any]) -> float:
    return float(place[0] * 7 + place[1] % 13)


class ScriptedPredictor:
    """Every action alike; a value is a known function of the place."""

    def __init__(self, stage: Stage, k: int, pause_s: float) -> None:
        self._stage, self._k, self._pause_s = stage, k, pause_s

    def predict(self, observations: NDArray[Any]) -> Prediction:
        version = self._stage.updates
        time.sleep(self._pause_s)
        n = len(observations)
        self._stage.predicted[self._k] += 1
        values = np.array([value(place) for place in observations])
        return Prediction(np.full((n, 3), 1 / 3, dtype=np.float32), values, version)


class ScriptedTrainer:
    """Notes its batches; an update takes a while."""

    def __init__(self, stage: Stage, k: int, pause_s: float) -> None:
        self._stage, self._k, self._pause_s = stage, k, pause_s

    def update(self, batch: list[Sample], steps: int) -> Update:
        time.sleep(self._pause_s)
        with self._stage.lock:
            now = self._stage.updates
            greatest = now - min(sample.version for sample in batch)
            self._stage.updates += 1
            self._stage.batches.append(batch)
            self._stage.trained[self._k] += 1
            self._stage.greatest_lag = max(self._stage.greatest_lag, greatest)
        return Update(len(batch), 0, 0, 0, 0, 0, greatest)


class Rig:
    """An engine of scripted parts."""

    def __init__(
        self,
        *,
        pauses_s: tuple[float, float, float] = (0.0, 0.0, 0.0),
        per_group: int = 3,
        **fields: Any,
    ) -> None:
        self.settings = Settings(game="CartPole-v1", gamma=GAMMA, clip_rewards=False, **fields)
        knobs = Knobs(self.settings)
        self.stage, self.monitor = Stage(), Monitor()
        acting_s, predicting_s, training_s = pauses_s
        self.environments = [
            Numbered(k * per_group, per_group, k, acting_s) for k in range(self.settings.groups)
        ]
        groups = [
            AgentGroup(each, knobs, np.random.SeedSequence((k,)))
            for k, each in enumerate(self.environments)
        ]
        predictors: list[Any] = [
            ScriptedPredictor(self.stage, k, predicting_s) for k in range(self.settings.predictors)
        ]
        trainers: list[Any] = [
            ScriptedTrainer(self.stage, k, training_s) for k in range(self.settings.trainers)
        ]
        batcher = Batcher(knobs)
        self.engine = OverlappedEngine(
            self.settings, groups, predictors, trainers, batcher, self.monitor, 0
        )

    def acted(self) -> list[int]:
        return [environments.steps for environments in self.environments]

    def run_until(self, condition: Callable[[], Any]) -> None:
        def go_on() -> Any:
            self.engine.advance()
            return condition()

        until(go_on)

    def close(self) -> None:
        self.engine.close()
        assert [environments.closed for environments in self.environments] == [1] * len(
            self.environments
        )
        self.engine.crew.check()


PARTS = [
    {"groups": 1, "predictors": 1, "trainers": 1, "least_batch": 8, "training_queue": 10},
    {"groups": 3, "predictors": 2, "trainers": 1, "least_batch": 8, "training_queue": 50},
    {"groups": 3, "predictors": 2, "trainers": 3, "least_batch": 8, "training_queue": 3},
    {"groups": 2, "predictors": 2, "trainers": 2, "least_batch": 0, "training_queue": 20},
    {"groups": 4, "predictors": 1, "trainers": 2, "least_batch": 30, "prediction_queue": 2},
]


@pytest.mark.parametrize("pauses_s", [(0.0, 0.0, 0.0), (0.0, 0.0, 0.002), (0.002, 0.0005, 0.0)])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.usefixtures("_threads_change_often")
def test_every_step_is_trained_once_with_what_happened_in_it(
    parts: dict[str, int], pauses_s: tuple[float, float, float]
) -> None:
    rig = Rig(pauses_s=pauses_s, t_max=4, agents=12, **parts)
    rig.run_until(lambda: sum(map(len, list(rig.stage.batches))) > 600 and min(rig.acted()) > 50)
    rig.close()
    log = {key: row for each in rig.environments for key, row in each.log.items()}
    trained: list[tuple[int, int]] = []
    for batch in rig.stage.batches:
        if least := parts["least_batch"]:
            assert len(batch) == least
        for sample in batch:
            agent, taken = map(int, sample.observation)
            trained.append((agent, taken))
            assert sample.action == log[agent, taken][0]
            returns = possible_returns(log, agent, taken)
            assert min(abs(sample.value - each) for each in returns) < 1e-6
    assert len(set(trained)) == len(trained)
    # An agent's steps are trained from its first on; what is missing is on its way.
    steps = {agent: 0 for agent, _ in trained}
    for agent, _ in trained:
        steps[agent] += 1
    if parts["trainers"] == 1:
        for agent in steps:
            mine = [taken for who, taken in trained if who == agent]
            assert mine == list(range(len(mine)))
    on_its_way = len(log) - len(trained)
    t_max, size = 4, 3 * parts["groups"]
    most_on_its_way = (
        size * (t_max + 1)  # open segments
        + (parts.get("training_queue", 500) - 1 + t_max)  # the training queue
        + parts["groups"] * 3 * (t_max + 1)  # what groups wait to put there
        + (1 + parts["trainers"]) * (max(1, parts["least_batch"]) + t_max)  # batches
    )
    assert 0 <= on_its_way <= most_on_its_way
    # Threads were stopped between counting and noting at the worst: one piece of work each.
    totals = rig.monitor.totals()
    assert abs(totals.samples - len(trained)) <= parts["trainers"] * max(4, parts["least_batch"])
    assert abs(totals.steps - len(log)) <= 3 * parts["groups"]
    assert rig.engine.steps == totals.steps


def possible_returns(log: Log, agent: int, taken: int) -> list[float]:
    """The n-step returns of a step for n from 1 to t_max = 4, within its episode."""
    returns, total = list[float](), 0.0
    for n in range(1, 5):
        if (agent, taken + n - 1) not in log:
            break
        _, reward, terminated = log[agent, taken + n - 1]
        total += GAMMA ** (n - 1) * reward
        if terminated:
            return [*returns, total]
        returns.append(total + GAMMA**n * value(np.array([agent, taken + n])))
    return returns


def lag_bound(agents: int, t_max: int, queue: int, least: int) -> int:
    """The greatest lag with one group and one trainer.

    Updates between acting and training took samples that came before. When a step's prediction
    is asked for, the samples acted out but not yet trained on are at most: t_max in the open
    segment of each agent; queue - 1 + t_max in the training queue, as it lets in a last segment
    while its sum is below the bound; least + t_max - 1 that the trainer has gathered. Until the
    step's segment is put in the queue, each agent takes up to t_max + 1 steps more.
    """
    before = agents * t_max + (queue - 1 + t_max) + (least + t_max - 1)
    return (before + agents * (t_max + 1)) // least


@pytest.mark.parametrize(
    ("agents", "t_max", "queue", "least"), [(4, 5, 20, 10), (8, 3, 4, 12), (3, 10, 100, 5)]
)
@pytest.mark.parametrize("pauses_s", [(0.0, 0.0, 0.001), (0.0005, 0.0, 0.0)])
def test_the_lag_is_bounded_by_the_training_queue_and_the_batch(
    agents: int, t_max: int, queue: int, least: int, pauses_s: tuple[float, float, float]
) -> None:
    fields = {"groups": 1, "predictors": 1, "trainers": 1, "t_max": t_max}
    rig = Rig(
        pauses_s=pauses_s, per_group=agents, least_batch=least, training_queue=queue, **fields
    )
    rig.run_until(lambda: rig.stage.updates > 150)
    rig.close()
    assert 0 < rig.stage.greatest_lag <= lag_bound(agents, t_max, queue, least)
    assert rig.monitor.greatest_lag() <= rig.stage.greatest_lag


def test_a_longer_queue_before_a_slow_trainer_means_more_lag() -> None:
    lags = {}
    for queue in (20, 800):
        rig = Rig(
            pauses_s=(0.0, 0.0, 0.004),
            per_group=8,
            groups=1,
            predictors=1,
            trainers=1,
            least_batch=10,
            training_queue=queue,
        )
        rig.run_until(lambda rig=rig: rig.stage.updates > 200)  # type: ignore[misc]
        rig.close()
        lags[queue] = rig.stage.greatest_lag
    assert lags[20] <= lag_bound(8, 5, 20, 10) < lags[800] <= lag_bound(8, 5, 800, 10)


def test_parked_parts_stop_and_come_back() -> None:
    fields = {"groups": 3, "predictors": 2, "trainers": 2, "least_batch": 6, "agents": 9}
    rig = Rig(pauses_s=(0.0005, 0.0, 0.0), **fields)
    stage = rig.stage

    def everybody_works() -> None:
        acted, trained, predicted = rig.acted(), stage.trained.copy(), stage.predicted.copy()
        rig.run_until(
            lambda: (
                all(now > old for now, old in zip(rig.acted(), acted, strict=True))
                and all(stage.trained[k] > trained[k] for k in range(2))
                and all(stage.predicted[k] > predicted[k] for k in range(2))
            )
        )

    def first_alone_works() -> None:
        """Who waits at a queue serves once more; after that the parked stay as they are."""
        started = rig.acted()[0]
        rig.run_until(lambda: rig.acted()[0] > started + 40)
        acted, trained, predicted = rig.acted(), stage.trained.copy(), stage.predicted.copy()
        rig.run_until(lambda: rig.acted()[0] > acted[0] + 40)
        assert rig.acted()[1:] == acted[1:]
        assert stage.trained[1] == trained[1]
        assert stage.predicted[1] == predicted[1]
        assert stage.trained[0] > trained[0]
        assert stage.predicted[0] > predicted[0]

    everybody_works()
    rig.engine.use(Parts(1, 1, 1, 30))
    assert rig.engine.parts == (1, 1, 1, 30)
    first_alone_works()
    rig.engine.use(Parts(3, 2, 2, 500))
    everybody_works()
    rig.engine.use(Parts(1, 1, 1, 30))
    rig.close()  # while two thirds are parked


def test_the_lag_stays_bounded_when_a_group_comes_back() -> None:
    fields = {"groups": 2, "predictors": 1, "trainers": 1, "least_batch": 6, "agents": 6}
    rig = Rig(pauses_s=(0.0005, 0.0, 0.0), training_queue=12, t_max=5, **fields)
    rig.run_until(lambda: min(rig.acted()) > 20)
    rig.engine.use(Parts(1, 1, 1, 12))
    parked_at = rig.stage.updates
    rig.run_until(lambda: rig.stage.updates > parked_at + 300)
    rig.engine.use(Parts(2, 1, 1, 12))
    acted = rig.acted()[1]
    rig.run_until(lambda: rig.acted()[1] > acted + 20)
    rig.close()
    assert rig.stage.greatest_lag < 200


def test_holding_still_stops_all_groups_and_gives_their_random_states() -> None:
    rig = Rig(groups=3, predictors=1, trainers=1, least_batch=6, agents=9)
    rig.run_until(lambda: min(rig.acted()) > 20)
    states = []
    for _ in range(2):
        with rig.engine.still() as held:
            acted, steps = rig.acted(), rig.engine.steps
            time.sleep(0.05)
            assert (rig.acted(), rig.engine.steps) == (acted, steps)
            states.append([str(state) for state in held["groups"]])
        rig.run_until(lambda acted=acted: min(rig.acted()) > max(acted) + 5)  # type: ignore[misc]
    assert len({state for each in states for state in each}) == 6
    rig.close()


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


def go_on(worker: Worker, condition: Callable[[], Any]) -> list[Row]:
    rows: list[Row] = []
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and worker.diverged is None:
        assert time.monotonic() < deadline, "waited in vain"
        rows += worker.advance()
    return rows


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trainers": 2, "least_batch": 0},
        {"vtrace": True, "trainers": 2},
        {"groups": 3, "predictors": 1, "optimizer": "adam"},
    ],
)
def test_a_worker_with_threads_trains_and_its_counts_add_up(changes: dict[str, Any]) -> None:
    worker = Worker(cartpole(**changes))
    before = [p.detach().clone() for p in worker.network.parameters()]
    rows = go_on(worker, lambda: worker.steps >= 3_000 and worker.updates >= 20)
    worker.close()
    rows += worker.advance() if worker.diverged else []
    after = list(worker.network.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert worker.diverged is None
    totals = worker.monitor.totals()
    assert totals.updates == worker.updates
    assert totals.samples <= totals.steps == worker.steps
    if worker.settings.least_batch and not worker.settings.vtrace:
        assert totals.samples == 20 * worker.updates
    # Each step was predicted for once, and at time limits once more; some are in the air.
    assert totals.steps <= totals.predictions <= totals.steps + totals.episodes + 8
    assert [row.episodes for row in rows] == list(range(1, len(rows) + 1))
    assert all(a.steps <= b.steps for a, b in pairwise(rows))
    assert all(a.seconds <= b.seconds for a, b in pairwise(rows))
    assert sum(row.score for row in rows) <= rows[-1].steps  # CartPole pays 1 a step
    assert 8 < np.mean([row.score for row in rows]) < 500


def test_the_lag_of_a_real_worker_is_bounded() -> None:
    worker = Worker(cartpole(groups=1, predictors=1))
    go_on(worker, lambda: worker.updates >= 150)
    worker.close()
    assert 0 <= worker.monitor.greatest_lag() <= lag_bound(8, 5, 40, 20)


def test_finishing_tells_the_episodes_that_were_not_told_yet() -> None:
    worker = Worker(cartpole())
    rows: list[Row] = []
    deadline = time.monotonic() + PATIENCE_S
    while worker.steps < 2_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    rows += worker.advance()
    time.sleep(0.05)
    rows += worker.finish()
    seconds = worker.seconds
    assert [row.episodes for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == worker.monitor.totals().episodes == worker.episodes
    time.sleep(0.02)
    assert worker.seconds == seconds >= rows[-1].seconds  # the clock has stopped
    assert worker.finish() == []
    worker.close()


def test_t_max_and_gamma_change_while_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    add = Batcher.add

    def spied(batcher: Batcher, segments: list[Segment]) -> None:
        lengths.extend(map(len, segments))
        add(batcher, segments)

    monkeypatch.setattr(Batcher, "add", spied)
    worker = Worker(cartpole(t_max=5))
    go_on(worker, lambda: len(lengths) > 50)
    with pytest.raises(LiveError, match=r"^gamma: 1\.5 is outside \(0, 1\]$"):
        worker.change(gamma=1.5, t_max=9)
    assert max(lengths) <= 5
    worker.change(t_max=2)
    changed = len(lengths)
    go_on(worker, lambda: len(lengths) > changed + 60)
    settled = len(lengths)
    go_on(worker, lambda: len(lengths) > settled + 60)
    worker.close()
    assert max(lengths[:50]) == 5
    assert max(lengths[settled:]) == 2
