"""What the live world raises."""

from simsched.errors import SimschedError


class LiveError(SimschedError):
    """Bad input or a broken recording; `str()` of it is the one line to show."""


class NothingRanError(LiveError):
    """No worker of a search ever spoke: there is nothing to keep or to resume."""


class DivergedError(ArithmeticError):
    """A loss, a gradient or a parameter is no longer finite: the trial has diverged."""
