"""What starting, saving and loading cost: options of their own, a live run, or the cluster."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from simsched.cli.config import overruled, refusal
from simsched.cli.options import Seconds

COST_OPTIONS = ("start_cost", "save_cost", "load_cost", "preemption_cost", "costs_from")
_COSTS = ("start_s", "save_s", "load_s")


def chosen_costs(cluster: str | None, **options: Any) -> dict[str, float]:
    """Return the costs that the cluster does not decide, in seconds: `start_s` and so on.

    An option for one cost wins over --costs-from, and that over the cluster; but whatever is
    given on the command line wins over the experiment file.

    Args:
        cluster: the cluster file, if there is one.
        options: the values of `COST_OPTIONS`.

    Raises:
        click.UsageError, SimschedError: costs that were said twice; a run that has none.
    """
    if overruled("preemption_cost", "save_cost", "load_cost"):
        options["preemption_cost"] = None
    for name in ("save_cost", "load_cost"):
        if overruled(name, "preemption_cost"):
            options[name] = None
    both = options["preemption_cost"]
    if both is not None and (options["save_cost"], options["load_cost"]) != (None, None):
        reason = "already sets --save-cost and --load-cost"
        raise refusal("preemption_cost", reason) or click.UsageError(f"--preemption-cost {reason}")
    chosen: dict[str, float] = {}
    in_force = 0 if cluster is None else _rank("cluster")
    if options["costs_from"] is not None and _rank("costs_from") >= in_force:
        in_force = _rank("costs_from")
        instead = "it is taken to cost nothing" if cluster is None else "the cluster's cost stands"
        chosen.update(measured_costs(Path(options["costs_from"]), instead))
    for name in ("start", "save", "load"):
        if (cost := options[f"{name}_cost"]) is not None and _rank(f"{name}_cost") >= in_force:
            chosen[f"{name}_s"] = cost
    if both is not None and _rank("preemption_cost") >= in_force:
        chosen["save_s"] = chosen["load_s"] = both / 2
    return chosen


def _rank(name: str) -> int:
    """Return 2 for a value of the command line, 1 for one of the experiment file."""
    source = click.get_current_context().get_parameter_source(name)
    return 2 if source is ParameterSource.COMMANDLINE else 1


def measured_costs(run: Path, instead: str) -> dict[str, float]:
    """Return what starting, saving and loading took in a live run, in seconds.

    What the run never did is not known: it is left out, and a note on stderr says so.

    Args:
        run: its folder.
        instead: what holds for costs that are not known, for the note.

    Raises:
        click.UsageError: it is not the folder of a finished live run.
        SimschedError: its results cannot be read.
    """
    from simsched.documents import read_json

    if run.is_file():
        raise click.UsageError(f"--costs-from {run}: is a file; name the folder of a live run")
    document = read_json(run / "results.json", "--costs-from")
    settings, runs = document.data.get("settings"), document.data.get("runs")
    named = settings if isinstance(settings, dict) and "measured" in document.data else {}
    costs = [named.get(name, -1) for name in _COSTS]
    if not all(isinstance(cost, int | float) and 0 <= cost <= Seconds.high for cost in costs):
        raise click.UsageError(f"--costs-from {run}: is not the folder of a finished live run")
    known = dict(zip(_COSTS, map(float, costs), strict=True))
    for what, done, name in (("saved", "saves", "save_s"), ("loaded", "loads", "load_s")):
        if isinstance(runs, list) and not any(_did(each, done) for each in runs):
            del known[name]
            click.echo(
                f"note: {run} {what} no checkpoint, so what that costs is not known: {instead}",
                err=True,
            )
    return known


def _did(run: object, what: str) -> bool:
    return isinstance(run, dict) and bool(run.get(what))
