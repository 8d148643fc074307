"""`simsched simulate`: compare schedulers on a simulated cluster."""

import sys
from pathlib import Path
from typing import Any

import click

from simsched.checkpointing import parse_saving
from simsched.cli.config import config_option, in_file, overruled, refusal, refuse_beside
from simsched.cli.costs import COST_OPTIONS, chosen_costs
from simsched.cli.options import Seconds, SpeedList, Text, Whole, WholeList
from simsched.cli.output import is_terminal, json_file, new_folder, progress_bar, undone_when_killed
from simsched.comparison import DEFAULT_SCHEDULERS, UNITS
from simsched.comparison import simulate as run_simulation
from simsched.errors import SimschedError
from simsched.results import Comparison


@click.command(
    epilog="""\b
Examples:
  simsched simulate
  simsched simulate --nodes 6 --workers 16 --phases 4 --preemption-cost 30
  simsched simulate --nodes 2,4,8,16 --scheduler hypertrick \\
      --scheduler hyperband:eta=3
  simsched simulate --traces my.csv --unit reports --phases 9 --phase-length 1
  simsched simulate --cluster spot-fleet --replications 10
  simsched simulate --workers 64 --resample --replications 20 --json out.json
"""
)
@click.option(
    "--nodes",
    type=WholeList(1, 100_000),
    default="6",
    show_default=True,
    help="Nodes; each trains one trial at a time. A list compares cluster sizes.",
)
@click.option(
    "--workers",
    type=WholeList(1, 1_000_000),
    help="Trials of the search. A list compares.  [default: all recorded, at most 16]",
)
@click.option(
    "--game",
    type=Text("NAME"),
    help="Recorded curves that come with simsched; `simsched traces list` has their "
    "names.  [default: MsPacman]",
)
@click.option(
    "--traces",
    "trace_file",
    type=Text("FILE"),
    help="Learning curves of your own: .parquet, .csv or .jsonl.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    type=Text("NAME[:KEY=VALUE,…]"),
    help="Repeat to compare several; `simsched schedulers` has their names.  "
    f"[default: {', '.join(DEFAULT_SCHEDULERS)}]",
)
@click.option(
    "--phases",
    type=Whole(1, 1_000_000),
    default=4,
    show_default=True,
    help="A trial's full length, in phases.",
)
@click.option(
    "--phase-length",
    type=Whole(1, 10**15),
    help="A phase's length, in --unit.  [default: the longest that fits the curves]",
)
@click.option(
    "--unit",
    type=click.Choice(UNITS),
    metavar="UNIT",
    default="steps",
    show_default=True,
    help="What progress is counted in: episodes, steps (the agent's), seconds of training, or "
    "reports (rows of the curves).",
)
@click.option(
    "--preemption-cost",
    type=Seconds(),
    help="What taking a node away costs: half of it to save, half to load.",
)
@click.option("--save-cost", type=Seconds(), help="Time to save a checkpoint.  [default: 0]")
@click.option("--load-cost", type=Seconds(), help="Time to load a checkpoint.  [default: 0]")
@click.option("--start-cost", type=Seconds(), help="Time to start a worker.  [default: 0]")
@click.option(
    "--node-speeds",
    type=SpeedList(),
    default="1",
    show_default=True,
    help="Speed factors, given to the nodes in turn: with 1,0.5 every other node takes "
    "twice as long.",
)
@click.option(
    "--cluster",
    type=Text("FILE"),
    help="A cluster file (nodes, prices, costs, what goes wrong), or one that comes with simsched: "
    "workstation, server, spot-fleet. In place of --nodes and --node-speeds; costs given here win "
    "over the cluster's.",
)
@click.option(
    "--checkpoints",
    type=Text("POLICY"),
    default="scheduler",
    show_default=True,
    help="When trials are saved: scheduler (as it needs), milestone (at each), every:10m (in "
    "mid-phase, too), young or daly (the best interval for the cluster's failures), daly:24h (if "
    "they are that far apart), milestone+every:10m.",
)
@click.option(
    "--preemption",
    type=click.Choice(["eager", "lazy"]),
    metavar="KIND",
    default="eager",
    show_default=True,
    help="eager: a trial that pauses gives up its node; lazy: it keeps it, unsaved, until "
    "another trial needs it.",
)
@click.option(
    "--costs-from",
    type=Text("RUN"),
    help="Start, save and load cost what they cost in a live run: its folder. Costs given by the "
    "options above win.",
)
@click.option(
    "--replications",
    type=Whole(1, 100_000),
    default=1,
    show_default=True,
    help="Simulate so often. The first takes the trials in the order of the file, "
    "others draw trials and order.",
)
@click.option(
    "--resample",
    is_flag=True,
    help="Draw with replacement: there can be more workers than recorded trials.",
)
@click.option(
    "--seed",
    type=Whole(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Of all random draws: the same seed gives the same results, byte for byte.",
)
@click.option(
    "--jobs",
    type=Whole(1, 1024),
    default=1,
    show_default=True,
    help="Processes that simulate side by side, at most one a core. The results do not depend "
    "on it.",
)
@config_option("simulate")
@click.option(
    "--out",
    type=Text("DIR"),
    help="New or empty folder for the report, the results and the journals.  "
    "[default: runs/simulate-N]",
)
@click.option(
    "--json",
    "json_name",
    type=Text("FILE"),
    help="Write the results to this file too, as JSON; - prints them in place of the table.",
)
def simulate(
    out: str | None,
    json_name: str | None,
    game: str | None,
    trace_file: str | None,
    schedulers: tuple[str, ...],
    **options: Any,
) -> None:
    """Rehearse a search on a simulated cluster and compare schedulers.

    Replays recorded learning curves through the schedulers that would run the
    search, prints a table, and writes a page with charts of the schedule.
    """
    from simsched.results import results_json

    # A file's game is what live trains; curves of one's own stand for it here.
    if overruled("game", "trace_file") or (trace_file is not None and in_file("game")):
        game = None
    if overruled("trace_file", "game"):
        trace_file = None
    if game is not None and trace_file is not None:
        raise click.UsageError("--game and --traces exclude each other: name one set of curves")
    if overruled("cluster", "nodes", "node_speeds"):
        options["cluster"] = None
    else:
        refuse_beside("cluster", "nodes", "node_speeds")
    _check_policy(options["checkpoints"])
    said = {name: options.pop(name) for name in COST_OPTIONS}
    options |= chosen_costs(options["cluster"], **said)
    curves = _curves(game, trace_file)
    with undone_when_killed(), new_folder(out) as target, json_file(json_name) as write_json:
        with progress_bar() as progress:
            comparison = run_simulation(
                curves,
                schedulers=schedulers or None,
                journals=target.scratch / "journals",
                progress=progress,
                **options,
            )
            _write(comparison, target.scratch)
        write_json(results_json(comparison))
    report = target.folder / "report.html"
    if json_name == "-":
        click.echo(results_json(comparison), nl=False)
        click.echo(f"report: {report}", err=True)
    else:
        _print_table(comparison)
        click.echo(f"\nreport: {report}")


def _check_policy(text: str) -> None:
    """Refuse a policy of an experiment file with its line. Raises SimschedError."""
    try:
        parse_saving(text)
    except SimschedError as error:
        raise refusal("checkpoints", str(error).removeprefix("checkpoints: ")) or error from None


def _curves(game: str | None, trace_file: str | None) -> Any:
    from simsched.traces import TraceError, load, read, shipped

    if trace_file is None and game is not None and in_file("game"):
        # There it is a game's name, of which that of its curves is made: MinAtar/Breakout-v1.
        name = game.replace("/", "-")
        try:
            return load(name if name.lower() in map(str.lower, shipped()) else game)
        except TraceError as error:
            raise refusal("game", str(error)) or error from None
    if trace_file is None:
        return load(game or "MsPacman")
    if trace_file in shipped() and not Path(trace_file).exists():
        raise TraceError(f"{trace_file}: there is no such file; did you mean --game {trace_file}?")
    return read(Path(trace_file))


def _write(comparison: Comparison, folder: Path) -> None:
    from simsched.analysis import write_report
    from simsched.results import results_chunks, settings_json

    (folder / "settings.json").write_bytes(settings_json(comparison.settings))
    with (folder / "results.json").open("wb") as file:
        file.writelines(results_chunks(comparison))
    write_report(comparison, folder / "report.html")


def _print_table(comparison: Comparison) -> None:
    from simsched.analysis import tables

    if is_terminal(sys.stdout):
        from rich.console import Console

        Console(highlight=False).print(tables.summary(comparison))
    else:
        click.echo(tables.plain(comparison), nl=False)
