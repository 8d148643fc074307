"""What goes wrong in the swarm's world beyond its workers: nodes, old messages, interruptions."""

import random
from collections import Counter

import msgspec

from simsched.coordinator import Coordinator
from simsched.events import (
    Ended,
    Event,
    Failed,
    Interrupted,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Parked,
    Reported,
    Saved,
    Snapped,
)
from simsched.testing.invariants import Books
from simsched.testing.swarm_world import NO_FAULTS, World

REPAIR_US = (0, 1, 100_000, 30_000_000)
GRACE_US = (0, 1, 1_000_000, 20_000_000)


class Faults:
    """Throws the dice for a world, and keeps its nodes coming and going."""

    def __init__(self, world: World, dice: random.Random, tally: Counter[str]) -> None:
        self.world, self.dice, self.tally = world, dice, tally
        self.ceased = False

    def first_nodes(self) -> list[Event]:
        """Return the nodes that are there at the beginning; others come later."""
        events: list[Event] = []
        for node in range(self.world.story.nodes):
            if node in self.world.story.late:
                self._comes_up(node, self.dice.choice((1, 1_000_000, 100_000_000)))
            else:
                self.world.up.add(node)
                events.append(NodeUp(self.world.at, node))
        return events

    def now(self) -> list[Event]:
        """Return what goes wrong at this step."""
        world, rates = self.world, self.world.rates
        if world.roll(rates.full_disk):
            self.tally["fault: full disk"] += 1
            world.disk_full_until = world.at + self.dice.choice((1, 1_000_000, 10_000_000))
        if world.up and world.roll(rates.loss):
            self.tally["fault: node lost"] += 1
            return [self._loses(self.dice.choice(sorted(world.up)))]
        if world.up and world.roll(rates.notice):
            return self._notice(self.dice.choice(sorted(world.up)))
        if world.roll(rates.interrupt):
            self.tally["fault: interrupted"] += 1
            return [Interrupted(world.at)]
        if world.withdrawn and self.dice.random() < 0.02:
            return self._mended(self.dice.choice(sorted(world.withdrawn)))
        return []

    def stale(self, books: Books) -> Event | None:
        """Return a message that comes when nobody waits for it, or no longer."""
        world = self.world
        if not world.late or not world.roll(world.rates.stale):
            return None
        event = self.dice.choice(world.late)
        late: Event = msgspec.structs.replace(event, at=world.at)
        if not books.is_stale(late):
            return None
        if self.dice.random() < 0.7:
            world.late.remove(event)
        self.tally["fault: stale message"] += 1
        return late

    def was_fed(self, event: Event) -> None:
        """Keep a message, so that it may come once more when its worker is gone."""
        late = self.world.late
        message = isinstance(event, Reported | Saved | Failed | Parked | Ended | Snapped)
        if message and len(late) < 50 and self.world.roll(self.world.rates.stale):
            late.append(event)

    def cease(self) -> list[Event]:
        """From now on all is well: every node that ever was there is there again."""
        self.ceased = True
        world = self.world
        world.rates = NO_FAULTS
        world.disk_full_until = -1
        world.late.clear()
        events: list[Event] = []
        for node in sorted(world.noticed):
            events += [self._loses(node, back=False)]
        for node in range(world.story.nodes):
            if node not in world.up:
                world.up.add(node)
                events.append(NodeUp(world.at, node))
            elif node in world.withdrawn:
                events += self._mended(node)
        return events

    def announced(self, coordinator: Coordinator) -> list[Event]:
        """Return what a coordinator that goes on does not know of the nodes."""
        world, at = self.world, self.world.at
        events: list[Event] = []
        for node in range(world.story.nodes):
            known, leaving = node in coordinator.nodes, node in coordinator._leaving
            if node not in world.up:
                if known:
                    events.append(NodeDown(at, node))
                continue
            if known and leaving and node not in world.noticed:
                events.append(NodeDown(at, node))
                known = False
            if not known:
                world.withdrawn.discard(node)
                events.append(NodeUp(at, node))
            if node in world.noticed and not (known and leaving):
                events.append(NodeLeaving(at, node))
        return events

    def _notice(self, node: int) -> list[Event]:
        world = self.world
        if node in world.noticed:
            return []
        self.tally["fault: node leaves"] += 1
        world.noticed.add(node)

        def reclaim() -> Event | None:
            return self._loses(node) if node in world.noticed else None

        world.after(self.dice.choice(GRACE_US), reclaim)
        return [NodeLeaving(world.at, node)]

    def _loses(self, node: int, *, back: bool = True) -> Event:
        self.world.withdrawn.discard(node)
        event = self.world.node_dies(node)
        if back and self.dice.random() < 0.9:
            self._comes_up(node, self.dice.choice(REPAIR_US))
        return event

    def _comes_up(self, node: int, delay_us: int) -> None:
        world = self.world

        def up() -> Event | None:
            if node in world.up:
                return None
            world.up.add(node)
            return NodeUp(world.at, node)

        world.after(delay_us, up)

    def _mended(self, node: int) -> list[Event]:
        """A node that was taken out of service is given back."""
        self.world.withdrawn.discard(node)
        return [NodeUp(self.world.at, node)] if node in self.world.up else []
