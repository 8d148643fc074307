"""`simsched simulate`: compare schedulers on a simulated cluster."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from simsched.cli.options import SECONDS, IntegerList, SpeedList
from simsched.comparison import DEFAULT_SCHEDULERS, UNITS
from simsched.comparison import simulate as run_simulation
from simsched.errors import SimschedError
from simsched.results import Comparison


@click.command()
@click.option(
    "--nodes",
    type=IntegerList(),
    default="6",
    show_default=True,
    help="Nodes: trials that train at a time. A list compares cluster sizes.",
)
@click.option(
    "--workers",
    type=IntegerList(),
    help="Trials searched over; a list compares. [default: all recorded, at most 16]",
)
@click.option(
    "--game",
    metavar="NAME",
    help="Shipped curves to replay, see `simsched traces list`. [default: MsPacman]",
)
@click.option(
    "--traces",
    "trace_file",
    metavar="FILE",
    help="Curves of your own to replay: .parquet, .csv or .jsonl.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="NAME[:KEY=VALUE,…]",
    help=f"Repeat to compare several. [default: {', '.join(DEFAULT_SCHEDULERS)}]",
)
@click.option(
    "--phases",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="A trial's full length, in phases.",
)
@click.option(
    "--phase-length",
    type=click.IntRange(min=1),
    help="Of a phase, in units. [default: the longest that fits the curves]",
)
@click.option(
    "--unit",
    type=click.Choice(UNITS),
    default="steps",
    show_default=True,
    help="What progress is counted in.",
)
@click.option(
    "--preemption-cost",
    type=SECONDS,
    metavar="SECONDS",
    help="Short for --save-cost and --load-cost of half of it each.",
)
@click.option("--save-cost", type=SECONDS, metavar="SECONDS", help="To save a checkpoint.")
@click.option("--load-cost", type=SECONDS, metavar="SECONDS", help="To load a checkpoint.")
@click.option(
    "--start-cost", type=SECONDS, metavar="SECONDS", default=0.0, help="To start a worker."
)
@click.option(
    "--node-speeds",
    type=SpeedList(),
    default="1",
    help="Speed factor of each node, taken round and round.",
)
@click.option(
    "--replications",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The first takes the trials in the file's order, others draw trials and order.",
)
@click.option(
    "--resample",
    is_flag=True,
    help="Draw with replacement: more workers than recorded trials can be simulated.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all draws."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that simulate side by side; results do not depend on it.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="New folder for report, results and journals. [default: runs/simulate-N]",
)
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the results as JSON; - prints them."
)
def simulate(
    out: Path | None,
    json_file: str | None,
    game: str | None,
    trace_file: str | None,
    schedulers: tuple[str, ...],
    preemption_cost: float | None,
    save_cost: float | None,
    load_cost: float | None,
    **options: Any,
) -> None:
    """Rehearse a search on a simulated cluster and compare schedulers.

    Replays recorded learning curves through the schedulers that would run the search, prints
    a table, and writes a page with Gantt charts.

    \b
      simsched simulate
      simsched simulate --nodes 6 --workers 16 --phases 4 --preemption-cost 30
      simsched simulate --nodes 2,4,8,16 --scheduler hypertrick --scheduler hyperband:eta=3
      simsched simulate --traces my.csv --unit reports --phases 9 --phase-length 1
      simsched simulate --workers 64 --resample --replications 20 --json results.json
    """
    if game is not None and trace_file is not None:
        raise click.UsageError("--game and --traces exclude each other: name one set of curves")
    if preemption_cost is not None and (save_cost is not None or load_cost is not None):
        raise click.UsageError("--preemption-cost already sets --save-cost and --load-cost")
    half = (preemption_cost or 0.0) / 2
    folder = _new_folder(out)
    with _progress() as progress, _partial(folder) as partial:
        comparison = run_simulation(
            _curves(game, trace_file),
            schedulers=schedulers or DEFAULT_SCHEDULERS,
            start_s=options.pop("start_cost"),
            save_s=half if save_cost is None else save_cost,
            load_s=half if load_cost is None else load_cost,
            journals=partial / "journals",
            progress=progress,
            **options,
        )
        _write(comparison, partial)
    _show(comparison, folder, json_file)


def _curves(game: str | None, trace_file: str | None) -> Any:
    from simsched.traces import load, read

    return read(Path(trace_file)) if trace_file is not None else load(game or "MsPacman")


def _new_folder(out: Path | None) -> Path:
    """Return a folder that is not there yet, or is empty."""
    if out is None:
        number = 1
        while (numbered := Path("runs") / f"simulate-{number}").exists():
            number += 1
        return numbered
    if out.exists() and any(out.iterdir()):
        raise SimschedError(
            f"--out {out}: the folder is not empty; name a new one, nothing is overwritten"
        )
    return out


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    """Give a folder to fill that becomes `folder` only when all is written."""
    import shutil
    import tempfile

    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _write(comparison: Comparison, folder: Path) -> None:
    from simsched.analysis import write_report
    from simsched.results import results_json, settings_json

    (folder / "settings.json").write_bytes(settings_json(comparison.settings))
    (folder / "results.json").write_bytes(results_json(comparison))
    write_report(comparison, folder / "report.html")


def _show(comparison: Comparison, folder: Path, json_file: str | None) -> None:
    from simsched.results import results_json

    if json_file == "-":
        click.echo(results_json(comparison).decode(), nl=False)
        click.echo(f"report: {folder / 'report.html'}", err=True)
        return
    if json_file is not None:
        _replace(Path(json_file), results_json(comparison))
    _print_table(comparison)
    click.echo(f"\nreport: {folder / 'report.html'}")


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    import os
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _print_table(comparison: Comparison) -> None:
    from rich.console import Console

    from simsched.analysis import tables

    if sys.stdout.isatty():
        Console(highlight=False).print(tables.summary(comparison))
    else:
        click.echo(tables.plain(comparison))
