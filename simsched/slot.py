"""A busy node, as the coordinator sees it, and what can begin there."""

from typing import TypeAlias

import msgspec

from simsched.messages import Checkpoint, Exploit, Run, TrialId
from simsched.retries import Member, Policy

NO_POLICY = Policy()
Work: TypeAlias = Run | Exploit
"""What can begin on a node."""


class ProtocolError(RuntimeError):
    """A world or a scheduler broke the rules: a bug, never a user's mistake."""


class Slot(msgspec.Struct, gc=False):
    """What the coordinator knows of a busy node, or of a trial that waits for its restart."""

    attempt: int
    trial: TrialId
    until: int
    """The milestone that is awaited."""
    member: Member
    saving: Checkpoint | None = None
    release: bool = False
    """The node is given away when the save is done."""
    last: bool = False
    """The trial is over; this save is for keeping."""
    again: bool = False
    """A save was lost: the worker trains up to `saving.step` once more."""
    bound: Run | None = None
    """Who starts here when the save is done (rule 3)."""
    waiting: Run | Exploit | None = None
    """What begins here when its source is durable (rule 2)."""
    held: bool = False
    """The trial is paused and keeps its node."""
    snapping: bool = False
    """A save in mid-phase is under way."""
    parking: bool = False
    """The worker was told to save and end."""
    empty: bool = False
    """There is no worker: it was parked, or waits for its source."""


def as_run(trial: TrialId, work: Run | Exploit) -> Run:
    """Return work as a run that starts a worker: the one that was to exploit is gone."""
    if isinstance(work, Run):
        return work
    return Run(trial, work.hparams, work.until, work.donor)


def source_of(work: Work) -> Checkpoint | None:
    """Return the checkpoint that work begins from."""
    return work.source if isinstance(work, Run) else work.donor
