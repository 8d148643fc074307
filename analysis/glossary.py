"""What the words of tables and figures mean. Some kinds of time are named where nodes spent any."""

from collections.abc import Collection, Iterable

from simsched.analysis.wording import listing
from simsched.results import RunResult
from simsched.timeline import KINDS, NOT_OCCUPIED, Kind

USUAL: tuple[Kind, ...] = ("train", "start", "save", "load", "wait")
"""Kinds of time that a cluster on which nothing goes wrong knows, beside idle."""
_MEASURES = (
    ("wall time", "From the first start to the end of the last trial."),
    ("utilization", "Node time spent on training, of all time in service."),
    ("occupancy", ""),
    (
        "α, completion rate",
        "Training done, of what all trials would take at full length.",
    ),
    (
        "best score",
        "The best at any milestone. A score is the mean since the milestone before.",
    ),
    ("time to best", "When the best score of the search was reported."),
    (
        "preemptions",
        "How often a node was taken from an unfinished trial, to come back later or be dropped.",
    ),
    ("node-hours", "The nodes' time in service: what the cluster costs."),
    ("cost", "The nodes' time in service at their prices."),
    (
        "redo",
        "Node time spent on training again what was lost with a node, of all time in service.",
    ),
)
_KINDS: dict[Kind, str] = {
    "held": "A paused trial keeps its node, unsaved, until another trial needs it.",
    "grace": "It is known that the node will go, and it waits for that with nothing left to do.",
    "down": "The node is out of service: not paid for, and no part of the time in service.",
}
_MEASURED = (
    ("CPU use", "Of a node's cores, whoever kept them busy: 100 % is all of them."),
    ("GPU use", "Share of the time in which a node's whole GPU was busy, whoever shares it."),
    (
        "GPU memory",
        "Of the whole GPU; of the node's own worker where nodes share a GPU and that can be told.",
    ),
)
_OCCUPIED: dict[Kind, str] = {
    "train": "training",
    "redo": "training again what was lost (redo)",
    "start": "starts",
    "save": "saves",
    "load": "loads",
    "wait": "waiting",
    "held": "paused trials kept in place (held)",
    "grace": "nodes about to go (grace)",
}


def kinds_spent(runs: Iterable[RunResult]) -> set[Kind]:
    """Return the kinds of time that any node of the runs spent."""
    return {kind for run in runs for kind, spent_s in run.node_seconds.items() if spent_s > 0}


def explained(spent: Collection[Kind], *, measured: bool) -> list[tuple[str, str]]:
    """Return the words and their meaning, as HTML, where nodes spent these kinds of time."""
    occupancy = f"Node time that is not idle: {occupied(spent)}."
    if not set(spent) <= {*USUAL, "idle"}:
        occupancy = f"Node time that is not idle, of all time in service: {occupied(spent)}."
    words = [(word, text or occupancy) for word, text in _MEASURES]
    words += [(kind, _KINDS[kind]) for kind in KINDS if kind in _KINDS and kind in spent]
    return [*words, *(_MEASURED if measured else ())]


def occupied(spent: Collection[Kind], *, train: bool = True) -> str:
    """Return what nodes are occupied with: the usual kinds, and those of `spent`."""
    named = [
        _OCCUPIED[kind]
        for kind in KINDS
        if kind not in NOT_OCCUPIED and (kind in USUAL or kind in spent)
    ]
    return listing(named if train else named[1:])
