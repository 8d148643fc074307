"""`simsched live`: run a search for real on this machine."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from simsched.cli.config import experiment_of, in_file, overruled, refuse_lists, training_of
from simsched.cli.live_options import NODES, RUNNING, SEARCH, WHAT
from simsched.cli.output import json_file

if TYPE_CHECKING:
    from simsched.live.nodes import Node
    from simsched.live.planning import Asked
    from simsched.live.rehearsal import Rehearsal
    from simsched.live.settings import LiveSettings


class Search(NamedTuple):
    """All that is known of a search before it begins."""

    settings: "LiveSettings"
    derived: tuple[str, ...]
    nodes: "list[Node]"
    rehearsal: "Rehearsal | None"


@click.command(
    epilog="""\b
Examples:
  simsched live
  simsched live --game Pong --nodes-per-gpu 6 --max-time 8h
  simsched live --scheduler hyperband:eta=3 --phases 9 --dry-run
  simsched live --command 'python train.py --lr {learning_rate}' \\
      --search-space space.toml
  simsched live --config experiment.toml
  simsched live --resume runs/live-1
"""
)
@WHAT
@NODES
@SEARCH
@RUNNING
def live(
    resume: str | None,
    out: str | None,
    dry_run: bool,
    trace_file: str | None,
    json_name: str | None,
    **options: Any,
) -> None:
    """Run a search for real on this machine.

    Trains GA3C, or a program of yours, on this machine's GPUs or cores, with the
    schedulers that `simsched simulate` rehearses. Ctrl-C once stops and saves;
    --resume goes on.
    """
    from simsched.cli.live_folder import claimed, next_folder, refuse_folder
    from simsched.cli.live_text import plan_json, plan_text

    _require_packages("psutil")
    context = click.get_current_context()
    refuse_lists(context)
    asked = _asked(context, options)
    to_stderr = json_name == "-"  # there, only the JSON is on standard output
    with json_file(json_name) as write_json:
        if resume is not None:
            search = _resumed(Path(resume), out, asked, trace_file)
            folder = Path(resume)
        else:
            folder = next_folder() if out is None else Path(out)
            refuse_folder(folder, out)
            search = _planned(asked, trace_file)
        plan = plan_text(search.settings, search.derived, search.nodes, folder, search.rehearsal)
        click.echo(plan, nl=False, err=to_stderr)
        if dry_run:
            text = plan_json(*search[:3], folder, search.rehearsal)
            write_json(text)
            if to_stderr:
                click.echo(text, nl=False)
            else:
                click.echo("dry run    nothing was started")
            return
        if resume is not None:
            _run(search, folder, write_json, resume=True, to_stderr=to_stderr)
            return
        with claimed(out) as folder:
            _run(search, folder, write_json, resume=False, to_stderr=to_stderr)


def _require_packages(*packages: str) -> None:
    import importlib.util

    from simsched.live.errors import LiveError

    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise LiveError(
                f"{package} is not installed, live searches need it: pip install 'simsched[live]'"
            )


def _asked(context: click.Context, options: dict[str, Any]) -> "Asked":
    """Return what the command line and the experiment file ask for. Raises SimschedError."""
    from simsched.cli.training_options import parse_all
    from simsched.experiment import read_space
    from simsched.live.planning import Asked

    experiment = experiment_of(context)
    written = None if experiment is None else experiment.space
    if (space_file := options.pop("search_space")) is not None:
        written = read_space(Path(space_file))
    if overruled("game", "command"):
        options["game"] = None
    if overruled("command", "game"):
        options["command"] = None
    own = ("preset",) if options["command"] is not None else ("metric", "mode")
    for name in own:  # of the file: it may serve a game and a command
        options[name] = None if in_file(name) else options[name]
    training = {}
    if experiment is not None and options["command"] is None:
        training = training_of(experiment)
    training |= parse_all(options.pop("changes"))
    return Asked(
        training=training,
        space=None if written is None else written.space,
        blame=None if written is None else written.refusal,
        max_time_s=options.pop("max_time"),
        **options,
    )


def _planned(asked: "Asked", trace_file: str | None) -> Search:
    from simsched.live.machine import require_training_packages
    from simsched.live.nodes import find_nodes
    from simsched.live.planning import plan_search
    from simsched.live.rehearsal import rehearse
    from simsched.live.try_out import try_out

    if asked.command is None:
        require_training_packages()
    nodes = find_nodes(asked.nodes, asked.nodes_per_gpu, asked.cores_per_node)
    settings, derived = plan_search(asked, nodes)
    rehearsal = rehearse(settings, nodes, trace_file)
    if settings.game is not None:
        try_out(settings)
    return Search(settings, derived, nodes, rehearsal)


def _resumed(folder: Path, out: str | None, asked: "Asked", trace_file: str | None) -> Search:
    from simsched.live.errors import LiveError
    from simsched.live.machine import require_training_packages
    from simsched.live.nodes import find_nodes
    from simsched.live.resuming import recorded_settings, require_same

    if out is not None:
        raise LiveError(f"--out {out}: a search that is resumed stays in its folder; leave it out")
    if trace_file is not None:
        raise LiveError("--traces: a search that is resumed was rehearsed; leave it out")
    settings = recorded_settings(folder)
    require_same(settings, asked, folder)
    if settings.command is None:
        require_training_packages()
    nodes = find_nodes(settings.nodes, settings.nodes_per_gpu, settings.cores_per_node)
    return Search(settings, (), nodes, None)


def _run(
    search: Search,
    folder: Path,
    write_json: Callable[[bytes], object],
    *,
    resume: bool,
    to_stderr: bool,
) -> None:
    """Run the search and say what came of it."""
    from simsched.cli.live_text import outcome_text
    from simsched.live.search import run_search
    from simsched.live.view import make_view

    with make_view(sys.stderr, search.settings) as view:
        outcome = run_search(search.settings, search.nodes, folder, resume=resume, show=view)
    if outcome.ended == "interrupted":
        click.echo(f"Interrupted and saved; go on with: {outcome.resume_command}", err=True)
        raise click.exceptions.Exit(130)
    if outcome.comparison is not None:
        from simsched.analysis import write_report

        write_report(outcome.comparison, folder / "report.html")
        outcome = msgspec.structs.replace(outcome, report=folder / "report.html")
    click.echo(outcome_text(outcome), nl=False, err=to_stderr)
    data = (folder / "results.json").read_bytes()
    write_json(data)
    if to_stderr:
        click.echo(data, nl=False)
