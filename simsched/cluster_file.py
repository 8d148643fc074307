"""Cluster files: what a cluster is made of and what goes wrong there, in TOML (docs/cluster.md)."""

import re
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec

from simsched.cluster import MOST_NODES, Fleet, Maintenance, NodeKind
from simsched.documents import Document, read_toml
from simsched.errors import SimschedError, nearest

_KINDS = {"float": "a number", "int": "a whole number", "str": "text", "array": "a list",
          "object": "a table", "bool": "true or false"}  # fmt: skip
LONGEST_QUOTE = 40


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
    if name in known:
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
    place = _named(keys)
    if match := re.fullmatch(r"(?s)Object contains unknown field `(.*)`", reason):
        known = [field.name for field in msgspec.structs.fields(_table(_type(keys)))]
        name = match[1] if match[1].isprintable() else repr(match[1])
        reason = f"{name}: is not known{place}{nearest(name, known)}; there are: {', '.join(known)}"
        if not keys and name in ("failures", "spot"):
            reason = f"{name}: belongs to a kind of node; write [nodes.{name}] below its [[nodes]]"
        return document.refusal([*keys, match[1]], reason)
    if match := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return document.refusal(keys, f"{match[1]} is missing{place}")
    if match := re.fullmatch(r"Expected `(.*)`, got `\w+`", reason):
        reason = _wrong_type(document, keys, match[1])
    elif match := re.fullmatch(r"Invalid enum value (.*)", reason):
        known = [name for kind in _parts(_type(keys)) for name in get_args(kind)]
        reason = f"{keys[-1]}: {match[1]} is not known{nearest(match[1].strip(chr(39)), known)}; "
        reason += f"there are: {', '.join(known)}"
    elif (field := reason.partition(":")[0]).isidentifier():
        keys.append(field)
    return document.refusal(keys, reason)


def _wrong_type(document: Document, keys: list[str], expected: str) -> str:
    """Return what is wrong with a value, and what it must be."""
    value: Any = document.data
    for key in keys:
        value = value[int(key)] if isinstance(value, list) else value[key]
    name = f"{keys[-2]} {int(keys[-1]) + 1}" if keys[-1].isdigit() else keys[-1]
    wanted = [_KINDS.get(kind, kind) for kind in expected.split(" | ") if kind != "null"]
    header = keys[0] if len(keys) == 1 else f"nodes.{keys[-1]}"
    if isinstance(value, dict) and wanted == ["a list"]:
        return f"{name}: write [[{header}]], a table for each"
    if isinstance(value, list) and wanted == ["a table"]:
        return f"{name}: write [{header}], one table"
    return f"{name}: {_shown(value)} must be {' or '.join(wanted)}"


def _shown(value: object) -> str:
    """Return a value of the file as an error message names it: short."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    shown = repr(value) if isinstance(value, str | int | float) else str(value)
    return shown if len(shown) <= LONGEST_QUOTE else f"{shown[: LONGEST_QUOTE - 1]}…"


def _named(keys: Sequence[str]) -> str:
    """Return " in spot of nodes 2" for nodes, 1, spot."""
    spoken: list[str] = []
    for key in keys:
        if key.isdigit():
            spoken[0] += f" {int(key) + 1}"
        else:
            spoken.insert(0, key)
    return f" in {' of '.join(spoken)}" if spoken else ""


def _type(keys: Sequence[str]) -> Any:
    """Return the type of what stands somewhere in a file."""
    kind: Any = Fleet
    for key in keys:
        if not key.isdigit():
            fields = msgspec.structs.fields(_table(kind))
            kind = next(field.type for field in fields if field.name == key)
    return kind


def _parts(kind: Any) -> list[Any]:
    """Return a type and those that it is made of."""
    return [kind, *get_args(kind)]


def _table(kind: Any) -> Any:
    """Return the table that a type is, or is made of."""
    return next(t for t in _parts(kind) if isinstance(t, type) and issubclass(t, msgspec.Struct))


def _check(document: Document, fleet: Fleet) -> None:
    """Refuse what each table by itself cannot know."""
    names = [kind.name for kind in fleet.nodes]
    for k, name in enumerate(names):
        if name in names[:k]:
            if "name" not in document.data["nodes"][k]:
                raise document.refusal(
                    ("nodes", str(k)),
                    f"name is missing in nodes {k + 1}: kinds need different ones",
                )
            raise document.refusal(("nodes", str(k), "name"), f"name: {name!r} is given twice")
    for k, step in enumerate(fleet.scale):
        _check_kind(document, ("scale", str(k)), step.kind, names, alone=len(names) == 1)
    if fleet.size < 1 or (all(kind.count == 0 for kind in fleet.nodes) and not fleet.scale):
        raise document.refusal(("nodes",), "nodes: there is none; count must be at least 1")
    if fleet.size > MOST_NODES:
        raise document.refusal(
            ("nodes",), f"nodes: {fleet.size:,} in all must be at most {MOST_NODES:,}"
        )
    for k, kind in enumerate(fleet.nodes):
        if kind.failures is not None:
            _check_outages(document, ("nodes", str(k), "failures", "outages"), fleet, kind)
    for k, window in enumerate(fleet.maintenance):
        _check_window(document, ("maintenance", str(k)), fleet, window)
    _check_overlap(document, fleet)


def _check_outages(document: Document, keys: tuple[str, ...], fleet: Fleet, kind: NodeKind) -> None:
    """Refuse recorded outages of nodes that there are not, and those that overlap."""
    assert kind.failures is not None  # noqa: S101 - told to the type checker
    recorded, most = kind.failures.outages, fleet.most(kind)
    for i, outage in enumerate(recorded):
        if outage.node >= most:
            raise document.refusal(
                (*keys, str(i), "node"),
                f"node: {outage.node} is none of the {most} nodes of {kind.name!r}",
            )
    order = sorted(range(len(recorded)), key=lambda i: (recorded[i].node, recorded[i].from_s))
    for i, later in pairwise(order):
        before, after = recorded[i], recorded[later]
        if after.node == before.node and after.from_s < before.to_s:
            raise document.refusal(
                (*keys, str(later), "from_s"),
                f"from_s: {after.from_s:g} overlaps the outage {before.from_s:g} to "
                f"{before.to_s:g} of node {after.node}",
            )


def _check_window(
    document: Document, keys: tuple[str, ...], fleet: Fleet, window: Maintenance
) -> None:
    """Refuse maintenance of nodes that there are not, or of none."""
    if window.kind is not None:
        names = [kind.name for kind in fleet.nodes]
        _check_kind(document, keys, window.kind, names, alone=False)
    if "nodes" in document.data[keys[0]][int(keys[1])] and not window.nodes:
        raise document.refusal(
            (*keys, "nodes"), "nodes: [] must name at least one; leave it out for all"
        )
    for node in window.nodes:
        if not 0 <= node < fleet.size:
            reason = f"{node} is none of the {fleet.size} nodes, 0 to {fleet.size - 1}"
        elif not window.concerns(fleet.kind_of(node)[0].name, node):
            reason = f"{node} is no {window.kind!r} but {fleet.kind_of(node)[0].name!r}"
        else:
            continue
        raise document.refusal((*keys, "nodes"), f"nodes: {reason}")


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


def _check_overlap(document: Document, fleet: Fleet) -> None:
    """Refuse maintenance windows of a node that overlap, and two sizes at one moment."""
    for node in range(fleet.size if len(fleet.maintenance) > 1 else 0):
        kind, _ = fleet.kind_of(node)
        of_it = [(w.from_s, k, w) for k, w in enumerate(fleet.maintenance)
                 if w.concerns(kind.name, node)]  # fmt: skip
        for (_, _, before), (_, k, after) in pairwise(sorted(of_it, key=lambda one: one[:2])):
            if after.from_s < before.to_s:
                raise document.refusal(
                    ("maintenance", str(k), "from_s"),
                    f"from_s: {after.from_s:g} overlaps {_window(before)} of node {node}",
                )
    seen: set[tuple[str | None, float]] = set()
    for k, step in enumerate(fleet.scale):
        name = fleet.nodes[0].name if step.kind is None else step.kind
        if (name, step.at_s) in seen:
            raise document.refusal(
                ("scale", str(k), "at_s"), f"at_s: {step.at_s:g} is given twice for {name!r}"
            )
        seen.add((name, step.at_s))


def _window(window: Maintenance) -> str:
    return f"the window {window.from_s:g} to {window.to_s:g}"
