"""The command that trains a trial, as users write it: {name} stands for a hyperparameter.

    python train.py --lr {learning_rate} --out run-{{1}}

is split into arguments as a shell would split it, but no shell ever sees it: a value cannot
become anything but a part of its argument. Two braces stand for one.
"""

import re
import shlex
import shutil
from collections.abc import Collection, Iterator

from simsched.errors import nearest
from simsched.live.errors import LiveError
from simsched.messages import Hparams, HparamValue

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def check_command(command: str, names: Collection[str]) -> None:
    """Refuse a command that could not be started for a trial.

    Args:
        command: as the user wrote it.
        names: the hyperparameters.

    Raises:
        LiveError: it cannot be split, names no hyperparameter, or its program is not there.
    """
    arguments = _split(command)
    for argument in arguments:
        for name in _placeholders(command, argument):
            if name not in names:
                raise LiveError(
                    f"--command: {{{name}}} is no hyperparameter of the search space"
                    f"{nearest(name, sorted(names))}; it has: {', '.join(names)}"
                )
    program = arguments[0]
    if "{" in program:
        raise LiveError(f"--command: the program {program!r} must not depend on a hyperparameter")
    if shutil.which(program) is None:
        where = "" if "/" in program else " on the PATH"
        raise LiveError(f"--command: there is no program {program!r}{where} that can be run")


def fill(command: str, hparams: Hparams) -> list[str]:
    """Return the arguments of a trial's process, the program first.

    Args:
        command: one that `check_command` has passed.
        hparams: the trial's.
    """

    def value(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else text_of(hparams[match[1]])

    return [_BRACES.sub(value, argument) for argument in _split(command)]


def text_of(value: HparamValue) -> str:
    """Return a value as an argument: a float with all its digits, true and false in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(command: str) -> list[str]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise LiveError(f"--command {command!r}: {str(error).lower()}") from None
    if not arguments:
        raise LiveError("--command: it is empty; give a program, for example 'python train.py'")
    return arguments


def _placeholders(command: str, argument: str) -> Iterator[str]:
    for match in _BRACES.finditer(argument):
        if match[1] is not None:
            yield match[1]
        elif len(match[0]) == 1:
            raise LiveError(
                f"--command {command!r}: a single {match[0]!r}; write {{name}} for a "
                f"hyperparameter, {match[0] * 2} for the brace itself"
            )
