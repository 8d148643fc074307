"""When nodes of a fleet are out of service: failures, spot preemption, maintenance, scaling.

Pure: draws are keyed by seed and node, so all schedulers meet the same outages for as long as a
node's history is the same, and nothing here knows how the search gets on.
"""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from simsched.cluster import Fleet, NodeKind, microseconds
from simsched.draws import keyed

Why: TypeAlias = Literal["failure", "spot", "maintenance", "scaled down"]
_FOREVER = 2**62


class Outage(NamedTuple):
    """A node is out of service in [down_us, up_us); `up_us` None: for ever."""

    notice_us: int | None
    """When it is known that the node will go; None: not before it does."""
    down_us: int
    up_us: int | None
    why: Why


class _Planned(NamedTuple):
    down_us: int
    up_us: int
    notice_s: float
    boot_s: float
    why: Why


def outages(fleet: Fleet, node: int, seed: int) -> Iterator[Outage]:
    """Yield a node's outages in the order of time, without overlap; possibly without end.

    Failures and spot preemption begin anew with each return to service. What falls together is
    one outage, that ends when the last of its causes has.

    Args:
        fleet: the cluster.
        node: its number, from 0, kinds one after the other.
        seed: of the draws.
    """
    kind, member = fleet.kind_of(node)
    random = keyed(seed, "outages", node)
    planned = sorted(_planned(fleet, kind, node, member))
    now = 0
    while True:
        coming = [_of(plan, now) for plan in planned if plan.up_us > now]
        drawn = (_failure(kind, now, random), _preemption(kind, now, random))
        coming += [outage for outage in drawn if outage is not None]
        if not coming:
            return
        first = min(coming, key=lambda outage: outage.down_us)
        first = first._replace(up_us=_really_up(first, planned))
        yield first
        if first.up_us is None:
            return
        now = first.up_us


def _of(plan: _Planned, now: int) -> Outage:
    down = max(plan.down_us, now)
    notice = None
    if plan.notice_s:
        notice = max(now, plan.down_us - microseconds(plan.notice_s))
    return Outage(notice, down, plan.up_us, plan.why)


def _really_up(outage: Outage, planned: list[_Planned]) -> int | None:
    """Return when a node is back for good: a planned outage may have begun meanwhile."""
    up = outage.up_us if outage.up_us is not None else _FOREVER
    up = max(up, outage.down_us + 1)  # a node that is gone is gone for a moment at least
    for plan in planned:  # in the order of their beginnings
        boot_us = microseconds(plan.boot_s)
        if plan.down_us <= up and outage.down_us <= plan.up_us and plan.up_us + boot_us > up:
            up = plan.up_us + boot_us if plan.up_us < _FOREVER else _FOREVER
    return None if up >= _FOREVER else up


def _failure(kind: NodeKind, now: int, random: np.random.Generator) -> Outage | None:
    failures = kind.failures
    if failures is None or failures.mean_time_between_s is None:
        return None
    mean = failures.mean_time_between_s
    if failures.distribution == "weibull":
        # The mean of Weibull(k) with scale 1 is gamma(1 + 1/k).
        after_s = mean / math.gamma(1 + 1 / failures.shape) * random.weibull(failures.shape)
    else:
        after_s = random.exponential(mean)
    repair_s = failures.repair_s
    if failures.repair == "exponential" and repair_s:
        repair_s = random.exponential(repair_s)
    down = now + microseconds(after_s)
    return Outage(None, down, down + microseconds(repair_s), "failure")


def _preemption(kind: NodeKind, now: int, random: np.random.Generator) -> Outage | None:
    spot = kind.spot
    if spot is None:
        return None
    notice = now + microseconds(random.exponential(spot.mean_time_between_s))
    down = notice + microseconds(spot.notice_s)
    up = down + microseconds(spot.return_s + kind.boot_s)
    return Outage(notice if spot.notice_s else None, down, up, "spot")


def _planned(fleet: Fleet, kind: NodeKind, node: int, member: int) -> Iterator[_Planned]:
    """Yield what is known beforehand: recorded failures, maintenance, times without the node."""
    for outage in () if kind.failures is None else kind.failures.outages:
        if outage.node == member:
            yield _Planned(
                microseconds(outage.from_s), microseconds(outage.to_s), 0.0, 0.0, "failure"
            )
    for window in fleet.maintenance:
        if window.concerns(kind.name, node):
            yield _Planned(
                microseconds(window.from_s), microseconds(window.to_s), window.notice_s, 0.0,
                "maintenance",
            )  # fmt: skip
    yield from _scaled(fleet, kind, member)


def _scaled(fleet: Fleet, kind: NodeKind, member: int) -> Iterator[_Planned]:
    """Yield the times in which the cluster is too small to have this node."""
    steps = [(0, kind.count, 0.0)]
    steps += [(microseconds(s.at_s), s.count, s.notice_s) for s in fleet.steps_of(kind.name)]
    gone: tuple[int, float] | None = None
    for at, count, notice_s in steps:
        if member >= count and gone is None:
            gone = at, notice_s
        elif member < count and gone is not None:
            yield _Planned(gone[0], at, gone[1], kind.boot_s, "scaled down")
            gone = None
    if gone is not None:
        yield _Planned(gone[0], _FOREVER, gone[1], 0.0, "scaled down")
