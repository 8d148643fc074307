"""One step of the main loop, the same in every world.

A world feeds each event here and carries out the commands it gets back. The journal is
written before the commands are seen by anybody.
"""

from simsched.coordinator import Coordinator
from simsched.events import Command, Event
from simsched.journal import Journal
from simsched.ledger import Ledger


class Control:
    """Coordinator, journal and ledger in their order."""

    def __init__(self, coordinator: Coordinator, ledger: Ledger, journal: Journal | None) -> None:
        self.coordinator = coordinator
        self.ledger = ledger
        self.journal = journal

    def feed(self, event: Event) -> list[Command]:
        """Decide on an event, write it down, return the commands to carry out."""
        coordinator = self.coordinator
        commands = coordinator.handle(event)
        decision, abandoned = coordinator.decision, coordinator.abandoned
        if self.journal is not None:
            self.journal.append(event, decision, abandoned, commands)
        self.ledger.observe(event, decision, abandoned, commands)
        return commands
