"""How far a recording is: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from simsched.live.plan import Plan
from simsched.live.trial_process import Failure, Progress

PLAIN_EVERY_S = 30.0
"""How often plain lines say how far the recording is."""


class Display(Protocol):
    """Shows what a recorder tells."""

    counts: "Counts"

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def hear(self, message: Progress | Failure) -> None:
        """Take in one message."""
        ...


class Counts:
    """Adds up the messages of a recording's trials."""

    def __init__(self, plan: Plan) -> None:
        self.trials = plan.trials
        self.total_steps = plan.trials * plan.steps
        self.finished = 0
        self._trial_steps = plan.steps
        self._steps: dict[int, int] = {}
        self._ended_steps = 0
        self._begun: dict[int, int] = {}
        self._start = time.monotonic()

    @property
    def steps(self) -> int:
        """Steps done or, after a divergence, no longer to be done."""
        return sum(self._steps.values())

    @property
    def steps_per_s(self) -> float:
        """Steps trained since this call began, per second."""
        trained = sum(steps - self._begun[trial] for trial, steps in self._steps.items())
        return trained / max(time.monotonic() - self._start, 1e-9)

    def add(self, message: Progress) -> None:
        """Take in how far a trial is."""
        # The first word on a trial: what it did before does not count for this call's speed.
        self._begun.setdefault(message.trial, message.steps)
        self._steps[message.trial] = message.steps
        if message.end is not None:
            self.finished += 1
            if message.end == "diverged":
                skipped = max(0, self._trial_steps - message.steps)
                self._begun[message.trial] += skipped
                self._steps[message.trial] += skipped

    def summary(self) -> str:
        """Return one line: trials, steps, speed and time left."""
        speed = self.steps_per_s
        left = (self.total_steps - self.steps) / speed if speed > 0 else float("nan")
        return (
            f"{self.finished}/{self.trials} trials, {self.steps:,}/{self.total_steps:,} steps, "
            f"{speed:,.0f} steps/s, {_duration(left)} left"
        )


def trial_line(message: Progress | Failure) -> str:
    """Return one line on how a trial ended."""
    if isinstance(message, Failure):
        return f"trial {message.trial}: failed: {message.reason}"
    score = "" if message.recent_score is None else f", recent score {message.recent_score:.1f}"
    return (
        f"trial {message.trial}: {message.end}, {message.steps:,} steps, "
        f"{message.episodes:,} episodes, {message.seconds:.1f} s{score}"
    )


def _duration(seconds: float) -> str:
    if seconds != seconds:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


class LineDisplay:
    """Prints a line when a trial ends, and one on the whole now and then."""

    def __init__(self, plan: Plan) -> None:
        self.counts = Counts(plan)
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.counts.steps:
            print(self.counts.summary(), file=sys.stderr)

    def hear(self, message: Progress | Failure) -> None:
        """Take in one message."""
        if isinstance(message, Progress):
            self.counts.add(message)
        if isinstance(message, Failure) or message.end is not None:
            print(trial_line(message), file=sys.stderr)
        elif time.monotonic() - self._said > PLAIN_EVERY_S:
            self._said = time.monotonic()
            print(self.counts.summary(), file=sys.stderr)


class BarDisplay:
    """A progress bar, with a line above it for each trial that ends."""

    def __init__(self, plan: Plan) -> None:
        self.counts = Counts(plan)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[speed]:,.0f} steps/s"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(
            self._description(), total=self.counts.total_steps, speed=0.0
        )

    def _description(self) -> str:
        return f"{self.counts.finished}/{self.counts.trials} trials"

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def hear(self, message: Progress | Failure) -> None:
        """Take in one message."""
        if isinstance(message, Progress):
            self.counts.add(message)
            self._bar.update(
                self._task,
                completed=self.counts.steps,
                description=self._description(),
                speed=self.counts.steps_per_s,
            )
        if isinstance(message, Failure) or message.end is not None:
            self._bar.console.print(trial_line(message), markup=False, highlight=False)
