"""A worker of the swarm's world: where its time goes between two commands."""

from simsched.events import Adopt, Park, Save, Start, Train
from simsched.messages import Checkpoint


class Worker:
    """One attempt of a trial on a node."""

    def __init__(self, command: Start, pace_us: int, at: int) -> None:
        self.node, self.attempt, self.trial = command.node, command.attempt, command.trial
        self.pace_us = pace_us
        """A resource unit's time."""
        self.count = command.count
        """The trial's true count when the stretch of work began."""
        self.redo_until = command.redo_until
        self.doing: Start | Train | Adopt | Save | Park | None = None
        """What it was told and has not answered."""
        self.until = command.until
        self.dead = False
        """It has said that it is gone, or somebody else did; nobody has told it to end."""
        self.number = 0
        """Of the command, so that what was to come of an older one does not."""
        self.told = at
        self.loading: Checkpoint | None = None
        self.goal = self.count
        self.rest = self.goal
        """Where the stretch ends that a save in mid-phase interrupts."""
        self.start_us = self.load_us = 0

    def begin(
        self,
        command: Start | Train | Adopt | Save,
        at: int,
        start_us: int,
        load_us: int,
        goal: float,
    ) -> None:
        """A command came. `goal`: the true count that it will be at."""
        self.doing, self.number = command, self.number + 1
        self.told, self.start_us, self.load_us, self.goal = at, start_us, load_us, goal
        self.loading = None
        if not isinstance(command, Save):
            self.until = command.until

    def parks(self, command: Park, reached: float) -> None:
        """It was told to save and end: it trains no more."""
        self.doing, self.number = command, self.number + 1
        self.goal = reached

    def snaps(self, reached: float) -> None:
        """It saves in mid-phase; that takes a while, in which it does not train."""
        self.number += 1
        self.rest, self.goal = self.goal, reached

    def goes_on(self, at: int) -> None:
        """It has saved and trains on; its next message counts from now."""
        self.number += 1
        self.told, self.count, self.goal = at, self.goal, self.rest
        self.start_us = self.load_us = 0

    def waits(self, reached: float) -> None:
        """It has answered."""
        self.doing, self.number = None, self.number + 1
        self.count = self.goal = reached
        self.loading = None

    @property
    def leg_us(self) -> int:
        """How long the stretch takes in all."""
        return self.start_us + self.load_us + round((self.goal - self.count) * self.pace_us)

    def is_training(self, at: int) -> bool:
        """Tell whether starting and loading are behind it."""
        return at - self.told >= self.start_us + self.load_us

    def is_loading(self, checkpoint: Checkpoint, at: int) -> bool:
        """Tell whether it loads a checkpoint, or will."""
        return not self.dead and self.loading == checkpoint and not self.is_training(at)

    def spent(self, at: int) -> tuple[float, int, int, int]:
        """Return its true count, and the µs since its command on start, load and redoing."""
        if self.doing is None or isinstance(self.doing, Save):
            return self.count, 0, 0, 0
        return self.spent_by_its_clock(at)

    def spent_by_its_clock(self, at: int) -> tuple[float, int, int, int]:
        """Return the same as the live world has it of a worker that parks.

        One that has just reported says what its report said once more, and one that trained
        again counts its save as a part of that: the books must bear it.
        """
        passed = at - self.told
        start_us = min(passed, self.start_us)
        load_us = min(passed - start_us, self.load_us)
        trained_us = passed - start_us - load_us
        reached = self.goal
        if self.pace_us and trained_us < (self.goal - self.count) * self.pace_us:
            reached = self.count + trained_us / self.pace_us
        redone = min(reached, self.redo_until) - self.count
        redo_us = min(trained_us, round(max(0.0, redone) * self.pace_us))
        return reached, start_us, load_us, redo_us
