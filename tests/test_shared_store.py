"""Checkpoints in a shared store: transfers at once divide its bandwidth."""

from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from worlds import fleet

from simsched.cluster import CheckpointStore
from simsched.shared_store import SharedStore


@pytest.mark.parametrize("together", [1, 2, 5, 8])
def test_a_storm_of_loads_divides_the_store(together: int) -> None:
    """Closed form: k transfers that begin together, alone, all end after k times one's time."""
    of = fleet([{"count": 8}], store={"bandwidth_mb_per_s": 4.0, "checkpoint_mb": 2.0})
    env = simpy.Environment(initial_time=0)
    store = SharedStore(env, of.store)
    ends: list[int] = []

    def one() -> Any:
        yield from store.transfer()
        ends.append(env.now)

    for _ in range(together):
        env.process(one())
    env.run()
    assert ends == [together * 500_000] * together


@given(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=12))
def test_the_store_is_processor_sharing(begins: list[int]) -> None:
    """Against a naive integration over the moments at which the number of transfers changes."""
    alone_us = 700_000
    left = dict.fromkeys(range(len(begins)), float(alone_us))
    expected: dict[int, float] = {}
    now = 0.0
    while left:
        there = [k for k in left if begins[k] <= now]
        coming = [begins[k] for k in left if begins[k] > now]
        until = min(coming, default=float("inf"))
        if there:
            until = min(until, now + min(left[k] for k in there) * len(there))
        for k in there:
            left[k] -= (until - now) / len(there)
            if left[k] <= 1e-6:
                del left[k]
                expected[k] = until
        now = until
    env = simpy.Environment(initial_time=0)
    store = SharedStore(env, CheckpointStore(bandwidth_mb_per_s=1.0, checkpoint_mb=0.7))
    found: dict[int, int] = {}

    def one(k: int) -> Any:
        yield env.timeout(begins[k])
        yield from store.transfer()
        found[k] = env.now

    for k in range(len(begins)):
        env.process(one(k))
    env.run()
    for k, at in expected.items():
        assert abs(found[k] - at) <= 2 * len(begins), (k, found[k], at)
