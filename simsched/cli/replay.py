"""`simsched replay`: a live search simulated again, beside what really happened."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsched.cli.options import Text, WholeList
from simsched.cli.output import is_terminal, json_file, new_folder, undone_when_killed
from simsched.errors import SimschedError

if TYPE_CHECKING:
    from simsched.results import Comparison


@click.command(
    epilog="""\b
Examples:
  simsched replay runs/live-1
  simsched replay runs/live-1 --out replayed
  simsched replay runs/live-1 --scheduler hyperband:eta=3 --scheduler asha
  simsched replay runs/live-1 --nodes 1,4,8 --json replay.json
"""
)
@click.argument("run")
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    type=Text("NAME[:KEY=VALUE,…]"),
    help="Another scheduler, simulated with the run's curves and costs. A trial that it would "
    "train further than the run did ends there. Can be repeated.",
)
@click.option(
    "--nodes",
    type=WholeList(1, 100_000),
    help="More or fewer nodes than the run had, for it or for --scheduler. A list compares.",
)
@click.option(
    "--out",
    type=Text("DIR"),
    help="New or empty folder for a page with both schedules, and the results.",
)
@click.option(
    "--json",
    "json_name",
    type=Text("FILE"),
    help="Write the results to this file too, as JSON; - prints them in place of the table.",
)
def replay(
    run: str,
    schedulers: tuple[str, ...],
    nodes: tuple[int, ...] | None,
    out: str | None,
    json_name: str | None,
) -> None:
    """Simulate a live run again and compare prediction and reality.

    RUN is the folder of `simsched live`. Its journal is fed to a fresh scheduler,
    which must decide the same. Then the run is simulated from its own curves, at
    the costs that were measured in it, and both are shown side by side.

    Exits with 1 if a decision or a score is not the journal's.
    """
    from simsched.cli.replay_text import replayed_text

    try:
        from simsched.live.replaying import cautions, comparison, replay_run, replayed_json
    except ModuleNotFoundError as error:
        raise SimschedError(
            f"{error.name} is not installed, live searches need it: pip install 'simsched[live]'"
        ) from None
    with undone_when_killed(), json_file(json_name) as write_json:
        replayed = replay_run(Path(run), schedulers, nodes or ())
        data = replayed_json(replayed)
        page = None
        if out is not None:
            from simsched.cli.replay_page import write_page

            with new_folder(out) as target:
                write_page(replayed, target.scratch / "report.html")
                (target.scratch / "results.json").write_bytes(data)
                page = target.folder / "report.html"
        write_json(data)
    if json_name == "-":
        click.echo(data, nl=False)
    else:
        click.echo(replayed_text(replayed), nl=False)
        if replayed.others:
            _print_others(comparison(replayed), cautions(replayed))
        if page is not None:
            click.echo(f"\nreport: {page}")
    if not replayed.agrees:
        raise click.exceptions.Exit(1)


def _print_others(comparison: "Comparison", notes: list[str]) -> None:
    """Print the run as it was predicted, and other searches with its curves, as a table."""
    from simsched.analysis import tables

    if is_terminal(sys.stdout):
        from rich.console import Console

        Console(highlight=False).print(tables.summary(comparison))
    else:
        click.echo(f"\n{tables.plain(comparison)}", nl=False)
    for note in notes:
        click.echo(f"note: {note}")
