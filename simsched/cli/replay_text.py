"""What `simsched replay` prints: what was checked, and prediction beside reality."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from simsched.analysis.wording import MISSING, duration, number, percent, plural
from simsched.cli.live_text import labelled
from simsched.timeline import KINDS, US_PER_S

if TYPE_CHECKING:
    from simsched.live.past_costs import Score
    from simsched.live.replaying import Replayed
    from simsched.live.rerun import Simulated
    from simsched.results import RunResult
    from simsched.timeline import Kind

DIFFERENCES = 5
"""So many different decisions, or scores, are named."""
LONGEST = 300
"""An answer that differs is quoted up to so many characters."""
COST_NAMES = {
    "start": "start a worker",
    "load": "load a checkpoint",
    "save": "save a checkpoint",
    "adopt": "begin an exploit",
    "hand-over": "hand over",
}


class Measure(NamedTuple):
    """What is compared: how it is got, how it is written, how two of it differ."""

    name: str
    value: "Callable[[RunResult], float | None]"
    written: Callable[[float], str]
    off: Callable[[float, float], str]


class Line(NamedTuple):
    """A measure of the real search and of two simulations, as text; differences have a sign."""

    name: str
    actual: str
    predicted: str
    predicted_off: str
    retraced: str
    retraced_off: str


def _relative(actual: float, simulated: float) -> str:
    if simulated == actual:
        return "0 %"
    return f"{100 * (simulated / actual - 1):+.1f} %" if actual else ""


def _points(actual: float, simulated: float) -> str:
    return f"{100 * (simulated - actual):+.1f} pt" if simulated != actual else "0 pt"


def _seconds(actual: float, simulated: float) -> str:
    off_s = simulated - actual
    return f"{'-' if off_s < 0 else '+'}{duration(abs(off_s))}" if off_s else "0 s"


def _whole(actual: float, simulated: float) -> str:
    return f"{simulated - actual:+.0f}" if simulated != actual else "0"


def _score_off(actual: float, simulated: float) -> str:
    off = simulated - actual
    return f"{'-' if off < 0 else '+'}{number(abs(off), like=actual)}" if off else "0"


def _nothing(_actual: float, _simulated: float) -> str:
    return ""


MEASURES = (
    Measure("wall time", lambda run: run.wall_time_s, duration, _relative),
    Measure("utilization", lambda run: run.utilization, percent, _points),
    Measure("occupancy", lambda run: run.occupancy, percent, _points),
    Measure("training done α", lambda run: run.completion_rate, percent, _points),
    Measure("best score", lambda run: run.best_score, number, _score_off),
    Measure("  of trial", lambda run: run.best_trial, lambda trial: f"{trial:.0f}", _nothing),
    Measure("  after", lambda run: run.time_to_best_s, duration, _relative),
    Measure("milestones", lambda run: run.milestones, lambda n: f"{n:,}", _whole),
    Measure("preemptions", lambda run: run.preemptions, lambda n: f"{n:,}", _whole),
    Measure("saves", lambda run: run.saves, lambda n: f"{n:,}", _whole),
    Measure("loads", lambda run: run.loads, lambda n: f"{n:,}", _whole),
)


def _node_time(kind: "Kind") -> Measure:
    return Measure(f"  {kind}", lambda run: run.node_seconds.get(kind, 0.0), duration, _seconds)


def replayed_text(replayed: "Replayed") -> str:
    """Return the checks, the table and the costs, 80 columns wide."""
    parts = (
        labelled(list(checks(replayed))),
        table(replayed),
        labelled(list(remarks(replayed))),
        _cost_table(replayed),
    )
    return "\n".join(parts)


def sentence(replayed: "Replayed") -> str:
    """Return what was searched."""
    settings = replayed.run.settings
    what = settings.game or f"`{settings.command}`"
    trials, nodes = plural(settings.workers, "trial"), plural(settings.nodes, "node")
    return f"{settings.scheduler}, {trials} of {what} on {nodes}"


def checks(replayed: "Replayed") -> Iterator[tuple[str, str]]:
    """Yield what was found in the journal, each with a label."""
    run, checked = replayed.run, replayed.run.checked
    yield "run", f"{run.folder}: {sentence(replayed)}"
    if run.ended == "unfinished":
        until = duration(run.result.wall_time_s)
        yield "run", f"it is not over: all is compared up to its last event, after {until}"
    elif run.ended == "max-time":
        yield "run", "it was cut off by --max-time, and so are the simulations"
    equal = f"{checked.equal} of {checked.decisions}"
    yield "decisions", f"{equal} are the same when a fresh scheduler is fed the journal"
    if checked.difference is not None:
        yield "decisions", f"the first answer that differs: {_short(checked.difference)}"
    yield from (("scores", line) for line in _scores(replayed))
    yield from (("lost", line) for line in _lost(replayed))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _scores(replayed: "Replayed") -> Iterator[str]:
    scores, sign = replayed.measured.scores, replayed.run.sign
    comparable = [each for each in scores if each.why is None]
    equal = sum(each.told == each.found for each in comparable)
    yield f"{equal} of {len(comparable)} are what the curves give by the simulation's rule, exactly"
    wrong = replayed.wrong_scores
    for each in wrong[:DIFFERENCES]:
        yield _wrong(each, sign)
    if len(wrong) > DIFFERENCES:
        yield f"and {len(wrong) - DIFFERENCES} more"
    again = sum(each.why is not None and each.agrees for each in scores)
    if again:
        yield f"{again} cannot be compared: their rows were lost and trained again"


def _wrong(score: "Score", sign: float) -> str:
    told = "diverged" if score.told is None else repr(score.told * sign)
    found = "diverged" if score.found is None else repr(score.found * sign)
    place = f"trial {score.trial} at {score.step:,}: {told} in the journal"
    return f"{place}, but {score.why}" if score.why is not None else f"{place}, {found} by its rows"


def _lost(replayed: "Replayed") -> Iterator[str]:
    lost = replayed.measured.lost
    if lost.failures or lost.interruptions:
        yield (
            f"{plural(lost.failures, 'failure')} and {plural(lost.interruptions, 'interruption')}, "
            "which are not simulated; starting, loading and training again took "
            f"{duration(lost.node_us / US_PER_S)} of node time"
        )


def lines(replayed: "Replayed") -> list[Line]:
    """Return the measures of the table, in its order."""
    runs = (replayed.run.result, replayed.predicted.result, replayed.retraced.result)
    found = [_line(measure, *runs) for measure in MEASURES]
    found.append(Line("node time", *[""] * 5))
    kinds = [kind for kind in KINDS if any(run.node_seconds.get(kind) for run in runs)]
    return found + [_line(_node_time(kind), *runs) for kind in kinds]


def _line(
    measure: Measure, actual: "RunResult", predicted: "RunResult", retraced: "RunResult"
) -> Line:
    real = measure.value(actual)
    cells = []
    for run in (predicted, retraced):
        value = measure.value(run)
        cells.append(MISSING if value is None else measure.written(value))
        cells.append("" if value is None or real is None else measure.off(real, value))
    return Line(measure.name, MISSING if real is None else measure.written(real), *cells)


def table(replayed: "Replayed") -> str:
    """Return prediction beside reality as text."""
    heading = Line("", "actual", "predicted", "off", "retraced", "off")
    return "".join(
        f"{line.name:<16}{line.actual:>12}{line.predicted:>12}{line.predicted_off:>11}"
        f"{line.retraced:>12}{line.retraced_off:>11}".rstrip()
        + "\n"
        for line in (heading, *lines(replayed))
    )


def remarks(replayed: "Replayed") -> Iterator[tuple[str, str]]:
    """Yield what the simulations are, and how their decisions differ, each with a label."""
    if replayed.run.settings.saving.kind not in ("scheduler", "milestone"):
        yield "saves", "those in mid-phase are in the run, not in the simulations"
    yield "predicted", "a simulation at the mean of each cost"
    yield from (("predicted", line) for line in differences(replayed, replayed.predicted))
    yield "retraced", "a simulation with each cost as it was at that place in the run"
    yield from (("retraced", line) for line in differences(replayed, replayed.retraced))


def differences(replayed: "Replayed", simulated: "Simulated") -> Iterator[str]:
    """Yield how the simulation's decisions, in its own order, differ from the run's."""
    from simsched.live.agreement import in_words

    agreement = replayed.agreement(simulated)
    yield (
        f"in its own order of events {agreement.same} of {agreement.total} decisions are the same"
    )
    for each in agreement.differences[:DIFFERENCES]:
        yield (
            f"trial {each.trial} at {each.step:,}: {in_words(each.actual)}, and in the simulation "
            f"{in_words(each.simulated)}"
        )
    if len(agreement.differences) > DIFFERENCES:
        yield f"and {len(agreement.differences) - DIFFERENCES} more"
    if ended := simulated.ended_early:
        yield f"{plural(ended, 'trial')} ended where the run had trained no further"


COST_COLUMNS = ("mean", "median", "least", "most", "samples")


def costs(replayed: "Replayed") -> list[tuple[str, ...]]:
    """Return what each cost was: its name, then as `COST_COLUMNS` has it."""
    rows = []
    for kind, cost in replayed.measured.costs.items():
        times = (cost.mean_us, cost.median_us, cost.least_us, cost.most_us)
        written = (duration(time_us / US_PER_S) for time_us in times)
        rows.append((COST_NAMES[kind], *written, f"{cost.samples:,}"))
    return rows


def _cost_table(replayed: "Replayed") -> str:
    rows = [("costs", *COST_COLUMNS), *costs(replayed)]
    return "".join(
        f"{name:<20}{''.join(f'{cell:>10}' for cell in cells)}\n" for name, *cells in rows
    )
