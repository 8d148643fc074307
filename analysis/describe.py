"""What a comparison is, in words: its title, its sentence, its tags and how to repeat it."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from simsched.analysis.cluster_words import drawn_anew, span, without_or_with
from simsched.analysis.statistics import Row
from simsched.analysis.wording import count, duration, listing, percent, plural
from simsched.cluster import NodeKind
from simsched.results import Measured, Settings
from simsched.traces import shipped

PROGRAM_LENGTH = 60
"""So much of a program's command line stands in a title."""
MARKS = {"approximate": "*", "censored": "†", "order only": "‡", "same trials": "‡"}
"""What stands behind a scheduler's name where a tag holds for some rows only."""


class Tag(NamedTuple):
    """Something a reader must know to judge the figures. `mark` is empty where it is for all."""

    name: str
    mark: str
    text: str


def held(row: Row) -> list[str]:
    """Return the names of the tags that hold for a row."""
    holds = {
        "approximate": row.approximate,
        "censored": row.censored > 0,
        "order only": row.order_only and not row.drawn,
        "same trials": row.order_only and row.drawn,
    }
    return [name for name, does in holds.items() if does]


def marks(row: Row) -> str:
    """Return the footnote marks of a row, such as `*†`."""
    return "".join(MARKS[name] for name in held(row))


def tags(settings: Settings, rows: Sequence[Row], measured: Measured | None = None) -> list[Tag]:
    """Return what the figures rest on, in the order in which it matters."""
    if measured is not None:
        return _measured(rows, measured)
    found = [_origin(settings)]
    if any(row.approximate for row in rows):
        found.append(Tag("approximate", MARKS["approximate"], _approximate(rows)))
    censored = sum(row.censored for row in rows)
    if censored:
        text = (
            f"{plural(censored, 'trial')} reached the end of a record that was cut short, "
            "and ended there; with more of the record they might have gone on."
        )
        found.append(Tag("censored", MARKS["censored"], text))
    if any(row.order_only for row in rows):
        found.append(_same_trials(drawn_anew(settings)))
    if settings.resample:
        text = (
            f"Trials are drawn with replacement from the {count(settings.recorded_trials)} "
            "recorded ones; the first replication takes these in the file's order first."
        )
        found.append(Tag("resampled", "", text))
    replications = max(row.replications for row in rows)
    if replications > 1:
        text = f"± is half the 95 % t interval of the mean over {replications} replications."
        found.append(Tag("intervals", "", text))
    return found


def _measured(rows: Sequence[Row], measured: Measured) -> list[Tag]:
    """Return what there is to know of a live search."""
    text = (
        f"Not a simulation: real workers trained, from {measured.date} on, and every time is as it "
        f"was measured ({measured.hardware})."
    )
    found = [Tag("measured", "", text)]
    lost = sum(row.lost for row in rows)
    if measured.failures or lost:
        text = (
            f"{plural(measured.failures, 'worker')} failed; what is lost through that is trained "
            "again from the newest checkpoint (redo)."
        )
        if lost:
            text += f" {plural(lost, 'trial')} used up all retries and ended there (lost)."
        found.append(Tag("failures", "", text))
    censored = sum(row.censored for row in rows)
    if censored:
        text = (
            f"{plural(censored, 'trial')} had to end because the search's time was up; with more "
            "time they might have gone on."
        )
        found.append(Tag("censored", MARKS["censored"], text))
    return found


def _same_trials(drawn: list[str]) -> Tag:
    """Return what differs where every replication replays all the recorded trials."""
    if not drawn:
        text = (
            "Every replication replays all the recorded trials, so the intervals show what "
            "the order of the trials does, not what another draw of trials would do."
        )
        return Tag("order only", MARKS["order only"], text)
    differs = listing(["the order of the trials", *drawn])
    text = (
        f"Every replication replays all the recorded trials; {differs} are drawn anew. The "
        "intervals show what that does, not what another draw of trials would do."
    )
    return Tag("same trials", MARKS["same trials"], text)


def _origin(settings: Settings) -> Tag:
    if settings.synthetic:
        return Tag(
            "synthetic",
            "",
            f"The learning curves ({settings.traces}) were generated, not recorded: they show "
            "what the schedulers do, and nothing about a real game.",
        )
    text = (
        f"The learning curves are recordings of {plural(settings.recorded_trials, 'trial')} "
        f"({settings.traces})."
    )
    return Tag("recorded", "", text)


def _approximate(rows: Sequence[Row]) -> str:
    text = (
        "Rests on curves nobody recorded: after an exploit the replay goes on along the "
        "recorded trial with the nearest hyperparameters."
    )
    figures = [row.approximation for row in rows if row.approximation]
    if not figures:
        return text
    exploits = _mean(figures, "exploits")
    times = count(round(exploits)) if exploits >= 100 else f"{exploits:.3g}"
    shown = [f"{times} {'exploit' if exploits == 1 else 'exploits'} in a run"]
    if all("own_curve_share" in each for each in figures):
        own = percent(_mean(figures, "own_curve_share"))
        shown.append(f"{own} of them along the donor's own curve")
    if all("mean_distance" in each for each in figures):
        shown.append(f"neighbours {_mean(figures, 'mean_distance'):.3g} away on average")
    return f"{text} Here: {', '.join(shown)}."


def _mean(figures: Sequence[dict[str, float]], name: str) -> float:
    return sum(each[name] for each in figures) / len(figures)


def cluster(settings: Settings) -> str:
    """Return the cluster and the number of trials, such as `6 nodes, 16 trials`."""
    nodes = listing([count(each) for each in settings.nodes])
    workers = listing([count(each) for each in settings.workers])
    return (
        f"{nodes} {'node' if settings.nodes == (1,) else 'nodes'}, "
        f"{workers} {'trial' if settings.workers == (1,) else 'trials'}"
    )


def lengths(settings: Settings) -> str:
    """Return how long a trial can get, such as `10 phases of 2 500 episodes`."""
    unit = {"episodes": "episode", "steps": "step", "seconds": "second", "reports": "report"}
    length = plural(settings.phase_length, unit[settings.unit])
    if settings.phases == 1:
        return f"one phase of {length}"
    return f"{count(settings.phases)} phases of {length}"


def costs(settings: Settings, measured: Measured | None = None) -> str:
    """Return what starts and checkpoints cost."""
    named = [("start", settings.start_s), ("save", settings.save_s), ("load", settings.load_s)]
    if measured is not None:
        took = [f"{name} {duration(cost_s)}" for name, cost_s in named if cost_s > 0]
        return f"{', '.join(took)} (measured medians)" if took else "too short to be measured"
    shown = [f"{name} {_cost(cost_s)}" for name, cost_s in named if cost_s > 0]
    fleet = settings.cluster
    if fleet is not None and fleet.costs.hand_over_s:
        shown.append(f"hand-over {_cost(fleet.costs.hand_over_s)}")
    if fleet is not None and fleet.store is not None:
        store = fleet.store
        shown.append(
            f"checkpoints of {store.checkpoint_mb:g} MB in a store of "
            f"{store.bandwidth_mb_per_s:g} MB/s"
        )
    return ", ".join(shown) if shown else "starts and checkpoints are free"


def node_kinds(settings: Settings) -> str:
    """Return the kinds of nodes in short; the section on the cluster has the whole."""
    fleet = settings.cluster
    return speeds(settings) if fleet is None else "; ".join(_kind(kind) for kind in fleet.nodes)


def _kind(kind: NodeKind) -> str:
    said = [f"{kind.count} {kind.name}"]
    said += [f"speed {kind.speed:g}"] * (kind.speed != 1)
    said += [f"{kind.price_per_hour:g} an hour"] * (kind.price_per_hour > 0)
    failures, spot = kind.failures, kind.spot
    if failures is not None and failures.mean_time_between_s is not None:
        said.append(f"fails every {span(failures.mean_time_between_s)}")
    if failures is not None and failures.outages:
        said.append(plural(len(failures.outages), "recorded outage"))
    if spot is not None:
        notice = without_or_with(spot.notice_s)
        said.append(f"taken back every {span(spot.mean_time_between_s)}, {notice}")
    return ", ".join(said)


def _cost(cost_s: float) -> str:
    return f"{cost_s:g} s" if cost_s < 120 else duration(cost_s)


def speeds(settings: Settings) -> str:
    """Return the speed factors of the nodes."""
    if set(settings.node_speeds) <= {1.0}:
        return "all nodes alike"
    return ", ".join(f"{speed:g}" for speed in settings.node_speeds) + ", and over again"


def subject(settings: Settings, measured: Measured | None = None) -> str:
    """Return what was trained: the game, a program, or else the name of the curves."""
    program = None if measured is None else measured.program
    if program is not None and len(program) > PROGRAM_LENGTH:
        program = f"{program[: PROGRAM_LENGTH - 1]}…"
    return settings.game or program or settings.traces


def title(settings: Settings, measured: Measured | None = None) -> str:
    """Return what was trained, and the cluster."""
    live = "" if measured is None else ", live"
    return f"{subject(settings, measured)}{live} on {cluster(settings)}"


def sentence(settings: Settings, rows: Sequence[Row], measured: Measured | None = None) -> str:
    """Return what was done, in one sentence."""
    schedulers = list(dict.fromkeys(row.scheduler for row in rows))
    replications = max(row.replications for row in rows)
    where = f"{cluster(settings)} of up to {lengths(settings)} each"
    if measured is not None:
        took = costs(settings, measured)
        return f"{listing(schedulers)} ran on {where}; starts and checkpoints: {took}."
    times = f", {replications} replications" if replications > 1 else ""
    return f"{listing(schedulers)} on {where}{times}; {costs(settings)}."


def command(settings: Settings) -> list[list[str]]:
    """Return the command that repeats the comparison: its name, then each option's words."""
    curves = "--game" if settings.traces in shipped() else "--traces"
    parts = [
        ["simsched", "simulate"],
        [curves, settings.traces],
        ["--cluster", settings.cluster_name or ""]
        if settings.cluster is not None
        else ["--nodes", _joined(settings.nodes)],
        ["--workers", _joined(settings.workers)],
        *(["--scheduler", scheduler] for scheduler in settings.schedulers),
        ["--phases", str(settings.phases)],
        ["--phase-length", str(settings.phase_length)],
        ["--unit", settings.unit],
        *(
            [option, _exact(cost_s)]
            for option, name, cost_s in (
                ("--start-cost", "start_s", settings.start_s),
                ("--save-cost", "save_s", settings.save_s),
                ("--load-cost", "load_s", settings.load_s),
            )
            if (cost_s > 0 if settings.cluster is None else name in settings.given_costs)
        ),
        ["--checkpoints", settings.checkpoints] if settings.checkpoints != "scheduler" else [],
        ["--preemption", settings.preemption] if settings.preemption != "eager" else [],
        ["--node-speeds", ",".join(_exact(speed) for speed in settings.node_speeds)]
        if set(settings.node_speeds) != {1.0}
        else [],
        ["--replications", str(settings.replications)] if settings.replications > 1 else [],
        ["--resample"] if settings.resample else [],
        ["--seed", str(settings.seed)],
    ]
    return [part for part in parts if part]


def command_line(settings: Settings, measured: Measured | None = None) -> str:
    """Return the command that repeats the comparison, for a shell, an option a line."""
    if measured is not None:
        return measured.command
    return " \\\n  ".join(shlex.join(part) for part in command(settings))


def _joined(values: Sequence[int]) -> str:
    return ",".join(str(value) for value in values)


def _exact(value: float) -> str:
    return repr(value).removesuffix(".0")
