"""`simsched play`: look at what a run trained."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simsched.cli.options import Whole
from simsched.cli.output import json_file

if TYPE_CHECKING:
    from simsched.live.ga3c.evaluation import Evaluation
    from simsched.live.play import Agent

MOST = 2**31 - 1


@click.command(
    epilog="""\b
Examples:
  simsched play runs/live-1
  simsched play runs/live-1 --window --episodes 3
  simsched play runs/live-1 --trial 7 --video seven.mp4
  simsched play runs/train-1 --greedy --seed 5
  simsched play runs/live-1/best/checkpoint.pt --video best.mp4 --json -
"""
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--trial",
    type=Whole(0, MOST),
    help="Play this trial's newest checkpoint.  [default: the winner's]",
)
@click.option(
    "--video",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.mp4",
    help="Where the film goes.  [default: play.mp4 in RUN/best, or in RUN]",
)
@click.option("--window", is_flag=True, help="Show it in a window; without --video, no film.")
@click.option(
    "--episodes",
    type=Whole(1, MOST),
    default=1,
    show_default=True,
    help="Episodes to play, one after the other.",
)
@click.option(
    "--greedy", is_flag=True, help="Take the likeliest action, not one drawn as in training."
)
@click.option(
    "--seed",
    type=Whole(0, MOST),
    default=0,
    show_default=True,
    help="What the episodes are keyed by.",
)
@click.option("--json", "json_name", metavar="FILE", help="Write the results as JSON; - prints.")
def play(
    run: Path,
    trial: int | None,
    video: Path | None,
    window: bool,
    episodes: int,
    greedy: bool,
    seed: int,
    json_name: str | None,
) -> None:
    """Show the agent that a run trained, as a video or in a window.

    RUN is the folder of `simsched live` or `simsched train`, or a checkpoint in it. The agent
    plays fresh episodes with its weights as they are. Nothing in RUN is executed: it may come
    from anywhere.
    """
    from simsched.live.machine import require_training_packages

    require_training_packages()
    from simsched.live import play as playing

    with json_file(json_name) as write:
        agent = playing.find_agent(run, trial)
        if video is None and not window:
            video = agent.folder / playing.FILM
        to_stderr = json_name == "-"  # there, only the JSON is on standard output
        numbers = iter(range(1, episodes + 1))

        def tell(played: "Evaluation") -> None:
            text = f"episode {next(numbers)}: score {played.score:,g} in {played.steps:,} steps"
            click.echo(text, err=to_stderr)

        played = playing.play(
            agent, episodes=episodes, seed=seed, greedy=greedy, video=video, window=window,
            ready=lambda: click.echo(_introduction(agent), err=to_stderr), tell=tell,
        )  # fmt: skip
        if len(played) > 1:
            mean = sum(each.score for each in played) / len(played)
            click.echo(f"mean of {len(played)}: {mean:,.6g}", err=to_stderr)
        if video is not None:
            click.echo(f"film: {video}", err=to_stderr)
        text = (
            json.dumps(_document(run, agent, played, video, seed, greedy=greedy), indent=2) + "\n"
        )
        write(text.encode())
        if to_stderr:
            click.echo(text, nl=False)


def _introduction(agent: "Agent") -> str:
    hparams = ", ".join(f"{name} {_short(value)}" for name, value in agent.hparams.items())
    return f"trial {agent.trial}, {agent.settings.game}" + (f": {hparams}" if hparams else "")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _document(
    run: Path,
    agent: "Agent",
    played: "list[Evaluation]",
    video: Path | None,
    seed: int,
    *,
    greedy: bool,
) -> dict[str, Any]:
    scores = [each.score for each in played]
    return {
        "run": str(run),
        "trial": agent.trial,
        "game": agent.settings.game,
        "checkpoint": str(agent.checkpoint),
        "hparams": agent.hparams,
        "greedy": greedy,
        "seed": seed,
        "episodes": [{"score": each.score, "steps": each.steps} for each in played],
        "mean_score": sum(scores) / len(scores) if scores else None,
        "video": None if video is None else str(video),
    }
