"""The cluster that is simulated: nodes, how fast they are, what things cost, what goes wrong.

`Cluster` is one in which nothing goes wrong. `Fleet` is what a cluster file describes
(docs/cluster.md); all that it can say is off unless it is said.
"""

import itertools
import math
from bisect import bisect_right
from functools import cached_property
from typing import ClassVar, Literal

import msgspec

from simsched.errors import SimschedError
from simsched.timeline import US_PER_S


class Cluster(msgspec.Struct, frozen=True):
    """Nodes and the costs of what they do, in seconds."""

    nodes: int
    speeds: tuple[float, ...] = (1.0,)
    """Speed factor of each node, taken round and round; 2 trains twice as fast as recorded."""
    start_s: float = 0.0
    save_s: float = 0.0
    load_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be. Raises SimschedError."""
        if self.nodes < 1:
            raise SimschedError(f"nodes={self.nodes} must be at least 1")
        for speed in self.speeds:
            if not (math.isfinite(speed) and speed > 0):
                raise SimschedError(f"node speed {speed:g} must be a number above 0")
        if not self.speeds:
            raise SimschedError("node speeds: give at least one number above 0")
        for name in ("start_s", "save_s", "load_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise SimschedError(f"{name}={value:g} must be a number of seconds, at least 0")

    def speed(self, node: int) -> float:
        """Return the node's speed factor."""
        return self.speeds[node % len(self.speeds)]


def microseconds(seconds: float) -> int:
    """Return seconds as integer microseconds, the unit of all time inside."""
    return round(seconds * US_PER_S)


MOST_NODES = 100_000
LONGEST_NAME = 40
LARGEST = 1e15
"""Larger numbers of a cluster file are slips; so many seconds are 30 million years."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a cluster file. Its numbers are finite and not negative."""

    _above_0: ClassVar[tuple[str, ...]] = ()
    """Fields that must not be 0 either."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be. Raises SimschedError: key, value, what would be right."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, float):
                continue
            if name in self._above_0 and not value > 0:
                raise SimschedError(f"{name}: {value:g} must be above 0")
            if not value >= 0:
                raise SimschedError(f"{name}: {value:g} must be a number, at least 0")
            if value > LARGEST:
                raise SimschedError(f"{name}: {value:g} must be at most {LARGEST:g}")

    def _within(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if not low <= value <= high:
            shown = [f"{n:,}" if isinstance(n, int) else f"{n:g}" for n in (value, low, high)]
            raise SimschedError("{}: {} must be from {} to {}".format(name, *shown))


class NodeOutage(Table, frozen=True, kw_only=True):
    """A recorded time in which a node had failed."""

    node: int
    """Its number within its kind, from 0."""
    from_s: float
    to_s: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.node < 0:
            raise SimschedError(f"node: {self.node} must be at least 0")
        if self.to_s <= self.from_s:
            raise SimschedError(f"to_s: {self.to_s:g} must be above from_s, {self.from_s:g}")


class NodeFailures(Table, frozen=True, kw_only=True):
    """How nodes of a kind fail, without warning, and are repaired."""

    mean_time_between_s: float | None = None
    """From a return to service to the next failure, in the mean; none are drawn without it."""
    distribution: Literal["exponential", "weibull"] = "exponential"
    shape: float = 1.0
    """Of Weibull: below 1 failures come in bursts, above 1 with age."""
    repair_s: float = 0.0
    repair: Literal["fixed", "exponential"] = "fixed"
    outages: tuple[NodeOutage, ...] = ()
    """Recorded ones; they come in addition."""
    _above_0 = ("mean_time_between_s", "shape")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distribution == "weibull":
            self._within("shape", 0.1, 100)
        elif self.shape != 1:
            raise SimschedError(
                f'shape: {self.shape:g} is of weibull only; add distribution = "weibull"'
            )
        if self.mean_time_between_s is not None:
            return
        if self.repair_s:
            raise SimschedError(
                f"repair_s: {self.repair_s:g} needs mean_time_between_s; recorded outages say "
                "themselves how long they are"
            )
        if not self.outages:
            raise SimschedError(
                "[nodes.failures] says nothing: give mean_time_between_s or recorded outages"
            )


class Spot(Table, frozen=True, kw_only=True):
    """A spot (preemptible) instance: taken away with notice, replaced after a while."""

    mean_time_between_s: float
    """From a return to service to the next notice; exponential."""
    notice_s: float = 120.0
    return_s: float = 0.0
    """From the loss until there is another one; `boot_s` comes on top."""
    _above_0 = ("mean_time_between_s",)


class NodeKind(Table, frozen=True, kw_only=True):
    """Nodes that are alike."""

    name: str = "node"
    count: int = 1
    """Nodes at the beginning; 0 where `scale` adds them later."""
    speed: float = 1.0
    """2 trains twice as fast as recorded."""
    price_per_hour: float = 0.0
    """Of a node in service, in any currency."""
    boot_s: float = 0.0
    """Until a new node is there: after preemption, or when the cluster grows."""
    failures: NodeFailures | None = None
    spot: Spot | None = None
    _above_0 = ("speed",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.name.isprintable() and 0 < len(self.name.strip()) <= LONGEST_NAME):
            shown = repr(self.name)
            shown = shown if len(shown) <= LONGEST_NAME else f"{shown[:LONGEST_NAME]}…"
            raise SimschedError(f"name: {shown} must be 1 to {LONGEST_NAME} printable characters")
        self._within("speed", 1e-6, 1_000_000)
        self._within("count", 0, MOST_NODES)


class Maintenance(Table, frozen=True, kw_only=True):
    """A time in which nodes are taken out of service."""

    from_s: float
    to_s: float
    kind: str | None = None
    """Nodes of this kind only."""
    nodes: tuple[int, ...] = ()
    """These nodes of the cluster only, numbered from 0, kinds one after the other."""
    notice_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to_s <= self.from_s:
            raise SimschedError(f"to_s: {self.to_s:g} must be above from_s, {self.from_s:g}")

    def concerns(self, kind: str, node: int) -> bool:
        """Whether it concerns a node."""
        return self.kind in (None, kind) and (not self.nodes or node in self.nodes)


class Scale(Table, frozen=True, kw_only=True):
    """From a moment on a kind has so many nodes; those with the highest numbers go first."""

    at_s: float
    count: int
    kind: str | None = None
    """Need not be said where there is one kind."""
    notice_s: float = 0.0
    _above_0 = ("at_s",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._within("count", 0, MOST_NODES)


class CheckpointStore(Table, frozen=True, kw_only=True):
    """A store that all nodes share: concurrent saves and loads divide its bandwidth equally."""

    bandwidth_mb_per_s: float
    checkpoint_mb: float
    _above_0 = ("bandwidth_mb_per_s", "checkpoint_mb")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._within("bandwidth_mb_per_s", 1e-6, LARGEST)


class Stragglers(Table, frozen=True, kw_only=True):
    """Workers that are slow for no reason of their node's."""

    probability: float
    """Of each start of a worker."""
    slowdown: float = 2.0
    """How many times as long such a worker takes to train."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.probability > 1:
            raise SimschedError(f"probability: {self.probability:g} must be at most 1")
        self._within("slowdown", 1, 1_000_000)


class Costs(Table, frozen=True, kw_only=True):
    """What starting, saving, loading and handing over cost, in seconds."""

    start_s: float = 0.0
    save_s: float = 0.0
    """Beside the transfer to a store."""
    load_s: float = 0.0
    hand_over_s: float = 0.0
    """From a milestone's report to the word to go on."""


class Fleet(Table, frozen=True, kw_only=True, dict=True):
    """A cluster as a cluster file describes it."""

    nodes: tuple[NodeKind, ...]
    maintenance: tuple[Maintenance, ...] = ()
    scale: tuple[Scale, ...] = ()
    store: CheckpointStore | None = None
    stragglers: Stragglers | None = None
    costs: Costs = Costs()

    def most(self, kind: NodeKind) -> int:
        """Return the most nodes that a kind ever has."""
        return max([kind.count, *(step.count for step in self.steps_of(kind.name))])

    def steps_of(self, name: str) -> list[Scale]:
        """Return how a kind is scaled, in the order of time."""
        alone = len(self.nodes) == 1
        steps = [s for s in self.scale if s.kind == name or (s.kind is None and alone)]
        return sorted(steps, key=lambda step: step.at_s)

    @property
    def size(self) -> int:
        """All nodes that there ever are."""
        return self._ends[-1]

    def kind_of(self, node: int) -> tuple[NodeKind, int]:
        """Return a node's kind, and its number within that. Raises IndexError."""
        k = bisect_right(self._ends, node) - 1
        return self.nodes[k], node - self._ends[k]

    @cached_property
    def _ends(self) -> list[int]:
        """0, then the number of nodes up to and with each kind."""
        return [0, *itertools.accumulate(self.most(kind) for kind in self.nodes)]


def as_fleet(cluster: Cluster) -> Fleet:
    """Return a cluster in which nothing goes wrong as a fleet."""
    runs = itertools.groupby(cluster.speed(node) for node in range(cluster.nodes))
    kinds = tuple(
        NodeKind(name=f"kind {k}", count=len(list(alike)), speed=speed)
        for k, (speed, alike) in enumerate(runs)
    )
    costs = Costs(start_s=cluster.start_s, save_s=cluster.save_s, load_s=cluster.load_s)
    return Fleet(nodes=kinds, costs=costs)
