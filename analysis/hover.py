"""What the bars of a Gantt chart say when they are pointed at."""

from bisect import bisect_right

from simsched.analysis.cluster_words import NodeGroup, groups
from simsched.analysis.plotting import escaped
from simsched.analysis.series import Columns
from simsched.analysis.wording import count, duration, number
from simsched.results import RunResult, Settings, TrialResult
from simsched.timeline import US_PER_S, Kind


def named_kind(kind: NodeGroup) -> str:
    """Return what stands behind a node's number, as Plotly's HTML."""
    return f" ({escaped(kind.name)})"


class Hover:
    """What a bar says when it is pointed at."""

    def __init__(self, run: RunResult, settings: Settings) -> None:
        self._settings = settings
        self._trials: dict[int, TrialResult] = {trial.trial: trial for trial in run.trials}
        self._scores = {
            (trial.trial, milestone.step): milestone.score
            for trial in run.trials
            for milestone in trial.curve
        }
        self._kinds = groups(settings)
        self._starts = [kind.first for kind in self._kinds]

    def rows(self, kind: Kind, bars: Columns) -> list[list[str]]:
        """Return for each bar: trial, fate, what it is about, from, to and how long.

        Where there are several kinds of nodes, what is to be said of the node's comes last.
        """
        return [
            [
                str(trial),
                self._fate(trial),
                self._about(kind, trial, step),
                duration(start_us / US_PER_S),
                duration(end_us / US_PER_S),
                duration((end_us - start_us) / US_PER_S),
                *self._kind_of(node),
            ]
            for node, trial, start_us, end_us, step in zip(
                bars.node.tolist(),
                bars.trial.tolist(),
                bars.start_us.tolist(),
                bars.end_us.tolist(),
                bars.step.tolist(),
                strict=True,
            )
        ]

    def template(self, kind: Kind) -> str:
        """Return the kind's hover template over the columns of `rows`."""
        alone = kind in ("down", "grace")
        head = "" if alone else "<b>trial %{customdata[0]}</b> (%{customdata[1]})<br>"
        node = f"node %{{y}}{'%{customdata[6]}' if self._kinds else ''}"
        times = "%{customdata[3]} to %{customdata[4]} (%{customdata[5]})"
        return f"{head}<b>{kind}</b> %{{customdata[2]}}<br>{node}, {times}<extra></extra>"

    def _kind_of(self, node: int) -> list[str]:
        if not self._kinds:
            return []
        return [named_kind(self._kinds[bisect_right(self._starts, node) - 1])]

    def _fate(self, trial: int) -> str:
        found = self._trials.get(trial)
        return found.fate if found else ""

    def _about(self, kind: Kind, trial: int, step: int) -> str:
        if step < 0:
            return ""
        if kind in ("start", "load"):
            return "from scratch" if step == 0 else f"from {self._milestone(step)}"
        if kind == "save":
            return f"at {self._milestone(step)}"
        text = f"to {self._milestone(step)}"
        if (trial, step) not in self._scores:
            return text
        score = self._scores[trial, step]
        return f"{text}<br>{'diverged' if score is None else f'score {number(score)}'}"

    def _milestone(self, step: int) -> str:
        """Return a milestone such as `5 000 episodes (phase 2 of 10)`."""
        phase, rest = divmod(step, self._settings.phase_length)
        place = f" (phase {phase} of {self._settings.phases})" if rest == 0 else ""
        return f"{count(step)} {self._settings.unit}{place}"
