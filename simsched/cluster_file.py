"""Cluster files: what a cluster is made of and what goes wrong there, in TOML (docs/cluster.md)."""

import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from simsched.cluster import Fleet, Maintenance
from simsched.documents import Document, read_toml
from simsched.errors import SimschedError, nearest

_KINDS = {"float": "a number", "int": "a whole number", "str": "text", "array": "a list",
          "object": "a table", "bool": "true or false", "null": "nothing"}  # fmt: skip


def presets() -> dict[str, str]:
    """Return the clusters that come with simsched: name and what the file says of itself."""
    found = {}
    for entry in sorted(files("simsched.clusters").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            first = entry.read_text("utf-8").partition("\n")[0]
            found[entry.name.removesuffix(".toml")] = first.lstrip("# ")
    return found


def read_cluster(name: str, label: str = "--cluster") -> Fleet:
    """Read a cluster file, or one that comes with simsched, by its name.

    Raises:
        SimschedError: file, line, key and value, and what would be right.
    """
    known = presets()
    if name in known and not Path(name).exists():
        return _fleet(read_toml(Path(str(files("simsched.clusters") / f"{name}.toml"))))
    path = Path(name)
    if path.suffix != ".toml":
        raise SimschedError(
            f"{label} {name}: is neither a .toml file nor one of {', '.join(known)}"
            f"{nearest(name, list(known))}"
        )
    return _fleet(read_toml(path, label))


def _fleet(document: Document) -> Fleet:
    try:
        fleet = msgspec.convert(document.data, Fleet)
    except msgspec.ValidationError as error:
        raise _refusal(document, str(error)) from None
    _check(document, fleet)
    return fleet


def _refusal(document: Document, said: str) -> SimschedError:
    """Return msgspec's "Expected `float`, got `str` - at `$.nodes[0].speed`" in words."""
    reason, _, path = said.partition(" - at `$")
    keys = re.findall(r"\w+", path)
    place = _named(path.rstrip("`"))
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", reason):
        known = _fields(keys)
        keys.append(match[1])
        reason = f"{match[1]}: is not known{place}{nearest(match[1], known)}; "
        return document.refusal(keys, f"{reason}there are: {', '.join(known)}")
    if match := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return document.refusal(keys, f"{match[1]} is missing{place}")
    if match := re.fullmatch(r"Expected `(.*)`, got `(\w+)`", reason):
        wanted = " or ".join(_KINDS.get(kind, kind) for kind in match[1].split(" | "))
        key = keys[-1] if keys else "the file"
        reason = f"{key}: must be {wanted}, not {_KINDS.get(match[2], match[2])}"
    elif match := re.fullmatch(r"Invalid enum value (.*)", reason):
        reason = f"{keys[-1]}: {match[1]} is not known"
    elif (field := reason.partition(":")[0]).isidentifier():
        keys.append(field)
    return document.refusal(keys, reason)


def _named(path: str) -> str:
    """Return " in [[nodes]] 2" for ".nodes[1]"."""
    if not path:
        return ""
    spoken = re.sub(r"\[(\d+)\]", lambda match: f" {int(match[1]) + 1}", path.lstrip("."))
    return f" in {spoken}"


def _fields(keys: list[str]) -> list[str]:
    """Return the names that a table may have."""
    kind: Any = Fleet
    for key in keys:
        if key.isdigit():
            continue
        hint = {field.name: field.type for field in msgspec.structs.fields(kind)}[key]
        inner = [hint, *getattr(hint, "__args__", ())]
        kind = next(t for t in inner if isinstance(t, type) and issubclass(t, msgspec.Struct))
    return [field.name for field in msgspec.structs.fields(kind)]


def _check(document: Document, fleet: Fleet) -> None:
    """Refuse what each table by itself cannot know."""
    names = [kind.name for kind in fleet.nodes]
    for k, name in enumerate(names):
        if name in names[:k]:
            raise document.refusal(("nodes", str(k), "name"), f"name: {name!r} is given twice")
    for k, step in enumerate(fleet.scale):
        _check_kind(document, ("scale", str(k)), step.kind, names, alone=len(names) == 1)
    for k, kind in enumerate(fleet.nodes):
        recorded = () if kind.failures is None else kind.failures.outages
        for i, outage in enumerate(recorded):
            if outage.node >= fleet.most(kind):
                raise document.refusal(
                    ("nodes", str(k), "failures", "outages", str(i), "node"),
                    f"node: {outage.node} is none of the {fleet.most(kind)} nodes of {kind.name!r}",
                )
    if fleet.size < 1 or (all(kind.count == 0 for kind in fleet.nodes) and not fleet.scale):
        raise document.refusal(("nodes",), "nodes: there is none; count must be at least 1")
    for k, window in enumerate(fleet.maintenance):
        if window.kind is not None:
            _check_kind(document, ("maintenance", str(k)), window.kind, names, alone=False)
        for node in window.nodes:
            if not 0 <= node < fleet.size:
                raise document.refusal(
                    ("maintenance", str(k), "nodes"),
                    f"nodes: {node} is none of the {fleet.size} nodes, 0 to {fleet.size - 1}",
                )
    _check_windows(document, fleet)


def _check_kind(
    document: Document, keys: tuple[str, ...], kind: str | None, names: list[str], *, alone: bool
) -> None:
    if kind is None and alone:
        return
    if kind is None:
        raise document.refusal(keys, f"kind is missing; there are: {', '.join(names)}")
    if kind not in names:
        raise document.refusal(
            (*keys, "kind"),
            f"kind: {kind!r} is no kind of node{nearest(kind, names)}; there are: "
            f"{', '.join(names)}",
        )


def _check_windows(document: Document, fleet: Fleet) -> None:
    """Refuse maintenance windows of a node that overlap, and two sizes at one moment."""
    for node in range(fleet.size):
        kind, _ = fleet.kind_of(node)
        of_it = [(w.from_s, k, w) for k, w in enumerate(fleet.maintenance)
                 if w.concerns(kind.name, node)]  # fmt: skip
        for (_, _, before), (_, k, after) in pairwise(sorted(of_it, key=lambda one: one[:2])):
            if after.from_s < before.to_s:
                raise document.refusal(
                    ("maintenance", str(k), "from_s"),
                    f"from_s: {after.from_s:g} overlaps {_window(before)} of node {node}",
                )
    for kind in fleet.nodes:
        for step, later in pairwise(fleet.steps_of(kind.name)):
            if step.at_s == later.at_s:
                raise document.refusal(
                    ("scale",), f"at_s: {later.at_s:g} is given twice for {kind.name!r}"
                )


def _window(window: Maintenance) -> str:
    return f"the window {window.from_s:g} to {window.to_s:g}"
