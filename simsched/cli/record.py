"""`simsched record`: train trials for real and keep their learning curves."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from simsched.live.plan import Plan


@click.command(
    epilog="""\b
Examples:
  simsched record --game CartPole-v1 --trials 4 --steps 50000
  simsched record --game MsPacman --trials 16 --steps 200000 --cores 2
"""
)
@click.option(
    "--game", required=True, help="An Atari game, or a Gymnasium environment with discrete actions."
)
@click.option("--trials", default=16, show_default=True, help="Configurations to train.")
@click.option(
    "--steps",
    default=100_000,
    show_default=True,
    help="Agent steps of each trial, all its agents together.",
)
@click.option(
    "--cores", default=1, show_default=True, help="Trials trained side by side, on one core each."
)
@click.option("--seed", default=0, show_default=True, help="What every random draw is keyed by.")
@click.option("--agents", default=16, show_default=True, help="Environments of each trial.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The trace file to write (.parquet, .csv, .jsonl).  [default: GAME.parquet]",
)
def record(
    game: str, trials: int, steps: int, cores: int, seed: int, agents: int, out: Path | None
) -> None:
    """Train trials for real and record their learning curves.

    Draws each trial from the published GA3C search space (learning rate, t_max, gamma), trains
    it on this machine, and keeps the score of every episode. `simsched simulate --traces`
    replays what it writes. It can be stopped at any moment: the same command goes on where it was.
    """
    from simsched.live.machine import require_training_packages

    require_training_packages()
    from simsched.live.ga3c.games import canonical_game
    from simsched.live.plan import make_plan

    game = canonical_game(game)
    plan = make_plan(game, trials=trials, steps=steps, seed=seed, agents=agents)
    _record(plan, out or Path(f"{game.replace('/', '-')}.parquet"), cores)


def _record(plan: "Plan", out: Path, cores: int) -> None:
    from simsched.live.progress import BarDisplay, Display, LineDisplay
    from simsched.live.record import parts_folder
    from simsched.live.record import record as run

    display: Display = BarDisplay(plan) if sys.stderr.isatty() else LineDisplay(plan)
    try:
        with display:
            run(plan, out, cores=cores, listener=display.hear)
    except KeyboardInterrupt:
        click.echo(
            f"Interrupted. {display.counts.finished} of {plan.trials} trials are finished, the "
            f"others saved in {parts_folder(out)}; the same command goes on with them.",
            err=True,
        )
        raise click.exceptions.Exit(130) from None
    click.echo(f"{out}: {plan.trials} trials of {plan.game}")
