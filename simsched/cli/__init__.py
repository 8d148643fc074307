"""The command line. Each command's file is imported only when that command is used."""

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from simsched._version import __version__
from simsched.errors import nearest

COMMANDS = {
    "simulate": ("simulate", "Rehearse a search on a simulated cluster and compare schedulers."),
    "live": ("live", "Run a search for real on this machine."),
    "replay": ("replay", "Simulate a live run again and compare prediction and reality."),
    "play": ("play", "Show the agent that a run trained, as a video or in a window."),
    "schedulers": ("schedulers", "List the schedulers, or explain one with its formulas."),
    "traces": ("traces", "List, show, check, import or synthesize learning curves."),
    "train": ("train", "Train one agent with GA3C."),
    "record": ("record", "Train trials for real and record their learning curves."),
    "nodes": ("nodes", "Show the nodes that a live search would use."),
}
"""Name: the module that holds the command under that name, and its line in the help."""

HELP_NAMES = ["-h", "--help"]

USERS_ERRORS = {
    "simsched.errors": "SimschedError",
    "simsched.traces.format": "TraceError",
    "simsched.analysis.statistics": "AnalysisError",
    "simsched.live.errors": "LiveError",
}
"""Errors whose text is one line for people, by the module that defines them."""


class LazyGroup(click.Group):
    """A group that imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of use."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"simsched.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        # Click remembers a command's help option as its first context has it.
        command.context_settings.setdefault("help_option_names", HELP_NAMES)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with. Raises UsageError, naming the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(
                f"there is no command {name!r}{nearest(name, list(COMMANDS))}; "
                f"there are: {', '.join(COMMANDS)}",
                ctx,
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Ctrl-C becomes Abort, so that all of it is told in `main`."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": HELP_NAMES, "max_content_width": 100},
    epilog="See `simsched COMMAND --help` for a command's options, with examples.",
)
@click.version_option(__version__, message="simsched %(version)s")
def cli() -> None:
    """Rehearse a hyperparameter search before you pay for it.

    Replays recorded learning curves through real early-stopping schedulers on a simulated
    cluster, and compares wall time, node utilization and the cost of preemption.

    \b
      simsched simulate --nodes 6 --workers 16
      simsched schedulers hypertrick
      simsched traces list
    """


def main() -> None:
    """Run the command line: errors are one line, wrong input exits with 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show an alpha
    try:
        status = cli.main(prog_name="simsched", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = 2
    except click.ClickException as error:
        status = _complain(_with_place(error))
    except (click.Abort, KeyboardInterrupt):
        after_ctrl_c = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""
        print(f"{after_ctrl_c}interrupted", file=sys.stderr)
        status = 130
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`); click exits like this, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except ValueError as error:
        if not _for_people(error):
            raise
        status = _complain(str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        status = _complain(f"{place}{error.strerror or error}")
    sys.exit(status if isinstance(status, int) else 0)


def _complain(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _with_place(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    help_hint = f" (see {context.command_path} --help)" if context is not None else ""
    return error.format_message().rstrip(".") + help_hint


def _for_people(error: ValueError) -> bool:
    return any(
        module in sys.modules and isinstance(error, getattr(sys.modules[module], name))
        for module, name in USERS_ERRORS.items()
    )
