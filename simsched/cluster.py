"""The cluster that is simulated: how many nodes, how fast, and what things cost."""

import math

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
