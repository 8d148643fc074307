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
  simsched record --game MsPacman --trials 16 --steps 500000 --cores 2
  simsched record --game MinAtar/Breakout-v1 --steps 1000000
  simsched record --game Pong --preset fast --cores 2 --cores-per-trial 2
  simsched record --game Boxing --set agents=32 --set vtrace=true
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
@click.option("--cores", default=1, show_default=True, help="Processor cores to use.")
@click.option(
    "--cores-per-trial",
    default=1,
    show_default=True,
    help="Cores of each trial; trials are trained side by side on sets of so many.",
)
@click.option(
    "--clock",
    type=click.Choice(["wall", "cpu"]),
    metavar="wall|cpu",
    default="wall",
    show_default=True,
    help="What seconds are: of a clock, or processor time, which other programs on the machine "
    "cannot stretch; cpu is for trials in one thread.",
)
@click.option("--seed", default=0, show_default=True, help="What every random draw is keyed by.")
@click.option(
    "--preset",
    type=click.Choice(["repeatable", "fast", "published"]),
    metavar="repeatable|fast|published",
    default="repeatable",
    show_default=True,
    help="Settings of GA3C that all trials share; see docs/ga3c.md.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another value for one of those settings; repeat for several. `simsched train --help` "
    "has their names.",
)
@click.option("--agents", type=int, help="Short for --set agents=N.")
@click.option(
    "--tensorboard", is_flag=True, help="Write TensorBoard event files beside the trials' rows."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The trace file to write (.parquet, .csv, .jsonl).  [default: GAME.parquet]",
)
def record(
    game: str,
    trials: int,
    steps: int,
    cores: int,
    cores_per_trial: int,
    clock: str,
    seed: int,
    preset: str,
    changes: tuple[str, ...],
    agents: int | None,
    tensorboard: bool,
    out: Path | None,
) -> None:
    """Train trials for real and record their learning curves.

    Draws each trial from the published GA3C search space (learning rate, t_max, gamma), trains
    it on this machine, and keeps the score of every episode. `simsched simulate --traces`
    replays what it writes. It can be stopped at any moment: the same command goes on where it was.
    """
    from simsched.live.machine import require_training_packages

    require_training_packages()
    from simsched.cli.training_options import parse_all
    from simsched.live.errors import LiveError
    from simsched.live.ga3c.games import canonical_game
    from simsched.live.ga3c.settings import PRESETS
    from simsched.live.plan import make_plan
    from simsched.space import PUBLISHED_GA3C

    if cores_per_trial < 1:
        raise LiveError(f"cores-per-trial: {cores_per_trial} is too small, use 1 or more")
    game = canonical_game(game)
    changed = parse_all(changes)
    for name in PUBLISHED_GA3C.parameters:
        if name in changed:
            raise LiveError(f"--set {name}: every trial draws its own from the search space")
    training = {**PRESETS[preset], **changed}
    if agents is not None:
        training["agents"] = agents
    plan = make_plan(
        game,
        trials=trials,
        steps=steps,
        seed=seed,
        cores_per_trial=cores_per_trial,
        clock="cpu" if clock == "cpu" else "wall",
        training=training,
    )
    target = out or Path(f"{game.replace('/', '-')}.parquet")
    _record(plan, target, cores, tensorboard=tensorboard)


def _record(plan: "Plan", out: Path, cores: int, *, tensorboard: bool) -> None:
    from simsched.live.progress import BarDisplay, Display, LineDisplay
    from simsched.live.record import parts_folder
    from simsched.live.record import record as run

    display: Display = BarDisplay(plan) if sys.stderr.isatty() else LineDisplay(plan)
    try:
        with display:
            run(plan, out, cores=cores, listener=display.hear, tensorboard=tensorboard)
    except KeyboardInterrupt:
        click.echo(
            f"Interrupted. {display.counts.finished} of {plan.trials} trials are finished, the "
            f"others saved in {parts_folder(out)}; the same command goes on with them.",
            err=True,
        )
        raise click.exceptions.Exit(130) from None
    click.echo(f"{out}: {plan.trials} trials of {plan.game}")
