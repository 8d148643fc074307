"""On which line of a TOML file a key stands, beside trying every line in turn."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.documents import Keys, toml_line

STATEMENTS = st.sampled_from([
    "", "# a note", "[table]", "[[row]]", "[[row.inner]]", "[table.sub]",
    "a = 1", "b = [", "  1,", "  2,", "]", "c = [\n  {x = 1},\n  {y = 2},\n]",
    'd = """\nkey = 1\n[no]\n"""', "e.f = 3", "  g = 'x'", "h = [1,\n\n2 # [\n]",
])  # fmt: skip


def naive(text: str, keys: Keys) -> int | None:
    lines, whole = text.split("\n"), 0
    for end in range(1, len(lines) + 1):
        try:
            data: Any = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for key in keys:
            inside = isinstance(data, dict) and key in data
            if not inside and not (isinstance(data, list) and int(key) < len(data)):
                break
            data = data[key if inside else int(key)]
        else:
            return whole + 1
        whole = end
    return None


def paths(data: Any, before: Keys = ()) -> list[Keys]:
    if isinstance(data, dict):
        under = list(data.items())
    else:
        under = [(str(k), each) for k, each in enumerate(data)] if isinstance(data, list) else []
    return [before, *(p for key, value in under for p in paths(value, (*before, key)))]


@given(st.lists(STATEMENTS, max_size=14, unique=True).map("\n".join))
def test_it_is_where_the_first_whole_file_with_the_key_ends(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    for keys in paths(data)[1:]:
        assert toml_line(text, keys) == naive(text, keys), keys
    assert toml_line(text, ("nowhere",)) is None


def test_a_long_file_is_not_read_once_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    read, loads = 0, tomllib.loads

    def counted(text: str) -> Any:
        nonlocal read
        read += 1
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    row = "[[nodes.failures.outages]]\nnode = {}\nfrom_s = {}\nto_s = {}\n"
    rows = [row.format(k % 9, 9 * k, 9 * k + 5) for k in range(1000)]
    text = "[[nodes]]\ncount = 9\n" + "".join(rows)
    place = ("nodes", "0", "failures", "outages", "700", "to_s")
    assert toml_line(text, place) == 2 + 4 * 700 + 4
    assert read < 40
    table = "outages = [\n" + "  {node = 0},\n" * 1000 + "]\nlast = 1"
    assert toml_line(f"[nodes.failures]\n{table}", ("nodes", "failures", "last")) == 1004
    assert read < 60
