"""The two queues and the batches: order, bounds, waiting, closing; nothing lost or doubled."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from simsched.live.ga3c.agents import Prediction, Segment  # noqa: E402
from simsched.live.ga3c.batches import Batcher, Sample, samples_of  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.predictor import NetworkPredictor, answer_requests  # noqa: E402
from simsched.live.ga3c.queues import BoundedQueue, Closed, QueuedPredictor, Request  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402
from simsched.live.ga3c.transfer import Transfer  # noqa: E402

pytestmark = pytest.mark.torch

PATIENCE_S = 300.0
"""With what comes for certain, on a machine however busy."""


class Helper(threading.Thread):
    """Runs a function; `finish` gives its result, or fails the test instead of waiting on."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - handed to `finish`
            self._result = error

    def finish(self) -> Any:
        self.join(PATIENCE_S)
        assert not self.is_alive(), "still waiting"
        return self._result

    def waits(self) -> bool:
        """Whether it is still at it after a moment."""
        self.join(0.05)
        return self.is_alive()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)


def words(bound: int) -> BoundedQueue[str]:
    """A queue of words; a word weighs as much as it is long."""
    return BoundedQueue(bound, len)


def test_first_in_first_out_up_to_a_weight() -> None:
    queue = words(100)
    for word in ("a", "bb", "ccc", "dd", "e"):
        queue.put(word)
    assert queue.weight == 9
    assert queue.take(3) == ["a", "bb"]
    assert queue.take(1) == ["ccc"]  # heavier than asked for, but the first always comes
    assert queue.take(3) == ["dd", "e"]
    assert queue.weight == 0


def test_a_word_is_let_in_while_the_sum_is_below_the_bound() -> None:
    queue = words(4)
    queue.put("aaa")
    queue.put("bbbbbb")  # the sum was 3, now 9
    third = Helper(lambda: queue.put("c"))
    assert third.waits()
    assert queue.take(1) == ["aaa"]
    assert third.waits()  # 6 is not below 4
    assert queue.take(1) == ["bbbbbb"]
    assert third.finish() is None
    assert queue.take(1) == ["c"]


def test_a_larger_bound_lets_in_who_waits() -> None:
    queue = words(2)
    queue.put("aa")
    second = Helper(lambda: queue.put("bb"))
    assert second.waits()
    queue.bound = 3
    assert second.finish() is None
    assert (queue.bound, queue.weight) == (3, 4)
    queue.bound = 1
    third = Helper(lambda: queue.put("c"))
    assert third.waits()
    queue.close()
    assert isinstance(third.finish(), Closed)


def test_closing_ends_all_waiting_and_stays() -> None:
    empty, full = words(10), words(1)
    full.put("x")
    waiting = [Helper(lambda: empty.take(1)) for _ in range(3)]
    waiting += [Helper(lambda: full.put("y")) for _ in range(3)]
    assert all(helper.waits() for helper in waiting)
    empty.close()
    full.close()
    assert all(isinstance(helper.finish(), Closed) for helper in waiting)
    for queue in (empty, full):
        with pytest.raises(Closed):
            queue.take(1)
        with pytest.raises(Closed):
            queue.put("z")


@pytest.mark.parametrize("bound", [1, 7, 1000])
def test_many_threads_lose_and_double_nothing(bound: int) -> None:
    """Each of four puts its own numbers in order; three take them; the bound holds."""
    queue: BoundedQueue[tuple[int, int]] = BoundedQueue(bound, lambda item: 1 + item[1] % 3)
    heaviest, each = 3, 500
    over: list[int] = []

    def put(who: int) -> None:
        for number in range(each):
            queue.put((who, number))

    def take() -> list[tuple[int, int]]:
        mine = []
        while True:
            try:
                mine += queue.take(5)
            except Closed:
                return mine
            if queue.weight > bound - 1 + heaviest:
                over.append(queue.weight)

    takers = [Helper(take) for _ in range(3)]
    putters = [Helper(lambda who=who: put(who)) for who in range(4)]  # type: ignore[misc]
    assert [putter.finish() for putter in putters] == [None] * 4
    until(lambda: not queue.weight)
    queue.close()
    parts = [taker.finish() for taker in takers]
    everything = sorted(item for part in parts for item in part)
    assert everything == [(who, number) for who in range(4) for number in range(each)]
    for part in parts:
        for who in range(4):
            numbers = [number for by, number in part if by == who]
            assert numbers == sorted(numbers)
    assert not over
    assert queue.weight == 0


def network_predictor(most: int) -> NetworkPredictor:
    settings = Settings(game="CartPole-v1")
    network = build(settings, (4,), np.float32, 3, seed=2)
    learner = Learner(network, Knobs(settings))
    learner.updates = 17
    return NetworkPredictor(learner, Transfer(torch.device("cpu")), most)


def observations(seed: int, n: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 1, (n, 4)).astype(np.float32)


def assert_same(prediction: Prediction, expected: Prediction) -> None:
    np.testing.assert_allclose(prediction.policy, expected.policy, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(prediction.values, expected.values, rtol=1e-5, atol=1e-6)
    assert prediction.version == expected.version == 17


def test_everybody_gets_the_answer_to_their_own_question() -> None:
    """Groups of different sizes ask at once; whatever batches they are answered in."""
    alone = network_predictor(most=1)
    queue = BoundedQueue[Request](100, len)
    asked = [observations(k, n) for k, n in enumerate((3, 1, 5, 2))]
    helpers = [Helper(lambda o=o: QueuedPredictor(queue).predict(o)) for o in asked]  # type: ignore[misc]
    until(lambda: queue.weight == 11)
    sizes = [answer_requests(queue, network_predictor(most=4), 6)]
    while queue.weight:
        sizes.append(answer_requests(queue, network_predictor(most=4), 6))
    assert sum(sizes) == 11
    assert all(size <= 6 for size in sizes)
    for o, helper in zip(asked, helpers, strict=True):
        assert_same(helper.finish(), alone.predict(o))


def test_a_policy_is_probabilities_of_the_networks_softmax() -> None:
    predictor = network_predictor(most=128)
    o = observations(0, 6)
    prediction = predictor.predict(o)
    assert prediction.policy.shape == (6, 3)
    np.testing.assert_allclose(prediction.policy.sum(axis=1), 1.0, rtol=1e-6)
    with torch.no_grad():
        logits, values = build(Settings(game="CartPole-v1"), (4,), np.float32, 3, seed=2)(
            torch.from_numpy(o)
        )
    scores = np.exp(logits.double().numpy())
    expected = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(prediction.policy, expected, rtol=1e-5)
    np.testing.assert_allclose(prediction.values, values.numpy(), rtol=1e-5)


def test_who_waits_for_an_answer_is_let_go() -> None:
    queue = BoundedQueue[Request](100, len)
    asked = QueuedPredictor(queue)
    helper = Helper(lambda: asked.predict(observations(0, 2)))
    until(lambda: queue.weight == 2)
    assert helper.waits()
    queue.close()
    assert helper.waits()  # its question was taken in; nobody will answer
    asked.release()
    assert isinstance(helper.finish(), Closed)


def numbered(lengths: list[int]) -> list[Segment]:
    """Segments whose observations are consecutive numbers, over all of them."""
    segments, number = [], 0
    for n in lengths:
        here = range(number, number + n)
        number += n
        segments.append(
            Segment(
                observations=[np.array([k]) for k in here],
                actions=[k % 5 for k in here],
                rewards=[float(k) for k in here],
                probabilities=[0.5] * n,
                versions=[k // 3 for k in here],
                bootstrap=float(-n),
            )
        )
    return segments


def numbers(batch: list[Sample] | list[Segment]) -> list[int]:
    flat = []
    for item in batch:
        rows = item.observations if isinstance(item, Segment) else [item.observation]
        flat += [int(row[0]) for row in rows]
    return flat


def drain(batcher: Batcher) -> Iterator[list[Sample] | list[Segment]]:
    while not batcher.missing:
        yield batcher.take()


lengths_in_calls = st.lists(st.lists(st.integers(1, 9), max_size=4), max_size=12)


@hypothesis_settings(max_examples=80, deadline=None)
@given(lengths_in_calls, st.integers(0, 25), st.booleans())
def test_batches_in_order_nothing_lost_nothing_doubled(
    calls: list[list[int]], least: int, whole: bool
) -> None:
    fields = Settings(game="CartPole-v1", least_batch=least, vtrace=whole)
    batcher = Batcher(Knobs(fields))
    segments = iter(numbered([n for call in calls for n in call]))
    added, taken = 0, []
    for call in calls:
        batcher.add([next(segments) for _ in call])
        added += sum(call)
        for batch in drain(batcher):
            found = numbers(batch)
            taken.append(found)
            if whole:
                sizes = [len(segment) for segment in batch if isinstance(segment, Segment)]
                assert sum(sizes[:-1]) < max(1, least) <= sum(sizes) == len(found)
            elif least:
                assert len(found) == least
        left = added - sum(map(len, taken))
        assert batcher.missing == max(1, least) - left > 0
    flat = [number for batch in taken for number in batch]
    assert flat == list(range(len(flat)))
    if not least:
        assert [len(batch) for batch in taken] == [n for call in calls for n in call]


def test_all_that_was_gathered_can_be_taken_at_once() -> None:
    for least in (0, 4, 100):
        batcher = Batcher(Knobs(Settings(game="CartPole-v1", least_batch=least)))
        batcher.add(numbered([3, 5, 1]))
        assert numbers(batcher.take(everything=True)) == list(range(9))
        assert batcher.missing == max(1, least)


def test_samples_hold_what_the_segment_held_and_their_returns() -> None:
    segment = numbered([2, 3])[1]
    samples = samples_of(segment, 0.5)
    assert [sample.value for sample in samples] == [
        2 + 0.5 * 3 + 0.25 * 4 + 0.125 * -3,
        3 + 0.5 * 4 + 0.25 * -3,
        4 + 0.5 * -3,
    ]
    assert [sample.action for sample in samples] == [2, 3, 4]
    assert [sample.version for sample in samples] == [0, 1, 1]
    assert numbers(samples) == [2, 3, 4]
