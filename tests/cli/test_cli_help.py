"""The help: of every command, within 80 columns, with examples that work."""

import re
import shlex
from collections.abc import Callable, Iterator

import click
import pytest
from cli_curves import ladder
from cli_outcome import Outcome

from simsched.cli import COMMANDS, cli

Run = Callable[..., Outcome]


def every_command() -> Iterator[tuple[str, ...]]:
    """The words of each command, groups included."""
    yield ()
    context = click.Context(cli)
    for name in cli.list_commands(context):
        yield (name,)
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((name, inner) for inner in command.commands)


def command_at(words: tuple[str, ...]) -> click.Command:
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


def examples(text: str) -> list[list[str]]:
    """The words of the commands at the end of a help text; a backslash goes on."""
    shown = text.partition("Examples:\n")[2].replace("\\\n", " ")
    return [shlex.split(line) for line in shown.splitlines() if line.strip()]


def test_every_command_is_found() -> None:
    found = set(every_command())
    assert {(name,) for name in COMMANDS} | {("traces", "validate")} < found


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_help_fits_80_columns_and_has_examples(simsched: Run, words: tuple[str, ...]) -> None:
    outcome = simsched(*words, "--help").good
    assert simsched(*words, "-h") == outcome
    assert outcome.out.startswith(f"Usage: {' '.join(('simsched', *words))} ")
    assert max(map(len, outcome.out.splitlines())) <= 80
    commands = (
        examples(outcome.out) if words else re.findall(r"^ {4}(simsched) ", outcome.out, re.M)
    )
    assert commands
    for command in commands:
        assert command[0] == "simsched" or not words


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_every_option_has_a_help_text(words: tuple[str, ...]) -> None:
    command = command_at(words)
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_every_default_is_shown(simsched: Run) -> None:
    """Each option says what holds without it, or is one that need not be given."""
    out = " ".join(simsched("simulate", "--help").good.out.split())
    options = dict(re.findall(r"(--[a-z-]+) [A-Z][^ ]* (.*?)(?= --[a-z]+[a-z-]* [A-Z]| -h,)", out))
    without = {name for name, text in options.items() if "[default: " not in text}
    assert len(options) == 24
    assert without == {
        "--traces", "--preemption-cost", "--cluster", "--costs-from", "--json", "--resample",
    }  # fmt: skip


def test_the_examples_of_simulate_work(simsched: Run) -> None:
    ladder("my.csv", trials=6, rows=9)
    commands = examples(simsched("simulate", "--help").good.out)
    assert len(commands) >= 5
    for program, *arguments in commands:
        assert program == "simsched"
        assert simsched(*arguments).good.out.startswith("scheduler  ")


def test_the_examples_of_schedulers_work(simsched: Run) -> None:
    commands = examples(simsched("schedulers", "--help").good.out)
    assert [words[1] for words in commands] == ["schedulers", "schedulers", "simulate"]
    for _, *arguments in commands:
        assert simsched(*arguments).good.out


def test_version(simsched: Run) -> None:
    assert re.fullmatch(r"simsched \d+\.\d+\.\d+\S*\n", simsched("--version").good.out)
