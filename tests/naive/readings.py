"""Points of the rules that the program reads otherwise than they are written.

All False is the letter of the rules. The comparisons at large take the program's reading,
so that everything else is still compared; a test of its own holds each point open.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Readings:
    stand_still: bool = False
    """A row far beyond one milestone is the next milestone too, at no time ("the first instant
    at which the count is `until` or more"), not the first row after it."""
    diverged_may_yield: bool = False
    """A diverged PBT member that exploits and must yield is paused; by the letter it may only
    stop or exploit."""
    diverged_counts_once: bool = False
    """Median stopping counts a diverged trial at the milestone it diverged at, and not from
    there on."""


LETTER = Readings()
PROGRAM = Readings(stand_still=True, diverged_may_yield=True, diverged_counts_once=True)
current = LETTER


@contextmanager
def reading(**changes: bool) -> Iterator[None]:
    """Read as the program does, but for the points given."""
    global current
    before, current = current, replace(PROGRAM, **changes)
    try:
        yield
    finally:
        current = before
