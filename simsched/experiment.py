"""Files that people write to say what is searched: experiments (TOML), search spaces (TOML, JSON).

An experiment file serves `simsched simulate` and `simsched live`, so that one file is rehearsed
and then run:

    game = "MsPacman"               # what both commands have, by the names of their options
    workers = 16
    scheduler = "hyperband:eta=3"

    [simulate]                      # what concerns one command only; it wins over the above
    nodes = [2, 4, 8]

    [live]
    max-time = "2h"

    [training]                      # settings of GA3C
    preset = "fast"

    [search-space.learning_rate]
    type = "real"
    low = 1e-5
    high = 1e-2
    log = true
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from simsched.documents import Document, Keys, read_json, read_toml
from simsched.errors import SimschedError, nearest
from simsched.space import SearchSpace

SPACE_TABLE = "search-space"
ALIASES = {"schedulers": "scheduler"}
"""Other names of options."""
NAME = re.compile(r"\w[\w.-]*")
"""Names of hyperparameters."""
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""What msgspec calls kinds of values, and what people do."""


class WrittenSpace(NamedTuple):
    """A search space, and the file that it was read from."""

    space: SearchSpace
    document: Document
    around: Keys
    """The keys of the table that it stands in."""

    def refusal(self, name: str, reason: str) -> SimschedError:
        """Return the error that names the file and the line of a hyperparameter."""
        return self.document.refusal((*self.around, name), f"search space: {name}: {reason}")


def read_space(path: Path, label: str = "--search-space") -> WrittenSpace:
    """Read a search space from a TOML or JSON file: a table, or an object, per hyperparameter.

    Raises:
        SimschedError: the file, with the line that is wrong and what would be right.
    """
    readers = {".toml": read_toml, ".json": read_json}
    if path.suffix.lower() not in readers:
        raise SimschedError(f"{label} {path}: the suffix must be .toml or .json")
    document = readers[path.suffix.lower()](path, label)
    return space_in(document, document.data, ())


def space_in(document: Document, table: Mapping[str, Any], around: Keys) -> WrittenSpace:
    """Return the search space in a table of a document; `around` are the keys of that table.

    Raises:
        SimschedError: with file and line.
    """
    if not table:
        raise document.refusal(around, "the search space is empty; give a hyperparameter at least")
    for name, fields in table.items():
        if not isinstance(fields, dict):
            raise document.refusal(
                (*around, name),
                f"search space: {name}: it must be a table like "
                '{type = "real", low = 1e-5, high = 1e-2, log = true}',
            )
        if not NAME.fullmatch(name):
            raise document.refusal(
                (*around, name),
                f"search space: {name!r}: a name has letters, digits and _ . - only",
            )
        try:
            SearchSpace.from_json({name: fields})
        except SimschedError as error:
            field = _field_named(str(error), fields)
            keys = (*around, name) if field is None else (*around, name, field)
            raise document.refusal(keys, _in_words(str(error))) from None
    return WrittenSpace(SearchSpace.from_json(table), document, around)


def _field_named(reason: str, fields: Mapping[str, Any]) -> str | None:
    """Return the field of a hyperparameter that a reason is about, if it names one."""
    said = reason.split(": ", 2)[-1]
    for sign in ("unknown key '{}'", "`$.{}", "{}"):
        found = {
            match.start(): field
            for field in fields
            if (match := re.search(rf"(?<!\w){re.escape(sign.format(field))}(?!\w)", said))
        }
        if found:
            return found[min(found)]
    return None


def _in_words(reason: str) -> str:
    """Return msgspec's "Expected `float`, got `str` - at `$.low`" as people say it."""
    if match := re.fullmatch(r"(.*: )Object missing required field `(\w+)`.*", reason):
        return f"{match[1]}{match[2]} is missing"
    match = re.fullmatch(r"(.*: )Expected `(.*)`, got `(\w+)` - at `\$\.(\w+)(\[.*)?`", reason)
    if match is None:
        return reason
    start, wanted, got, field, item = match.groups()
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in wanted.split(" | "))
    place = f"an item of {field}" if item else field
    return f"{start}{place} must be {wanted}, not {_KINDS.get(got, got)}"


class Entry(NamedTuple):
    """A value of an experiment file."""

    key: str
    """As the file spells it."""
    value: Any
    table: str
    """The table that it stands in; "" for what both commands share."""

    @property
    def keys(self) -> Keys:
        """Where it is in the file."""
        return (self.table, self.key) if self.table else (self.key,)


class Experiment(NamedTuple):
    """A read experiment file; entries go by the names of options, with _ for -."""

    document: Document
    tables: dict[str, dict[str, Entry]]
    """"" has what both commands share, the others what stands in their tables."""
    space: WrittenSpace | None

    def refusal(self, entry: Entry, reason: str) -> SimschedError:
        """Return the error that names file, line and key."""
        return self.document.refusal(entry.keys, f"{entry.key}: {reason}")

    def of(self, command: str) -> dict[str, Entry]:
        """Return a command's entries: the shared ones, and its table's, which win."""
        return {**self.tables[""], **self.tables[command]}


def read_experiment(path: Path, known: Mapping[str, Collection[str]]) -> Experiment:
    """Read an experiment file.

    Args:
        path: the file.
        known: names that may stand in each table; those of "" are what both commands share.

    Returns its entries, whose names are known; of the values nothing is checked but the search
    space.

    Raises:
        SimschedError: with file and line, and the nearest name for an unknown one.
    """
    document = read_toml(path, "--config")
    tables: dict[str, dict[str, Entry]] = {name: {} for name in known}
    space = None
    for key, value in document.data.items():
        if key in known and key:
            if not isinstance(value, dict):
                raise document.refusal((key,), f"{key}: it must be a table: [{key}]")
            for inner, setting in value.items():
                _take(document, tables, Entry(inner, setting, key), known)
        elif key.replace("_", "-") == SPACE_TABLE:
            if not isinstance(value, dict):
                reason = f"it must have a table per hyperparameter: [{SPACE_TABLE}.NAME]"
                raise document.refusal((key,), f"{key}: {reason}")
            if space is not None:
                raise document.refusal((key,), f"{key}: is given already")
            space = space_in(document, value, (key,))
        elif isinstance(value, dict) and any(_among(key, names) for names in known.values()):
            raise document.refusal((key,), f"{key}: it must be a value, not a table")
        elif isinstance(value, dict):
            names = [*filter(None, known), SPACE_TABLE]
            raise document.refusal(
                (key,),
                f"[{key}] is no table of an experiment{nearest(key, names)}; "
                f"there are: {', '.join(names)}",
            )
        else:
            _take(document, tables, Entry(key, value, ""), known)
    return Experiment(document, tables, space)


def _take(
    document: Document,
    tables: dict[str, dict[str, Entry]],
    entry: Entry,
    known: Mapping[str, Collection[str]],
) -> None:
    """Put an entry into its table. Raises SimschedError for a name that is not known there."""
    name = canonical(entry.key)
    if not _among(entry.key, known[entry.table]):
        raise document.refusal(entry.keys, _unknown(entry, known))
    if (before := tables[entry.table].get(name)) is not None:
        raise document.refusal(
            entry.keys, f"{entry.key}: the same as {before.key}, which is given already"
        )
    tables[entry.table][name] = entry


def canonical(key: str) -> str:
    """Return the name of the option that a key means."""
    name = key.replace("-", "_")
    return ALIASES.get(name, name)


def _among(key: str, names: Collection[str]) -> bool:
    return canonical(key) in map(canonical, names)


def _unknown(entry: Entry, known: Mapping[str, Collection[str]]) -> str:
    key, name = entry.key, canonical(entry.key)
    if name == canonical(SPACE_TABLE):
        return f"{key}: a search space is a table of its own: [{SPACE_TABLE}.NAME]"
    homes = [table for table, names in known.items() if _among(key, names)]
    if "" in homes:
        return f"{key}: belongs to the top of the file, before the first table"
    if homes:
        return f"{key}: belongs in {' or '.join(f'[{home}]' for home in homes)}"
    here = f" in [{entry.table}]" if entry.table else ""
    if hint := nearest(key, sorted(known[entry.table])):
        return f"{key}: is not known{here}{hint}"
    for table, names in known.items():
        if hint := nearest(key, sorted(names)):
            place = f" in [{table}]" if table else " at the top of the file"
            return f"{key}: is not known{here}{hint.replace('?)', f'{place}?)')}"
    return f"{key}: is not known{here}; there are: {', '.join(sorted(known[entry.table]))}"
