"""Dynamic adjustment: how many parts of each kind run is itself learnt while training.

The published rule (Babaeizadeh et al., ICLR 2017, and the code that came with it): after 10 s,
then every 20 s, take a random step of -1, 0 or +1 in each of N_A, N_P and N_T, and keep it when
the trainings counted do not fall. Three things were wrong with it:

- After a step was taken back, the next one was compared with the count of the *rejected*
  setting, since that was the last one counted; the setting taken back to never ran. So a bad
  step opens the door to the next bad step.
- The first count is of 10 s, the others of 20 s and of however long starting and ending parts
  took.
- It counted trainings, which many small batches raise where fewer samples are trained.

Here a proposal is compared with the setting that is kept, over windows of equal length, in
samples trained per second:

1. The kept setting runs for a window, which measures its rate.
2. A random step from it, the proposal, runs for the next window.
3. If the proposal's rate is at least the kept one's, it becomes the kept setting, its own window
   is its rate, and the next proposal follows at once. Otherwise the kept setting comes back and
   is measured again.

So both rates of a comparison are of neighbouring windows. That matters because rates drift:
games get faster or slower as agents learn. It also undoes luck: a setting kept for a window that
happened to be fast is hard to beat, so it is soon measured anew. The bound of the training queue
is adjusted too, since with it comes the policy lag; its steps are factors.

A strategy has no clock, no thread and no counter: it is told the rate of a window and says what
runs in the next one.
"""

import itertools
import json
import math
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from simsched.live.errors import LiveError


class Parts(NamedTuple):
    """What is adjusted."""

    groups: int
    """Groups of agents that act: N_A in groups. Those that do not are parked, not taken down."""
    predictors: int
    """N_P."""
    trainers: int
    """N_T."""
    training_queue: int
    """Bound of the training queue, in samples."""

    def __str__(self) -> str:
        return (
            f"groups {self.groups}, predictors {self.predictors}, trainers {self.trainers}, "
            f"training queue {self.training_queue}"
        )


Verdict = Literal["measured", "kept", "reverted"]


class Decision(NamedTuple):
    """What a window led to; `str()` of it is one line for the log."""

    window: int
    """The window's number, from 1."""
    tried: Parts
    """What ran in it."""
    rate: float
    """Samples trained per second of the window."""
    kept: Parts
    """The kept setting before the decision: `tried` itself if that was measured."""
    kept_rate: float | None
    """The kept setting's rate, with which `rate` was compared; None if `tried` was measured."""
    verdict: Verdict
    """measured: the kept setting ran; kept: the proposal replaces it; reverted: it comes back."""

    def __str__(self) -> str:
        against = "" if self.kept_rate is None else f" against {_number(self.kept_rate)}"
        return (
            f"window {self.window}: {self.tried}: {_number(self.rate)} samples/s{against}, "
            f"{self.verdict}"
        )


class Strategy(Protocol):
    """Decides which parts run, from window to window."""

    decisions: list[Decision]
    """One for each window since the strategy was made or restored, oldest first."""

    @property
    def parts(self) -> Parts:
        """What runs in the current window."""
        ...

    @property
    def kept(self) -> Parts:
        """The best setting as far as known, the one to end with."""
        ...

    def next(self, rate: float) -> Parts:
        """Return the parts for the next window.

        Args:
            rate: samples trained per second in the window that just ended, with `parts`. All
                windows must be of the same length.

        Raises:
            LiveError: the rate is negative or not finite.
        """
        ...

    def snapshot(self) -> dict[str, Any]:
        """Return the state between two windows as JSON values; decisions made are not in it."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot, on a strategy made with the same arguments.

        Raises:
            LiveError: the snapshot's settings are outside the limits.
        """
        ...


class RandomWalk:
    """The published random walk, mended; see above.

    A step is -1, 0 or +1 in groups, predictors and trainers and a factor of 1/2, 1 or 2
    (rounded) in the training queue, cut to the limits. Predictors are cut to the groups: each
    group waits for one prediction at a time, so more predictors could only idle. A proposal is
    drawn evenly from the settings within such a step, without the kept one, so no window is
    wasted on standing still.
    """

    def __init__(
        self,
        start: Parts,
        least: Parts,
        most: Parts,
        random: np.random.Generator,
        margin: float = 0.0,
    ) -> None:
        """Start with the kept setting `start`, which the first window measures.

        Args:
            start: where the walk starts, within the limits.
            least: the lower limits. With a training queue shorter than a batch, agents wait for
                trainers and trainers for agents.
            most: the upper limits.
            random: draws the steps, nothing else may draw from it.
            margin: by how much of the kept rate a proposal's must be higher to be kept. 0, as
                published: it must not fall. That drifts along level ground and now and then
                accepts a worse setting by chance; a margin near the noise of a window prevents
                both, but then many small gains in a row are missed too.

        Raises:
            LiveError: limits that cross or leave nothing to adjust, `start` outside them, or a
                margin that is negative or not finite.
        """
        _check_limits(least, most)
        _check_setting(start, least, most)
        if not (math.isfinite(margin) and margin >= 0):
            raise LiveError(f"margin: {margin} must be a finite number, 0 or above")
        self.decisions: list[Decision] = []
        self._least = least
        self._most = most
        self._random = random
        self._margin = margin
        self._windows = 0
        self._kept = start
        self._kept_rate: float | None = None  # None: the kept setting is being measured
        self._parts = start

    @property
    def parts(self) -> Parts:
        """What runs in the current window."""
        return self._parts

    @property
    def kept(self) -> Parts:
        """The setting that proposals are compared with, and to end with."""
        return self._kept

    def next(self, rate: float) -> Parts:
        """Return the parts for the next window, told the rate of the one that just ended.

        Raises:
            LiveError: the rate is negative or not finite; nothing has changed then.
        """
        if not (math.isfinite(rate) and rate >= 0):
            raise LiveError(f"rate: {rate} samples/s must be a finite number, 0 or above")
        self._windows += 1
        tried, kept, kept_rate = self._parts, self._kept, self._kept_rate
        verdict: Verdict
        if kept_rate is None:
            verdict = "measured"
        elif rate >= kept_rate * (1 + self._margin):
            verdict = "kept"
        else:
            verdict = "reverted"
        self.decisions.append(Decision(self._windows, tried, rate, kept, kept_rate, verdict))
        if verdict == "reverted":
            self._parts, self._kept_rate = kept, None
        else:
            self._kept, self._kept_rate = tried, rate
            self._parts = self._proposal()
        return self._parts

    def snapshot(self) -> dict[str, Any]:
        """Return the state between two windows as JSON values; decisions made are not in it.

        A window that was under way is to be started anew with `parts`.
        """
        # The generator as text: its numbers have 128 bits, more than many a reader keeps.
        random = json.dumps(self._random.bit_generator.state, default=np.ndarray.tolist)
        return {
            "windows": self._windows,
            "parts": list(self._parts),
            "kept": list(self._kept),
            "kept_rate": self._kept_rate,
            "random": random,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a snapshot, on a walk made with the same arguments.

        Raises:
            LiveError: the snapshot's settings are outside the limits; nothing has changed then.
        """
        parts, kept = Parts(*state["parts"]), Parts(*state["kept"])
        for setting in (parts, kept):
            _check_setting(setting, self._least, self._most)
        self._random.bit_generator.state = json.loads(state["random"])
        self._windows = state["windows"]
        self._parts, self._kept, self._kept_rate = parts, kept, state["kept_rate"]
        self.decisions = []

    def _proposal(self) -> Parts:
        """Draw one of the settings that are a step from the kept one and differ from it."""
        kept = self._kept
        by_one = itertools.product((-1, 0, 1), repeat=3)
        queues = (round(kept.training_queue / 2), kept.training_queue, 2 * kept.training_queue)
        # A dictionary as a set in order of insertion: the draw must not depend on hashes.
        near: dict[Parts, None] = {}
        for (groups, predictors, trainers), queue in itertools.product(by_one, queues):
            near[
                self._cut(
                    Parts(
                        kept.groups + groups,
                        kept.predictors + predictors,
                        kept.trainers + trainers,
                        queue,
                    )
                )
            ] = None
        del near[kept]
        return list(near)[self._random.integers(len(near))]

    def _cut(self, parts: Parts) -> Parts:
        """Return the setting within the limits that is nearest."""
        low, high = self._least, self._most
        cut = Parts(*(min(max(n, a), b) for n, a, b in zip(parts, low, high, strict=True)))
        return cut._replace(predictors=min(cut.predictors, cut.groups))


def _check_limits(least: Parts, most: Parts) -> None:
    for name, low, high in zip(Parts._fields, least, most, strict=True):
        if low < 1:
            raise LiveError(f"{name}: the least, {low}, is too small, use 1 or more")
        if low > high:
            raise LiveError(f"{name}: the least, {low}, is more than the most, {high}")
    if least.predictors > least.groups:
        raise LiveError(
            f"predictors: the least, {least.predictors}, is more than the least groups, "
            f"{least.groups}; more predictors than groups can only idle"
        )
    if least == most._replace(predictors=min(most.predictors, most.groups)):
        raise LiveError(f"adjust: the limits leave nothing to adjust, only {least}")


def _check_setting(parts: Parts, least: Parts, most: Parts) -> None:
    for name, value, low, high in zip(Parts._fields, parts, least, most, strict=True):
        if not low <= value <= high:
            raise LiveError(f"{name}: {value} is outside its limits, {low} to {high}")
    if parts.predictors > parts.groups:
        raise LiveError(
            f"predictors: {parts.predictors} is more than the {parts.groups} groups, "
            "more can only idle"
        )


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
