"""`--config FILE`: options of `simulate` and `live` from one experiment file.

Values of the file become defaults of the command's options, so that what is given on the
command line wins. Each is converted by the option's own type as it is read, whichever of the
two commands it is for, so that a file that one command takes is not refused by the other.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from simsched.cli.options import SpeedList, Text, WholeList, quoted
from simsched.errors import SimschedError
from simsched.experiment import SPACE_TABLE, Entry, Experiment, canonical, read_experiment

COMMANDS = ("simulate", "live")
TRAINING = "training"
NOT_IN_FILES = {"config", "resume", "dry_run", "set", "help", canonical(SPACE_TABLE)}
"""Options that have no place in an experiment file, or one of their own."""
NOT_SHARED = {"out", "json"}
IN_TRAINING = {"preset"}
"""Options of `live` that stand in the table of GA3C's settings."""
_KEY = "simsched.experiment"

Function = TypeVar("Function", bound=Callable[..., Any])


def config_option(command: str) -> Callable[[Function], Function]:
    """Return a decorator that adds `--config` to a command."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        del param
        if value is not None:
            _read(ctx, command, Path(value))

    return click.option(
        "--config",
        type=Text("FILE"),
        is_eager=True,
        expose_value=False,
        callback=read,
        help="A TOML file with values for these options, read by simulate and live alike; an "
        "option given here wins.  [default: none]",
    )


def experiment_of(ctx: click.Context) -> Experiment | None:
    """Return the experiment file that was read for a command; None without --config."""
    found: Experiment | None = ctx.meta.get(_KEY)
    return found


def in_file(name: str) -> bool:
    """Whether the value of the running command's parameter is from its experiment file."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.DEFAULT_MAP


def overruled(name: str, *rivals: str) -> bool:
    """Whether a parameter's value is from the file, and a rival of it on the command line."""
    ctx = click.get_current_context()
    given = (ctx.get_parameter_source(rival) for rival in rivals)
    return in_file(name) and ParameterSource.COMMANDLINE in given


def refuse_beside(option: str, *others: str) -> None:
    """Refuse options that say again what `option` says, where both were given.

    On the command line `option` wins over others in the file. The file's nodes are for live
    searches too, and stand beside a cluster there.

    Raises:
        click.UsageError, SimschedError: the latter with the file's line.
    """
    source = click.get_current_context().get_parameter_source
    not_given = (ParameterSource.DEFAULT, None)
    if source(option) in not_given:
        return
    for other in others:
        ignored = in_file(other) and (other == "nodes" or not in_file(option))
        if source(other) in not_given or ignored:
            continue
        names = [f"--{name.replace('_', '-')}" for name in (option, other)]
        reason = f"{names[0]} and {names[1]} exclude each other: leave one out"
        raise refusal(other, reason) or refusal(option, reason) or click.UsageError(reason)


def refusal(name: str, reason: str) -> SimschedError | None:
    """Return the error that names file and line of a parameter's value; None if not from there."""
    ctx = click.get_current_context()
    experiment = experiment_of(ctx)
    if experiment is None or not in_file(name):
        return None
    return experiment.refusal(ctx.meta[_KEY + ".entries"][name], reason)


def refuse_lists(ctx: click.Context) -> None:
    """Refuse an option of which the file has several values where the command takes one.

    Raises:
        SimschedError: none of them was chosen on the command line.
    """
    experiment = experiment_of(ctx)
    if experiment is None:
        return
    for name, entry in ctx.meta[_KEY + ".lists"].items():
        if ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
            option = canonical(entry.key).replace("_", "-")
            shown = ", ".join(map(str, entry.value))
            raise experiment.refusal(
                entry,
                f"several are given ({shown}), but simsched {ctx.info_name} takes one: choose it "
                f"with --{option}, or write {option} into [{ctx.info_name}]",
            )


def _read(ctx: click.Context, command: str, path: Path) -> None:
    """Read the file and make its values the command's defaults. Raises SimschedError."""
    options = {name: _options(name) for name in COMMANDS}
    known = _known(options)
    experiment = read_experiment(path, known)
    for other in COMMANDS:
        if other != command:
            for name, entry in experiment.tables[other].items():
                _convert(experiment, entry, options[other][name])
    _check_training(experiment)
    entries = experiment.of(command)
    if command == "live":
        entries |= {k: v for k, v in experiment.tables[TRAINING].items() if k in IN_TRAINING}
    values: dict[str, Any] = {}
    sources: dict[str, Entry] = {}
    lists: dict[str, Entry] = {}
    for name, entry in entries.items():
        param = options[command][name]
        assert param.name is not None  # noqa: S101 - told to the type checker
        value = _convert(experiment, entry, param)
        if value is None:
            lists[param.name] = entry
        else:
            values[param.name], sources[param.name] = value, entry
    ctx.default_map = {**(ctx.default_map or {}), **values}
    ctx.meta.update({_KEY: experiment, _KEY + ".entries": sources, _KEY + ".lists": lists})


def _options(command: str) -> dict[str, click.Option]:
    """Return the options of a command that a file may set, by their names with _ for -."""
    module = import_module(f"simsched.cli.{command}")
    found: click.Command = getattr(module, command)
    options = {
        canonical(param.opts[0].removeprefix("--")): param
        for param in found.params
        if isinstance(param, click.Option)
    }
    return {name: option for name, option in options.items() if name not in NOT_IN_FILES}


def _known(options: dict[str, dict[str, click.Option]]) -> dict[str, list[str]]:
    """Return the names that each table may have, as people write them."""
    from simsched.cli.training_options import OWN, descriptions

    shared = [name for name in options["live"] if name in options["simulate"]]
    known = {"": [name for name in shared if name not in NOT_SHARED]}
    for command in COMMANDS:
        known[command] = [name for name in options[command] if name not in IN_TRAINING]
    for names in known.values():
        names[:] = [name.replace("_", "-") for name in names]
        names.extend(["schedulers"] * ("scheduler" in names))
    known[TRAINING] = [*sorted(IN_TRAINING), *(n for n in descriptions() if n not in OWN)]
    return known


def _convert(experiment: Experiment, entry: Entry, option: click.Option) -> Any:
    """Return a value of the file as its option's type has it; None for a list where one is wanted.

    Raises:
        SimschedError: it is not of that type.
    """
    value = entry.value
    if option.is_flag:
        if not isinstance(value, bool):
            raise experiment.refusal(entry, f"{_shown(value)} must be true or false")
        return value
    items = value if isinstance(value, list) else [value]
    if not items:
        raise experiment.refusal(entry, "[] must have a value at least")
    texts = [_text(experiment, entry, item) for item in items]
    takes_list = isinstance(option.type, WholeList | SpeedList)
    whole = [",".join(texts)] if takes_list else texts
    converted = [_typed(experiment, entry, option, text) for text in whole]
    if canonical(entry.key) == "scheduler":
        _check_schedulers(experiment, entry, texts)
    if option.multiple:
        return tuple(converted)
    return converted[0] if len(converted) == 1 else None


def _typed(experiment: Experiment, entry: Entry, option: click.Option, text: str) -> Any:
    try:
        return option.type.convert(text, option, None)
    except click.BadParameter as error:
        raise experiment.refusal(entry, error.message.rstrip(".")) from None


def _text(experiment: Experiment, entry: Entry, value: object) -> str:
    """Return a number or text as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise experiment.refusal(entry, f"{_shown(value)} must be a number or text")
    return str(value)


def _shown(value: object) -> str:
    """Return a value of the file as an error message names it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return quoted(value)


def _check_schedulers(experiment: Experiment, entry: Entry, texts: list[str]) -> None:
    from simsched.schedulers import parse

    for text in texts:
        try:
            parse("".join(text.split()))
        except SimschedError as error:
            raise experiment.refusal(entry, str(error)) from None


def _check_training(experiment: Experiment) -> None:
    """Refuse settings of GA3C that are not of their kind. Raises SimschedError."""
    preset = experiment.tables[TRAINING].get("preset")
    if preset is not None:
        _convert(experiment, preset, _options("live")["preset"])
    training_of(experiment)


def training_of(experiment: Experiment) -> dict[str, Any]:
    """Return the file's settings of GA3C. Raises SimschedError, with the line."""
    from simsched.cli.training_options import parse

    found: dict[str, Any] = {}
    for name, entry in experiment.tables[TRAINING].items():
        if name in IN_TRAINING:
            continue
        flag = isinstance(entry.value, bool)
        text = _shown(entry.value) if flag else _text(experiment, entry, entry.value)
        try:
            found[name] = parse(name, text)
        except SimschedError as error:
            raise experiment.refusal(entry, str(error).removeprefix(f"{name}: ")) from None
    return found
