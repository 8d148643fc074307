"""The options of `simsched live`, in groups."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from simsched.cli.config import config_option
from simsched.cli.options import Text, Whole, quoted
from simsched.comparison import UNITS

if TYPE_CHECKING:
    from click import ParamType
else:
    from simsched.cli.options import ParamType

PRESETS = ("fast", "published", "repeatable")


class Duration(ParamType[float, str]):
    """A time to run: seconds, or with units, 90, 20m, 1h30m."""

    name = "TIME"
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # noqa: RUF012 - a constant
    longest_s = 1e9

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds."""
        text = str(value).strip().lower()
        text = f"{text}s" if re.fullmatch(r"[\d.]+", text) else text
        parts = re.findall(r"(\d+(?:\.\d*)?|\.\d+)\s*([smhd])\s*", text)
        seconds = sum(float(number) * self.units[unit] for number, unit in parts)
        whole = re.fullmatch(r"((\d+(\.\d*)?|\.\d+)\s*[smhd]\s*)+", text)
        if whole is None or not 0 < seconds <= self.longest_s:
            self.fail(
                f"{quoted(value)} must be a time above 0: 90 (seconds), 20m, 1h30m, 2d", param, ctx
            )
        return seconds


def _chosen_from(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


WHAT = _chosen_from(
    click.option(
        "--game",
        type=Text("NAME"),
        help="What to train with GA3C: an Atari game, or a Gymnasium environment with discrete "
        "actions.  [default: MsPacman]",
    ),
    click.option(
        "--command",
        type=Text("PROGRAM"),
        help="Train a program of yours instead: {name} in it stands for a hyperparameter; see "
        "docs/workers.md.  [default: none]",
    ),
    click.option(
        "--preset",
        type=click.Choice(PRESETS),
        metavar="|".join(PRESETS),
        help="Settings of GA3C that all trials share.  [default: repeatable on nodes of one core, "
        "else fast]",
    ),
    click.option(
        "--set",
        "changes",
        multiple=True,
        metavar="NAME=VALUE",
        help="Another value for one of those settings; repeat for several. `simsched train "
        "--help` has their names.  [default: none]",
    ),
    click.option(
        "--metric", type=Text("NAME"), help="What a --command's score is.  [default: score]"
    ),
    click.option(
        "--mode",
        type=click.Choice(["max", "min"]),
        metavar="max|min",
        help="Whether larger or smaller scores of a --command are better.  [default: max]",
    ),
)
NODES = _chosen_from(
    click.option(
        "--nodes",
        type=Whole(1, 100_000),
        help="Nodes; each trains one trial at a time.  [default: all that `simsched nodes` finds]",
    ),
    click.option(
        "--nodes-per-gpu", type=Whole(1, 100_000), help="How many share a GPU.  [default: 1]"
    ),
    click.option(
        "--cores-per-node",
        type=Whole(1, 100_000),
        help="Processor cores of each.  [default: with GPUs an even share, without 1]",
    ),
)
SEARCH = _chosen_from(
    click.option("--workers", type=Whole(1, 1_000_000), help="Trials.  [default: 16]"),
    click.option(
        "--scheduler",
        type=Text("NAME[:KEY=VALUE,…]"),
        help="Who stops what; `simsched schedulers` has their names.  [default: hypertrick]",
    ),
    click.option(
        "--phases",
        type=Whole(1, 1_000_000),
        help="A trial's full length, in phases.  [default: 4]",
    ),
    click.option(
        "--phase-length",
        type=Whole(1, 10**15),
        help="A phase's length, in --unit.  [default: 20,000 steps of an Atari game, 100,000 on a "
        "GPU, else 75,000; 1 report of a --command]",
    ),
    click.option(
        "--unit",
        type=click.Choice(UNITS),
        metavar="UNIT",
        help="What progress is counted in: episodes, steps, seconds of training, or reports.  "
        "[default: steps; reports of a --command]",
    ),
    click.option(
        "--search-space",
        type=Text("FILE"),
        help="The hyperparameters: .toml or .json.  [default: GA3C's published space]",
    ),
    click.option(
        "--first",
        type=Text("FILE"),
        metavar="FILE|none",
        help="Configurations to try first: .csv, .jsonl or .json.  [default: GA3C's published "
        "settings, where the space is the published one]",
    ),
    click.option(
        "--seed",
        type=Whole(0, 2**63 - 1),
        help="What every random draw is keyed by.  [default: 0]",
    ),
)
RUNNING = _chosen_from(
    click.option(
        "--max-time",
        type=Duration(),
        help="Stop the search after 90 (s), 20m, 2h.  [default: none]",
    ),
    click.option(
        "--retries",
        type=Whole(0, 1000),
        help="Restarts of a trial that failed, before it is given up.  [default: 3]",
    ),
    click.option(
        "--checkpoints",
        type=Text("POLICY"),
        help="When trials are saved: milestone (at each), scheduler (as it needs), every:10m (in "
        "mid-phase, too), daly:24h (the best interval if nodes fail that far apart), "
        "milestone+every:10m.  [default: milestone]",
    ),
    click.option(
        "--preemption",
        type=click.Choice(["eager", "lazy"]),
        help="lazy: a paused trial keeps its node until another trial needs it.  [default: eager]",
    ),
    click.option(
        "--complete",
        is_flag=True,
        default=None,
        help="Train on what the scheduler stopped, after the search: whole curves.  [default: no]",
    ),
    click.option(
        "--out", type=Text("DIR"), help="New or empty folder for the run.  [default: runs/live-N]"
    ),
    click.option(
        "--resume",
        type=Text("RUN"),
        help="Go on with the search in this folder, with its settings.  [default: none]",
    ),
    click.option("--dry-run", is_flag=True, help="Show the plan and the rehearsal; write nothing."),
    click.option(
        "--traces",
        "trace_file",
        type=Text("FILE"),
        help="Rehearse on these learning curves.  [default: the game's that come with simsched]",
    ),
    config_option("live"),
    click.option(
        "--json",
        "json_name",
        type=Text("FILE"),
        help="Write the results, or with --dry-run the plan, as JSON; - prints them.  "
        "[default: none]",
    ),
)
