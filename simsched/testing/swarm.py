"""Swarm testing of the control plane: `python -m simsched.testing.swarm --seeds 10000`.

Each seed draws a cluster, a scheduler with settings, curves, a policy, and a rate of each
fault; some are zero. The coordinator, ledger and journal that `simsched live` runs are then
driven through all of that, with invariants checked after every event. At last the faults
cease, and the run must end. A seed that breaks a rule prints one line that repeats it.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import click
import msgspec

from simsched.errors import SimschedError
from simsched.processes import side_by_side
from simsched.testing.swarm_run import Outcome, run_seed

BLOCK = 25
"""Seeds that a process does at a time."""


class Summary(msgspec.Struct):
    """What came of all seeds."""

    first_seed: int
    seeds: int = 0
    events: int = 0
    seconds: float = 0.0
    violations: list[str] = []
    tally: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Take in a seed."""
        self.seeds += 1
        self.events += outcome.events
        self.tally.update(outcome.tally)
        if outcome.violation is not None:
            self.violations.append(line_of(outcome))

    @property
    def faults(self) -> dict[str, int]:
        """How often each fault happened."""
        mark = "fault: "
        return {
            name.removeprefix(mark): count
            for name, count in sorted(self.tally.items())
            if name.startswith(mark)
        }

    def to_json(self) -> bytes:
        """Return all of it as JSON."""
        values = {
            "first_seed": self.first_seed,
            "seeds": self.seeds,
            "events": self.events,
            "seconds": round(self.seconds, 3),
            "violations": self.violations,
            "faults": self.faults,
            "messages": {k: v for k, v in sorted(self.tally.items()) if ": " not in k},
        }
        return msgspec.json.format(msgspec.json.encode(values), indent=2)


def line_of(outcome: Outcome) -> str:
    """Return the one line that says what is wrong with a seed, and repeats it."""
    return (
        f"seed {outcome.seed}: {outcome.violation}; "
        f"repeat: python -m simsched.testing.swarm --seed {outcome.seed}"
    )


def outcomes(first: int, count: int, processes: int = 1) -> Iterator[Outcome]:
    """Yield what came of each seed from `first` on, in their order.

    Raises:
        SimschedError: a process was killed.
    """
    if processes == 1:
        yield from map(run_seed, range(first, first + count))
        return
    blocks = [
        range(start, min(start + BLOCK, first + count))
        for start in range(first, first + count, BLOCK)
    ]
    for block in side_by_side(_prepare, None, blocks, processes):
        yield from block


def _prepare(setup: None) -> Callable[[range], list[Outcome]]:
    del setup
    return lambda block: [run_seed(seed) for seed in block]


def swarm(first: int, count: int, processes: int, *, bar: bool) -> Summary:
    """Run seeds, print each violation at once. Raises SimschedError as `outcomes` does."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    began = time.monotonic()
    summary = Summary(first)
    results: Any = outcomes(first, count, processes)
    if bar:
        results = track(results, "swarm", count, console=console, transient=True)
    for outcome in results:
        summary.add(outcome)
        if outcome.violation is not None:
            print(line_of(outcome), flush=True, file=sys.stderr)
    summary.seconds = time.monotonic() - began
    return summary


def follow(seed: int) -> Outcome:
    """Run one seed, and print every event, command and fault."""
    outcome = run_seed(seed, print)
    verdict = outcome.violation or f"every rule held; journal {outcome.digest}"
    print(f"seed {seed}: {outcome.events} events: {verdict}")
    return outcome


@click.command(help=(__doc__ or "").split("\n\n", 1)[1])
@click.option(
    "--seeds",
    default=300,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many seeds to run.",
)
@click.option(
    "--first-seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="The first of them.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Run this seed alone, and print all that happens in it.",
)
@click.option(
    "--processes",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Processes to share the work.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    seeds: int, first_seed: int, seed: int | None, processes: int, *, as_json: bool
) -> int:  # fmt: skip
    """Run the swarm; exit code 1 if a rule was broken."""
    if seed is not None:
        return 0 if follow(seed).violation is None else 1
    summary = swarm(first_seed, seeds, processes, bar=sys.stderr.isatty())
    if as_json:
        print(summary.to_json().decode())
    else:
        _print(summary)
    return 1 if summary.violations else 0


def _print(summary: Summary) -> None:
    wrong = len(summary.violations)
    last = summary.first_seed + summary.seeds - 1
    per_s = summary.events / summary.seconds if summary.seconds else math.nan
    print(
        f"seeds {summary.first_seed} to {last}: {wrong or 'no'} violation{'s' * (wrong != 1)} in "
        f"{summary.events:,} events, {summary.seconds:.1f} s ({per_s:,.0f} events a second)"
    )
    for name, count in summary.faults.items():
        print(f"{count:>10,}  {name}")


def main() -> None:
    """Run the command line: errors are one line, wrong input exits with 2."""
    try:
        status = command.main(prog_name="python -m simsched.testing.swarm", standalone_mode=False)
    except (click.ClickException, SimschedError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"error: {message}", file=sys.stderr)
        status = 2
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        status = 130
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
