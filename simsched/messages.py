"""The values that cross the border between a scheduler and the coordinator.

A scheduler is asked (`ask`) what a free node should run and told (`tell`) each
score; it answers with the values below and knows nothing else of the world.
All of them are frozen: a value that has crossed a border cannot change behind
anybody's back.
"""

from typing import Literal, Protocol, TypeAlias

import msgspec

TrialId: TypeAlias = int
"""Trials are numbered 0, 1, 2, … in the order in which a scheduler starts them."""

HparamValue: TypeAlias = float | int | str | bool
Hparams: TypeAlias = dict[str, HparamValue]
"""One hyperparameter configuration: parameter name to value."""

Unit: TypeAlias = Literal["episodes", "steps", "seconds", "reports"]
"""What progress is counted in."""

Key: TypeAlias = tuple[int, ...]
"""What a random draw is keyed by, beside the seed: the trial, or the trial and its step."""


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A trial's weights as they were after `step` resource units."""

    trial: TrialId
    step: int


class Run(msgspec.Struct, frozen=True, gc=False):
    """Use a free node: train `trial` until its count is `until`.

    `source` None starts from scratch; else the weights are loaded from it.
    """

    trial: TrialId
    hparams: Hparams
    until: int
    source: Checkpoint | None = None


class Report(msgspec.Struct, frozen=True, gc=False):
    """A trial reached its milestone `step` with `score`; None means that it diverged."""

    trial: TrialId
    step: int
    score: float | None


class Continue(msgspec.Struct, frozen=True, gc=False, tag="continue"):
    """Verdict: go on in place until the count is `until`."""

    until: int


class Pause(msgspec.Struct, frozen=True, gc=False, tag="pause"):
    """Verdict: give the node away. `save` False when the weights are not wanted any more."""

    save: bool = True


class Stop(msgspec.Struct, frozen=True, gc=False, tag="stop"):
    """Verdict: the trial is over, because it finished or because it is weak."""


class Exploit(msgspec.Struct, frozen=True, gc=False, tag="exploit"):
    """Verdict: take the donor's weights and these hyperparameters, go on until `until`.

    The trial keeps its own count; only weights and hyperparameters are copied.
    """

    donor: Checkpoint
    hparams: Hparams
    until: int


Verdict: TypeAlias = Continue | Pause | Stop | Exploit


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The answer to one report. `retired`: OTHER, paused trials that are now over."""

    verdict: Verdict
    retired: tuple[TrialId, ...] = ()


class Searcher(Protocol):
    """Where hyperparameters come from. Every draw is keyed, so a replay repeats exactly."""

    def suggest(self, trial: TrialId) -> Hparams | None:
        """Return the configuration of `trial`, or None when there is none left.

        If it is None for one trial, it is None for every later one.
        """
        ...

    def perturb(
        self, hparams: Hparams, key: Key, *, factor: float, resample_probability: float
    ) -> Hparams:
        """Return a changed copy of `hparams` (PBT's explore step), drawn with `key`."""
        ...
