"""The tests of the tests: every known mistake is caught, and the code without it is not blamed."""

from collections.abc import Callable
from functools import cache, partial

import planted_checks as checks
import pytest
from planted_bugs import CONTROL_PLANE, SCHEDULERS, WORLDS, Bug

ALL = [*SCHEDULERS, *CONTROL_PLANE, *WORLDS]


@cache
def passes(check: Callable[..., None], arguments: tuple[str | int, ...]) -> None:
    """Run a check on the code as it is; once, though several bugs may be for it to find."""
    check(*arguments)


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.title)
def test_a_planted_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(bug.check, partial):
        passes(bug.check.func, bug.check.args)
    else:
        passes(bug.check, ())
    bug.plant(monkeypatch)
    # `Failed` is what pytest.raises raises where nothing was raised; it is no Exception.
    with pytest.raises((Exception, pytest.fail.Exception), match=bug.says):
        bug.check()


NOT_BY_THE_SWARM = {
    "a pause does not save", "save not awaited", "retry counts preemption", "one retry too few",
    "what was trained by those that died is forgotten", "a donor's checkpoint is deleted",
    "redo time booked as training",
    "a worker that is ended on its second way is booked as training",
}  # fmt: skip
"""What a run survives: it is cheaper or fairer without, and only the small world's books know."""


@pytest.mark.parametrize(
    "bug", [bug for bug in CONTROL_PLANE if bug.title not in NOT_BY_THE_SWARM],
    ids=lambda bug: bug.title,
)  # fmt: skip
def test_the_swarm_catches_it_too(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    passes(checks.swarm, (30,))
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"event \d+"):
        checks.swarm()


def test_commands_before_the_journal_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the live world: a crash in between would leave workers that nobody knows of."""
    pytest.importorskip("psutil")
    from simsched.live.feed import Feed

    checks.journal_first()
    early = Bug(
        "journal synced after the commands", Feed, "_flush",
        "    commands += self.control.feed(event)\n",
        "    commands += self.control.feed(event)\n"
        "            while commands:\n                self._carry_out(commands.pop(0))\n",
        checks.journal_first, "Start.*sync",
    )  # fmt: skip
    early.plant(monkeypatch)
    with pytest.raises(AssertionError, match=early.says):
        checks.journal_first()


def test_no_two_bugs_are_one() -> None:
    assert len({bug.title for bug in ALL}) == len(ALL)
    assert len({(bug.owner, bug.name, bug.old, bug.new) for bug in ALL}) == len(ALL)
