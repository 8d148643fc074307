"""Where a simulated search decided otherwise than the real one."""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from simsched.events import Reported, Start
from simsched.journal import Record
from simsched.messages import Continue, Exploit, Pause, TrialId, Verdict

_Place: TypeAlias = tuple[TrialId, int]


class Difference(NamedTuple):
    """A milestone with different verdicts; None where a search did not come to it."""

    trial: TrialId
    step: int
    actual: Verdict | None
    simulated: Verdict | None


class Agreement(NamedTuple):
    """How many verdicts two searches have in common."""

    same: int
    differences: list[Difference]
    """In the order in which they came up, those of the real search first."""

    @property
    def total(self) -> int:
        """Milestones of either search."""
        return self.same + len(self.differences)


def verdicts(records: Iterable[Record]) -> dict[_Place, Verdict]:
    """Return the verdict at each milestone, in the order of the journal."""
    trials: dict[int, TrialId] = {}
    found: dict[_Place, Verdict] = {}
    for record in records:
        event = record.event
        if isinstance(event, Reported) and record.decision is not None:
            found[trials[event.attempt], event.step] = record.decision.verdict
        for command in record.commands:
            if isinstance(command, Start):
                trials[command.attempt] = command.trial
    return found


def compare(actual: Iterable[Record], simulated: Iterable[Record]) -> Agreement:
    """Compare the verdicts of a real search with those of a simulated one."""
    real, other = verdicts(actual), verdicts(simulated)
    differences = [
        Difference(*place, real.get(place), other.get(place))
        for place in dict.fromkeys([*real, *other])
        if real.get(place) != other.get(place)
    ]
    return Agreement(len(real.keys() | other.keys()) - len(differences), differences)


def in_words(verdict: Verdict | None) -> str:
    """Return what became of the trial."""
    if verdict is None:
        return "did not come so far"
    if isinstance(verdict, Continue):
        return "went on"
    if isinstance(verdict, Pause):
        return "paused" if verdict.save else "paused, to copy another"
    if isinstance(verdict, Exploit):
        return f"copied trial {verdict.donor.trial} at {verdict.donor.step:,}"
    return "ended"
