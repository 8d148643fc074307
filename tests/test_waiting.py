"""Idle nodes and lines of trials, beside sorted lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.waiting import IdleNodes, Line

orders = st.lists(st.tuples(st.sampled_from(["in", "out", "next"]), st.integers(0, 9)))


@given(orders)
def test_the_lowest_idle_node_comes_first(orders: list[tuple[str, int]]) -> None:
    idle, naive = IdleNodes(), set[int]()
    for what, node in orders:
        if what == "in" and node not in naive:
            idle.push(node)
            naive.add(node)
        elif what == "out":
            idle.take_out(node)
            naive.discard(node)
        elif what == "next" and naive:
            assert idle.pop() == min(naive)
            naive.remove(min(naive))
        assert idle == naive
        assert len(idle) == len(naive)
    assert [idle.pop() for _ in sorted(naive)] == sorted(naive)
    with pytest.raises(IndexError):
        idle.pop()


def test_a_node_that_comes_and_goes_takes_no_memory() -> None:
    idle = IdleNodes()
    for node in range(3):
        idle.push(node)
    for _ in range(10_000):
        idle.take_out(2)
        idle.push(2)
    assert len(idle._heap) < 30
    assert [idle.pop() for _ in range(3)] == [0, 1, 2]


@given(orders)
def test_a_line_is_served_in_order(orders: list[tuple[str, int]]) -> None:
    line, naive = Line[int](), list[int]()
    for what, item in orders:
        if what == "in":
            line.append(item)
            naive += [] if item in naive else [item]
        elif what == "out":
            line.discard(item)
            naive = [each for each in naive if each != item]
        elif naive:
            assert line.first == naive[0]
            assert line.popleft() == naive.pop(0)
        assert list(line) == naive
        assert (9 in line, len(line), bool(line)) == (9 in naive, len(naive), bool(naive))
