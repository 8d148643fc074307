"""The command that trains a trial: what could not be started, and how values get into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.live.command_line import check_command, fill
from simsched.live.errors import LiveError


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python {lrr}", "--command: {lrr} is no hyperparameter of the search space (did you "),
        ("python {} x", "--command: {} is no hyperparameter of the search space; it has: lr"),
        ("python {lr", "--command 'python {lr': a single '{'; write {name} for a hyperpar"),
        ("python lr}", "--command 'python lr}': a single '}'"),
        ("python 'x", '--command "python \'x": no closing quotation'),
        ("  ", "--command: it is empty; give a program"),
        ("{lr} x", "--command: the program '{lr}' must not depend on a hyperparameter"),
        ("no-such-program x", "--command: there is no program 'no-such-program' on the PATH"),
        ("./no-such x", "--command: there is no program './no-such' that can be run"),
    ],
)
def test_what_could_not_be_started(command: str, said: str) -> None:
    with pytest.raises(LiveError) as caught:
        check_command(command, ["lr", "units"])
    assert str(caught.value).startswith(said)


def test_values_stay_within_their_arguments() -> None:
    command = "sh -c 'echo {name} {{}}' --x={lr} \"{flag}\""
    assert fill(command, {"name": "a b; rm -rf '$x'", "lr": 1e-05, "flag": True}) == [
        "sh", "-c", "echo a b; rm -rf '$x' {}", "--x=1e-05", "true",
    ]  # fmt: skip


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_comes_through_whole(value: float) -> None:
    assert float(fill("sh {lr}", {"lr": value})[1]) == value
