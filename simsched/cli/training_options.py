"""Options for GA3C's settings: the settings' own names, docstrings and defaults."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

import click
import msgspec

from simsched.errors import nearest
from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import PRESETS, Settings

OWN = ("game", "seed", "trial")
"""Settings that the commands have options of their own for."""

SECTIONS = {
    "algorithm": "Algorithm",
    "agents": "Parts",
    "preprocessing": "Game and network",
    "device": "Machine",
}
"""The first setting of each section of the help."""


def descriptions() -> dict[str, str]:
    """Return what each setting means: the text under its field, in one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body[0]
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 - told to the type checker
    found: dict[str, str] = {}
    name = ""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name] = " ".join(str(node.value.value).split())
            name = ""
    return found


def parse(name: str, text: str) -> Any:
    """Return the value of a setting that is written as text.

    Raises:
        LiveError: no such setting, or not of its kind; the message says what would be right.
    """
    hints = get_type_hints(Settings)
    known = [key for key in hints if key not in OWN]
    if name not in known:
        raise LiveError(f"{name}: is no setting{nearest(name, known)}; see simsched train --help")
    kind = hints[name]
    if choices := get_args(kind):
        if text not in choices:
            hint = nearest(text, list(choices))
            raise LiveError(f"{name}: {text!r} is none of {', '.join(choices)}{hint}")
        return text
    try:
        # Python's own readings: they know .5 and 1e-3.
        return kind(text) if kind in (int, float) else msgspec.convert(text, kind, strict=False)
    except ValueError as error:
        wanted = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise LiveError(f"{name}: {text!r} must be {wanted}") from error


def parse_all(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings written as NAME=VALUE; LiveError as `parse`."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise LiveError(f"--set {pair}: must be NAME=VALUE, for example --set agents=16")
        found[name.strip().replace("-", "_")] = parse(name.strip().replace("-", "_"), text.strip())
    return found


def setting_options(preset: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds an option for each setting, with this preset's defaults."""
    texts, hints = descriptions(), get_type_hints(Settings)
    defaults = {**msgspec.structs.asdict(Settings(game="")), **PRESETS[preset]}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed([key for key in hints if key not in OWN]):
            choices = get_args(hints[name])
            metavar = "|".join(choices) or {int: "N", float: "X", bool: "true|false"}.get(
                hints[name], "TEXT"
            )
            default = str(defaults[name]).lower() if hints[name] is bool else defaults[name]
            option = click.option(
                f"--{name.replace('_', '-')}",
                name,
                metavar=metavar,
                help=f"{texts[name]}  [default: {default}]",
            )
            command = option(command)
        return command

    return decorate


def chosen(preset: str, options: Mapping[str, str | None]) -> dict[str, Any]:
    """Return a preset's settings with those options that were given."""
    given = {name: parse(name, text) for name, text in options.items() if text is not None}
    return {**PRESETS[preset], **given}
