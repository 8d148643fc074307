"""`--costs-from RUN`: what starting, saving and loading cost in a live search."""

from pathlib import Path

import click

from simsched.cli.options import Seconds


def measured_costs(run: Path) -> tuple[float, float, float]:
    """Return what starting, saving and loading took in a live run, in seconds.

    What the run never did is not known, and taken to cost nothing: a note on stderr says so.

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
    costs = [named.get(name, -1) for name in ("start_s", "save_s", "load_s")]
    if not all(isinstance(cost, int | float) and 0 <= cost <= Seconds.high for cost in costs):
        raise click.UsageError(f"--costs-from {run}: is not the folder of a finished live run")
    for what, done in (("saved", "saves"), ("loaded", "loads")):
        if isinstance(runs, list) and not any(_did(each, done) for each in runs):
            click.echo(
                f"note: {run} {what} no checkpoint, so what that costs is not known: it is taken "
                "to cost nothing",
                err=True,
            )
    return float(costs[0]), float(costs[1]), float(costs[2])


def _did(run: object, what: str) -> bool:
    return isinstance(run, dict) and bool(run.get(what))
