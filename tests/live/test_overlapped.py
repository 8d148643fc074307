"""GA3C's parts at once: nothing lost or doubled, bounded lag, parking, and honest ends.

Every wait here has a limit: a part that hangs fails the test.
"""

import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from overlapped_rig import GAMMA, Log, Rig, lag_bound, value  # noqa: E402

from simsched.live.ga3c.adjust import Parts  # noqa: E402

pytestmark = pytest.mark.torch


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
            per_group=8,
            groups=1,
            predictors=1,
            trainers=1,
            least_batch=10,
            training_queue=queue,
        )
        rig.train_behind_a_full_queue()
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
        rig.run_until_parked(4)
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
    rig.run_until_parked(1)
    parked_at = rig.stage.updates
    rig.run_until(lambda: rig.stage.updates > parked_at + 300)  # nothing of the other waits now
    back_at = rig.stage.updates
    rig.engine.use(Parts(2, 1, 1, 12))
    acted = rig.acted()[1]
    rig.run_until(lambda: rig.acted()[1] > acted + 40)
    rig.close()
    trained = [sample for batch in rig.stage.batches[back_at:] for sample in batch]
    versions = [sample.version for sample in trained if sample.observation[0] >= 3]
    assert len(versions) > 3 * 5
    assert min(versions) >= back_at


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
