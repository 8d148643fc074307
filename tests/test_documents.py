"""TOML and JSON files: the line of every key."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.documents import json_line, read_json, read_toml, toml_line
from simsched.errors import SimschedError

NASTY = '''# [live]
"a key" = """
[live]
nodes = 3
"""
list = [ # nodes = 4
  1, 2,
]
deep.er.still = 1

[live] # ]
nodes = 5
[[many]]
x = 1
[[many]]
[training]
'quoted' = "nodes = 9"
'''


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("a key",), 2),
        (("list",), 6),
        (("deep",), 9),
        (("deep", "er", "still"), 9),
        (("live",), 11),
        (("live", "nodes"), 12),
        (("training", "quoted"), 17),
        (("nodes",), None),
        (("list", "x"), None),
    ],
)
def test_lines_of_keys_in_toml(keys: tuple[str, ...], line: int | None) -> None:
    assert toml_line(NASTY, keys) == line


@given(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1), st.data())
def test_lines_of_keys_are_true(names: list[str], data: st.DataObject) -> None:
    """Keys with values of several lines, comments and blank lines between them."""
    lines: list[str] = []
    true: dict[str, int] = {}
    for name in names:
        lines += data.draw(st.lists(st.sampled_from(["", "# x", "  # a = 1"]), max_size=2))
        true[name] = len(lines) + 1
        value = data.draw(st.sampled_from(["1", "[\n1,\n2]", '"""\na = 1\n"""', "{b = 1}"]))
        lines += f"{name} = {value}".split("\n")
    text = "\n".join(lines)
    assert {name: toml_line(text, (name,)) for name in names} == true


def test_lines_of_keys_in_json() -> None:
    text = '{\n "low": {"x": 1},\n "lr": {\n  "type": "low",\n  "low": 3}}'
    assert json_line(text, ("lr", "low")) == 5
    assert json_line(text, ("low",)) == 2
    assert json_line(text, ("nope",)) is None


def test_windows_line_ends_and_a_mark_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n\r\nb = 2\r\n")
    document = read_toml(path)
    assert document.data == {"a": 1, "b": 2}
    assert str(document.refusal(("b",), "no")) == f"{path}: line 3: no"


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a":' * 200_000)
    with pytest.raises(SimschedError, match="nested too deeply"):
        read_json(path)
