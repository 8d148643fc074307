"""`simsched nodes`: what a live search would run on."""

from typing import TYPE_CHECKING

import click

from simsched.cli.options import Whole

if TYPE_CHECKING:
    from simsched.live.nodes import Node

MOST = 100_000
GIB = 1 << 30


@click.command(
    epilog="""\b
Examples:
  simsched nodes
  simsched nodes --nodes 1 --cores-per-node 2
  simsched nodes --nodes-per-gpu 6
  simsched nodes --json
"""
)
@click.option(
    "--nodes",
    type=Whole(1, MOST),
    help="How many nodes to make.  [default: as many as there can be]",
)
@click.option(
    "--nodes-per-gpu",
    type=Whole(1, MOST),
    help="How many nodes share a GPU.  [default: 1]",
)
@click.option(
    "--cores-per-node",
    type=Whole(1, MOST),
    help="Processor cores of each node.  [default: with GPUs an even share, without 1]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def nodes(
    nodes: int | None, nodes_per_gpu: int | None, cores_per_node: int | None, as_json: bool
) -> None:
    """Show the nodes that a live search would use.

    A node trains one trial at a time: a GPU, a share of one, or a set of processor cores. Without
    options it is one for each GPU that CUDA_VISIBLE_DEVICES leaves, or one for each core where
    there is no GPU. `simsched live` takes the same options.
    """
    import msgspec

    from simsched.live.nodes import find_nodes

    found = find_nodes(nodes, nodes_per_gpu, cores_per_node)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        _print(found)


def _print(found: "list[Node]") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from simsched.live.nodes import counted, ranges

    has_gpus = found[0].gpu is not None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("node", justify="right")
    table.add_column("name", overflow="fold")
    table.add_column("cores", justify="right")
    if has_gpus:
        table.add_column("which", overflow="fold")
        table.add_column("GPU", overflow="fold")
        table.add_column("memory", justify="right", no_wrap=True)
    for node in found:
        row = [str(node.number), node.name, str(len(node.cores))]
        if has_gpus:
            memory = node.gpu_memory_bytes
            row += [
                ranges(node.cores),
                node.gpu_name or "-",
                "-" if memory is None else f"{memory / GIB:.1f} GiB",
            ]
        table.add_row(*row)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{counted(len(found), 'node')}. {_remark(found)}")


def _remark(found: "list[Node]") -> str:
    """Return what becomes of the cores, in a sentence or two."""
    from simsched.live.nodes import cores_left, counted

    every = [core for node in found for core in node.cores]
    left = cores_left(found)
    if len(set(every)) < len(every):
        return "Some share a core; workers that run there slow each other down."
    if not left:
        return "They take every core there is."
    more = len(found[0].cores) + left // len(found)
    hint = f" --cores-per-node {more} would use more." if left >= len(found) else ""
    return f"{counted(left, 'core')} {'is' if left == 1 else 'are'} left over.{hint}"
