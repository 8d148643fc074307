"""What a simulated cluster was, in words: its kinds of nodes, what went wrong, how it saved."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from simsched.analysis.wording import count, listing, plural
from simsched.checkpointing import between_losses_s, parse_saving, save_cost_s
from simsched.cluster import Fleet, Maintenance, NodeFailures, NodeKind
from simsched.results import Measured, Settings

LISTED = 8
"""So many outages, windows or steps of scaling are written out."""
_FOR_EVER_S = 1e10
"""More than 300 years."""
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


class Lines(NamedTuple):
    """Names and what is to be said of each: of the nodes, and of what they share and do."""

    nodes: list[tuple[str, str]]
    rest: list[tuple[str, str]]


class NodeGroup(NamedTuple):
    """The nodes of a kind, numbered from `first` to before `end`."""

    name: str
    first: int
    end: int


def groups(settings: Settings) -> list[NodeGroup]:
    """Return where each kind of node stands; empty where there are not several kinds."""
    fleet = settings.cluster
    if fleet is None or len(fleet.nodes) < 2:
        return []
    return [group for group in _groups(fleet) if group.end > group.first]


def _groups(fleet: Fleet) -> list[NodeGroup]:
    found, first = [], 0
    for kind in fleet.nodes:
        end = first + fleet.most(kind)
        found.append(NodeGroup(kind.name, first, end))
        first = end
    return found


def told(settings: Settings, measured: Measured | None = None) -> Lines | None:
    """Return what the cluster was; None of a search that ran, and where nothing was said of it."""
    said = settings.cluster is not None or (settings.checkpoints, settings.preemption) != (
        "scheduler",
        "eager",
    )
    if measured is not None or not said:
        return None
    return Lines(_nodes(settings), _rest(settings))


def without_or_with(notice_s: float) -> str:
    """Return how much notice there is."""
    return f"with {span(notice_s)} notice" if notice_s else "without notice"


def span(seconds: float) -> str:
    """Return a length of time as it was given, exactly: `0.5 s`, `90 s`, `12 h`, `1 h 1 m 5 s`."""
    if seconds >= _FOR_EVER_S:
        return "more than 300 years"
    if seconds < 120:
        return f"{seconds:g} s"
    parts, rest = [], round(seconds, 3)
    for unit, size_s in _UNITS:
        whole, rest = divmod(rest, size_s)
        if whole:
            parts.append(f"{count(round(whole))} {unit}")
    if rest := round(rest, 3):
        parts.append(f"{rest:g} s")
    return " ".join(parts)


def _nodes(settings: Settings) -> list[tuple[str, str]]:
    fleet = settings.cluster
    if fleet is None:
        speeds = ", ".join(f"{speed:g}" for speed in settings.node_speeds)
        turns = ", and over again" if len(settings.node_speeds) > 1 else ""
        nodes = listing([count(nodes) for nodes in settings.nodes])
        return [
            (f"{nodes} {'node' if settings.nodes == (1,) else 'nodes'}", f"speed {speeds}{turns}")
        ]
    lines = [
        (_counted(fleet, kind), _kind(fleet, kind, group))
        for kind, group in zip(fleet.nodes, _groups(fleet), strict=True)
    ]
    if fleet.maintenance:
        windows = sorted(fleet.maintenance, key=lambda window: window.from_s)
        lines.append(("Maintenance", _some([_window(each) for each in windows], "window")))
    if fleet.scale:
        lines.append(("Scaling", _some(_steps(fleet), "step")))
    return lines


def _counted(fleet: Fleet, kind: NodeKind) -> str:
    scaled = " at first" if fleet.steps_of(kind.name) else ""
    return f"{count(kind.count)} {kind.name}{scaled}"


def _kind(fleet: Fleet, kind: NodeKind, group: NodeGroup) -> str:
    said = []
    if len(fleet.nodes) > 1 and group.end > group.first:
        said.append(_numbers(range(group.first, group.end)))
    said.append(f"speed {kind.speed:g}")
    if any(each.price_per_hour for each in fleet.nodes):
        price = kind.price_per_hour
        said.append(f"price {price:.10g} an hour" if price else "free of charge")
    if kind.failures is not None:
        said += _failures(kind.failures, group.first)
    if kind.spot is not None:
        spot = kind.spot
        back = f"{span(spot.return_s)} later" if spot.return_s else "at once"
        said.append(
            f"spot: taken back every {span(spot.mean_time_between_s)} in the mean (exponential), "
            f"{without_or_with(spot.notice_s)}; another one comes {back}"
        )
    if kind.boot_s:
        said.append(f"a new one needs {span(kind.boot_s)} to boot")
    if kind.failures is None and kind.spot is None:
        said.append("no failures")
    return "; ".join(said)


def _failures(failures: NodeFailures, first: int) -> list[str]:
    said = []
    if failures.mean_time_between_s is not None:
        drawn: str = failures.distribution
        if drawn == "weibull":
            drawn = f"Weibull, shape {failures.shape:g}"
        repair = "back at once"
        if failures.repair_s:
            mean = " in the mean (exponential)" if failures.repair == "exponential" else ""
            repair = f"repaired in {span(failures.repair_s)}{mean}"
        said.append(
            f"each fails every {span(failures.mean_time_between_s)} in the mean ({drawn}), without "
            f"notice; {repair}"
        )
    if failures.outages:
        ordered = sorted(failures.outages, key=lambda outage: (outage.from_s, outage.node))
        shown = [f"node {first + each.node} {_from_to(each.from_s, each.to_s)}" for each in ordered]
        said.append(f"recorded outages: {_some(shown, 'outage', ', ')}")
    return said


def _window(window: Maintenance) -> str:
    if window.nodes:
        who = _numbers(window.nodes)
    else:
        who = "all nodes" if window.kind is None else f"all {window.kind} nodes"
    return f"{_from_to(window.from_s, window.to_s)}: {who}, {without_or_with(window.notice_s)}"


def _from_to(from_s: float, to_s: float) -> str:
    return f"from {span(from_s)} {'on' if to_s >= _FOR_EVER_S else f'to {span(to_s)}'}"


def _steps(fleet: Fleet) -> list[str]:
    """Return how the cluster grows and shrinks, in the order of time."""
    found: list[tuple[float, str]] = []
    for kind in fleet.nodes:
        before = kind.count
        for step in fleet.steps_of(kind.name):
            notice = f", {without_or_with(step.notice_s)}" if step.count < before else ""
            text = f"from {span(step.at_s)} on {count(step.count)} {kind.name}{notice}"
            found.append((step.at_s, text))
            before = step.count
    return [text for _, text in sorted(found, key=lambda each: each[0])]


def _some(texts: Sequence[str], noun: str, mark: str = "; ") -> str:
    """Join texts, and say how many there are beyond those that are shown."""
    left = len(texts) - LISTED
    more = [f"and {count(left)} more {noun}{'' if left == 1 else 's'}"] if left > 0 else []
    return mark.join([*texts[:LISTED], *more])


def _numbers(nodes: Sequence[int]) -> str:
    """Return numbers of nodes, neighbours together: `node 0`, `nodes 0 to 3 and 7`."""
    numbers = sorted(set(nodes))
    breaks = [place for place, (a, b) in enumerate(pairwise(numbers), 1) if b > a + 1]
    texts: list[str] = []
    for start, end in pairwise([0, *breaks, len(numbers)]):
        first, last = numbers[start], numbers[end - 1]
        together = last > first + 1
        texts += [f"{first} to {last}"] if together else [str(n) for n in numbers[start:end]]
    return f"node{'' if len(numbers) == 1 else 's'} {listing(texts)}"


def _rest(settings: Settings) -> list[tuple[str, str]]:
    fleet, lines = settings.cluster, []
    if fleet is not None and fleet.store is not None:
        store = fleet.store
        alone_s = store.checkpoint_mb / store.bandwidth_mb_per_s
        text = (
            f"one for all nodes, {store.bandwidth_mb_per_s:.10g} MB/s; a checkpoint of "
            f"{store.checkpoint_mb:.10g} MB takes {span(float(f'{alone_s:.3g}'))} alone, and saves "
            "and loads at one time divide the bandwidth equally"
        )
        lines.append(("Store", text))
    if fleet is not None and fleet.stragglers is not None:
        slow = fleet.stragglers
        text = (
            f"{100 * slow.probability:.10g} % of the starts of a worker are slow ones: training "
            f"takes {slow.slowdown:g} times as long"
        )
        lines.append(("Stragglers", text))
    return [
        *lines,
        ("Costs", _costs(settings)),
        ("Checkpoints", _checkpoints(settings)),
        ("Preemption", _preemption(settings)),
    ]


def _costs(settings: Settings) -> str:
    fleet = settings.cluster
    named = [("start", settings.start_s), ("save", settings.save_s), ("load", settings.load_s)]
    if fleet is not None:
        costs = fleet.costs
        named = [("start", costs.start_s), ("save", costs.save_s), ("load", costs.load_s)]
        named.append(("hand-over of a milestone", costs.hand_over_s))
    shown = [f"{name} {span(cost_s)}" for name, cost_s in named if cost_s > 0]
    stored = fleet is not None and fleet.store is not None
    if not shown:
        return "none beside the store's" if stored else "none: starts, saves and loads take no time"
    return ", ".join(shown) + (", beside the store's transfers" if stored else "")


def _checkpoints(settings: Settings) -> str:
    saving, fleet = parse_saving(settings.checkpoints), settings.cluster
    text = "at pauses, and where the scheduler needs donors"
    if saving.milestones:
        text = "after every milestone that has a score"
    if saving.kind in ("scheduler", "milestone"):
        return text
    save_s = settings.save_s if fleet is None else save_cost_s(fleet)
    every_us = saving.interval_us(save_s, None if fleet is None else between_losses_s(fleet))
    every_s = 0.0 if every_us is None else every_us / 1e6
    if saving.kind == "every":
        return f"{text}, and each trial that trains every {span(every_s)}"
    name = f"{saving.kind.title()}'s interval"
    if saving.seconds is not None:
        name += f" for losses {span(saving.seconds)} apart"
    return f"{text}, and each trial that trains every {span(float(f'{every_s:.4g}'))}: {name}"


def _preemption(settings: Settings) -> str:
    if settings.preemption == "lazy":
        return (
            "lazy: a paused trial keeps its node, unsaved, until another trial needs it; going on "
            "there is free"
        )
    return "eager: a paused trial is saved and leaves its node at once"


def drawn_anew(settings: Settings) -> list[str]:
    """Return what is drawn anew in each replication beside the trials, in words."""
    fleet = settings.cluster
    if fleet is None:
        return []
    lost = any(
        kind.spot is not None
        or (kind.failures is not None and kind.failures.mean_time_between_s is not None)
        for kind in fleet.nodes
    )
    slow = fleet.stragglers is not None and fleet.stragglers.probability > 0
    return ["the moments at which nodes are lost"] * lost + ["the workers that are slow"] * slow


def named(settings: Settings) -> str:
    """Return the name of the cluster file, or of a cluster that comes with simsched."""
    return settings.cluster_name or "as it was given"


def introduced(settings: Settings) -> str:
    """Return the sentence above the lines."""
    fleet = settings.cluster
    if fleet is None:
        return "What was simulated. No node was ever lost."
    nodes = plural(fleet.size, "node")
    most = " at most" if fleet.scale else ""
    return f"{named(settings)}: {nodes}{most}. What is not listed here was off."
