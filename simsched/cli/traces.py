"""`simsched traces`: list, show, check, import and make up recorded learning curves."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from simsched.traces import TraceSet

FILE = click.Path(path_type=Path)
TERMINAL_TRIALS = 20
PAGE_TRIALS = 200


@click.group(
    epilog="""\b
Examples:
  simsched traces list
  simsched traces show MsPacman
  simsched traces import runs.csv --map score=episode_return --to runs.parquet
"""
)
def traces() -> None:
    """Recorded learning curves: list, show, check and import them, or make some up.

    A trace file is one table (.parquet, .csv, .jsonl) with the columns trial, seconds,
    steps, episodes, score and hp.NAME for each hyperparameter: a row per finished episode or
    per report, counters cumulative within the trial.
    """


@traces.command(
    "list",
    epilog="""\b
Examples:
  simsched traces list
  simsched traces list --json
""",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of a table.")
def list_(as_json: bool) -> None:
    """List the recorded curves that come with simsched."""
    from simsched.traces import load, shipped
    from simsched.traces.display import listing

    sets = [load(name) for name in shipped()]
    if as_json:
        click.echo(json.dumps([_summary(traceset) for traceset in sets], indent=2))
    elif sets:
        _print(listing(sets))
    else:
        click.echo("No recorded curves come with this installation.")


@traces.command(
    epilog="""\b
Examples:
  simsched traces show MsPacman
  simsched traces show runs.csv --trials 5
  simsched traces show MsPacman --html curves.html
"""
)
@click.argument("name", metavar="NAME|FILE")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    help=f"Draw the N best trials.  [default: {TERMINAL_TRIALS}; {PAGE_TRIALS} with --html]",
    metavar="N",
)
@click.option("--html", type=FILE, help="Write the curves as an interactive page to this file.")
def show(name: str, trials: int | None, html: Path | None) -> None:
    """Show what is known of a set of curves, and the curves, best first."""
    from simsched.traces import load

    traceset = load(name)
    if html is None:
        from simsched.traces.display import page

        _print(page(traceset, trials or TERMINAL_TRIALS))
        return
    from simsched.traces.figure import page_html
    from simsched.traces.store import replace_file

    replace_file(html, page_html(traceset, trials or PAGE_TRIALS).encode())
    click.echo(f"{html}: {_counts(traceset)}")


@traces.command(
    epilog="""\b
Examples:
  simsched traces validate runs.csv more.parquet
"""
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def validate(files: tuple[str, ...]) -> None:
    """Check trace files: one line for each. Exits with 2 if any of them is bad."""
    from simsched.traces import TraceError, load

    bad = False
    for file in files:
        try:
            click.echo(f"{file}: ok, {_counts(load(file))}")
        except TraceError as error:
            bad = True
            click.echo(f"error: {error}")
    if bad:
        sys.exit(2)


@traces.command(
    "import",
    epilog="""\b
Examples:
  simsched traces import runs.csv --to runs.parquet --game CartPole-v1 \\
      --map trial=run,seconds=wall_s,steps=global_step,score=return \\
      --count episodes --hparam lr --hparam gamma=config/gamma
""",
)
@click.argument("file", type=FILE)
@click.option("--to", type=FILE, required=True, help="File to write: .parquet, .csv or .jsonl.")
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="OURS=THEIRS,…",
    help="Columns that go by another name: trial, seconds, steps, episodes, score, game.",
)
@click.option(
    "--count",
    multiple=True,
    type=click.Choice(["episodes", "steps"]),
    help="The file lacks this counter: number each trial's rows from 1.",
)
@click.option(
    "--hparam",
    "hparams",
    multiple=True,
    metavar="NAME[=THEIRS]",
    help="A column that is a hyperparameter. May be given more than once.",
)
@click.option("--game", default="", help="The environment's name.")
@click.option("--metric", default="", help="What the score is.  [default: return]")
@click.option("--mode", type=click.Choice(["max", "min"]), help="Is a larger or a smaller better?")
@click.option(
    "--stopped-early",
    is_flag=True,
    help="A search stopped the shorter trials: mark those of fewer steps than the longest as "
    "censored.",
)
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
def import_(
    file: Path,
    to: Path,
    maps: tuple[str, ...],
    count: tuple[Literal["episodes", "steps"], ...],
    hparams: tuple[str, ...],
    game: str,
    metric: str,
    mode: Literal["max", "min"] | None,
    stopped_early: bool,
    overwrite: bool,
) -> None:
    """Turn a table of your own runs into a trace file.

    Columns that nothing asks for are left out. Trial ids may be texts: they are numbered
    in order of appearance. Rows of several trials may be mixed.
    """
    from simsched.traces import import_file, write

    columns = _pairs("--map", [part for option in maps for part in option.split(",")])
    named = [part if "=" in part else f"{part}={part}" for part in hparams]
    _refuse_existing(to, overwrite)
    imported = import_file(
        file,
        columns=columns,
        hparams=_pairs("--hparam", named),
        count=count,
        game=game,
        metric=metric,
        mode=mode,
        stopped_early=stopped_early,
    )
    write(imported.traceset, to)
    click.echo(f"{to}: {_counts(imported.traceset)}")
    for note in imported.notes:
        click.echo(f"  {note}")


@traces.command(
    epilog="""\b
Examples:
  simsched traces synth --to made-up.parquet
  simsched traces synth --trials 1000 --kind reports --rows 27 --to b.parquet
"""
)
@click.option("--to", type=FILE, required=True, help="File to write: .parquet, .csv or .jsonl.")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Curves to make up.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=400,
    show_default=True,
    help="Mean number of episodes of a trial; with --kind reports, its reports.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Agent steps of each trial.",
)
@click.option(
    "--kind",
    type=click.Choice(["episodes", "reports"]),
    default="episodes",
    show_default=True,
    help="A row per finished episode, or per report at equal distances of steps.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of all random draws.",
)
@click.option("--no-divergence", is_flag=True, help="Every trial reaches its full length.")
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
def synth(
    to: Path,
    trials: int,
    rows: int,
    steps: int,
    kind: Literal["episodes", "reports"],
    seed: int,
    no_divergence: bool,
    overwrite: bool,
) -> None:
    """Make up learning curves, to try simsched without recordings.

    The curves look like reinforcement learning (plateaus, late take-off, collapse and
    divergence at high learning rates, noise) but measure nothing; files and results say so.
    The same options give the same file, and trial 7 is the same whatever --trials says.
    """
    from simsched.traces import synthesize, write

    if steps < rows:
        raise click.UsageError(f"--steps {steps} must be at least --rows {rows}")
    _refuse_existing(to, overwrite)
    traceset = synthesize(
        trials, seed, rows=rows, steps=steps, kind=kind, diverge=not no_divergence
    )
    write(traceset, to)
    click.echo(f"{to}: {_counts(traceset)}, synthetic")


def _pairs(option: str, parts: list[str]) -> dict[str, str]:
    """Read OURS=THEIRS pairs. Raises UsageError for what is none, or is given twice."""
    pairs: dict[str, str] = {}
    for part in parts:
        ours, mark, theirs = (piece.strip() for piece in part.partition("="))
        if not (ours and mark and theirs):
            raise click.UsageError(f"{option} {part!r}: it must be OURS=THEIRS, as in lr=config/lr")
        if ours in pairs:
            raise click.UsageError(f"{option}: {ours} is both {pairs[ours]} and {theirs}")
        pairs[ours] = theirs
    return pairs


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise click.UsageError(f"--to {path}: it exists; add --overwrite to replace it")


def _counts(traceset: "TraceSet") -> str:
    trials, rows = len(traceset), traceset.rows
    return f"{trials:,} trial{'s' * (trials != 1)}, {rows:,} row{'s' * (rows != 1)}"


def _summary(traceset: "TraceSet") -> dict[str, Any]:
    from simsched.traces.display import mean_steps

    meta = traceset.meta
    return {
        "name": traceset.name,
        "game": meta.game,
        "trials": len(traceset),
        "rows": traceset.rows,
        "steps_per_trial": mean_steps(traceset),
        "synthetic": meta.synthetic,
        "date": meta.date,
        "sha256": traceset.sha256,
    }


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console(highlight=False).print(renderable)
