"""`simsched schedulers`: what there is, and what each does."""

import inspect
import sys

import click
import msgspec

from simsched.schedulers import REGISTRY, Parameter, SchedulerClass, lookup


@click.command(
    epilog="""\b
Examples:
  simsched schedulers
  simsched schedulers hypertrick
  simsched simulate --scheduler hypertrick:eviction_rate=0.5 --scheduler asha
"""
)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def schedulers(name: str | None, as_json: bool) -> None:
    """List the schedulers, or explain one with its formulas.

    NAME is one of the list's; in `simsched simulate --scheduler` its parameters
    follow a colon.
    """
    chosen = [lookup(name)] if name else list(REGISTRY.values())
    if as_json:
        facts = [_facts(scheduler) for scheduler in chosen]
        text = msgspec.json.format(msgspec.json.encode(facts[0] if name else facts), indent=2)
        click.echo(text.decode())
    elif name:
        click.echo(explain(chosen[0]))
    else:
        _print_list(chosen)


def explain(scheduler: SchedulerClass) -> str:
    """Return rule, source and parameters of a scheduler as text."""
    rule = inspect.getdoc(sys.modules[scheduler.__module__]) or scheduler.summary
    lines = [scheduler.name, scheduler.summary, "", rule.strip(), ""]
    example = scheduler.name
    if scheduler.parameters:
        lines.append("Parameters:")
        for parameter in scheduler.parameters:
            lines.append(f"  {parameter.name}={_default(parameter)}")
            lines.append(f"      {parameter.doc}")
            lines.append(f"      {parameter.allowed}")
        first = scheduler.parameters[0]
        example += f":{first.name}={_default(first)}"
    else:
        lines.append("Parameters: none")
    return "\n".join([*lines, "", f"simsched simulate --scheduler {example}"])


def _default(parameter: Parameter) -> str:
    return "auto" if parameter.default is None else f"{parameter.default:g}"


def _facts(scheduler: SchedulerClass) -> dict[str, object]:
    return {
        "name": scheduler.name,
        "summary": scheduler.summary,
        "checkpoints": scheduler.checkpoints,
        "parameters": [
            {"name": p.name, "default": p.default, "allowed": p.allowed, "doc": p.doc}
            for p in scheduler.parameters
        ],
    }


def _print_list(chosen: list[SchedulerClass]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("scheduler", no_wrap=True)
    table.add_column("what it does")
    table.add_column("parameters", overflow="fold")
    for scheduler in chosen:
        parameters = "\n".join(f"{p.name}={_default(p)}" for p in scheduler.parameters)
        table.add_row(scheduler.name, scheduler.summary, parameters or "-")
    console = Console(highlight=False)
    console.print(table)
    console.print("\n`simsched schedulers NAME` explains one, with its formulas and sources.")
