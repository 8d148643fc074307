"""The workers of a live search: who is on which node, who has a process, who is leaving."""

import asyncio

from simsched.live.attempt import Attempt


class Staff:
    """All attempts that matter now."""

    def __init__(self) -> None:
        self.by_node: dict[int, Attempt] = {}
        """The newest of each node."""
        self.by_token: dict[str, Attempt] = {}
        """Those that a worker may still connect for, or has."""
        self.alive: set[Attempt] = set()
        """Those with a process, which may be leaving."""
        self.leaving: dict[int, asyncio.Task[None]] = {}
        """By node: done when nobody is left there who was told to leave."""

    def add(self, attempt: Attempt) -> None:
        """A worker is to start."""
        self.by_node[attempt.node] = attempt
        self.by_token[attempt.token] = attempt

    def gone(self, attempt: Attempt) -> None:
        """A worker's whole process group is gone."""
        self.alive.discard(attempt)
        if attempt.channel is not None:
            attempt.channel.abort()
        if self.by_node.get(attempt.node) is attempt:
            del self.by_node[attempt.node]
