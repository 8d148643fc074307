"""How far a recording is: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from simsched.live.ga3c.games import FRAME_SKIP, is_atari
from simsched.live.plan import Plan
from simsched.live.training import Progress
from simsched.live.trial_process import Failure

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
        self.atari = is_atari(plan.game)
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

    @property
    def speed(self) -> str:
        """Steps per second, and frames where the game has them."""
        speed = self.steps_per_s
        frames = f" ({speed * FRAME_SKIP:,.0f} frames/s)" if self.atari else ""
        return f"{speed:,.0f} steps/s{frames}"

    @property
    def left(self) -> str:
        """Time left at the speed so far."""
        speed = self.steps_per_s
        left = max(0, self.total_steps - self.steps) / speed if speed > 0 else float("nan")
        return f"{_duration(left)} left"

    def summary(self) -> str:
        """Return one line: trials, steps, speed and time left."""
        return (
            f"{self.finished}/{self.trials} trials, {self.steps:,}/{self.total_steps:,} steps, "
            f"{self.speed}, {self.left}"
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
    """A bar for the whole and one for each running trial; a line for each trial that ends."""

    def __init__(self, plan: Plan) -> None:
        self.counts = Counts(plan)
        self._trial_steps = plan.steps
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[detail]}"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(
            self._description(), total=self.counts.total_steps, detail=""
        )
        self._trials: dict[int, TaskID] = {}

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
            self._show_trial(message)
            self._bar.update(
                self._task,
                completed=self.counts.steps,
                description=self._description(),
                detail=f"{self.counts.speed}, {self.counts.left}",
            )
        if isinstance(message, Failure) or message.end is not None:
            task = self._trials.pop(message.trial, None)
            if task is not None:
                self._bar.remove_task(task)
            self._bar.console.print(trial_line(message), markup=False, highlight=False)

    def _show_trial(self, message: Progress) -> None:
        if message.end is not None:
            return
        if message.trial not in self._trials:
            self._trials[message.trial] = self._bar.add_task(
                f"trial {message.trial}", total=self._trial_steps, detail=""
            )
        score = "" if message.recent_score is None else f", score {message.recent_score:.1f}"
        self._bar.update(
            self._trials[message.trial],
            completed=message.steps,
            detail=f"{message.steps:,} steps{score}",
        )
