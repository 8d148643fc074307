"""`simsched train`: train one agent with GA3C."""

import json
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simsched.cli.output import json_file, numbered_folder
from simsched.cli.training_options import SECTIONS, setting_options
from simsched.live.ga3c.settings import PRESETS

if TYPE_CHECKING:
    from simsched.live.parts import End
    from simsched.live.plan import Plan
    from simsched.live.training import Progress

OF_EACH_CALL = ("resume", "tensorboard", "video", "json_name")
"""Options that go with --resume; the others a resumed run has from its folder."""


class _Sectioned(click.Command):
    """A command whose help lists GA3C's settings in sections of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        title, sections = "Options", dict[str, list[tuple[str, str]]]()
        for param in self.get_params(ctx):
            title = SECTIONS.get(param.name or "", title)
            if (record := param.get_help_record(ctx)) is not None:
                # --help comes last, but belongs to the first.
                sections.setdefault("Options" if param.name == "help" else title, []).append(record)
        for name, rows in sections.items():
            with formatter.section(name):
                formatter.write_dl(rows, col_max=24)


@click.command(
    cls=_Sectioned,
    epilog="""\b
Presets:
  fast        64 agents, one predictor, one trainer, batches of 160: the most
              samples per second on a few cores; the defaults above are its
  published   the numbers of the GA3C paper and its code; docs/ga3c.md says
              what else the original had
  repeatable  by turns in one thread: same seed, same scores

\b
Examples:
  simsched train --game CartPole-v1 --steps 100000 --learning-rate 1e-3
  simsched train --game MsPacman --steps 1000000 --tensorboard
  simsched train --resume runs/train-1
  simsched train --resume runs/train-1 --video pacman.mp4
  simsched train --game Pong --preset published --adjust random-walk
  simsched train --game Breakout --vtrace true --device cuda
""",
)
@click.option("--game", help="An Atari game, or a Gymnasium environment with discrete actions.")
@click.option("--steps", default=1_000_000, show_default=True, help="Agent steps to train for.")
@click.option("--seed", default=0, show_default=True, help="What every random draw is keyed by.")
@click.option(
    "--preset",
    type=click.Choice(sorted(PRESETS)),
    metavar="|".join(PRESETS),
    default="fast",
    show_default=True,
    help="Where settings come from that are not given.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new folder for the run.  [default: runs/train-N]",
)
@click.option(
    "--resume",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Go on with a run, with its settings.",
)
@click.option("--tensorboard", is_flag=True, help="Write TensorBoard event files.")
@click.option(
    "--video",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.mp4",
    help="Film an evaluation episode once the run is complete.",
)
@click.option("--json", "json_name", metavar="FILE", help="Write the results as JSON; - prints.")
@setting_options("fast")
def train(
    game: str | None,
    steps: int,
    seed: int,
    preset: str,
    out: Path | None,
    resume: Path | None,
    tensorboard: bool,
    video: Path | None,
    json_name: str | None,
    **settings: str | None,
) -> None:
    """Train one agent with GA3C.

    Keeps the score of every episode as a learning curve that `simsched simulate --traces` reads,
    and checkpoints. Ctrl-C (or SIGTERM) saves and stops; --resume goes on.
    """
    from simsched.live.machine import require_training_packages

    require_training_packages()
    with json_file(json_name) as write:
        if resume is not None:
            plan = _resumed(resume)
        else:
            plan = _planned(game, steps, seed, preset, settings)
        if video is not None:
            _require_film(plan, video)
        folder = resume if resume is not None else _claim(out)
        to_stderr = json_name == "-"  # there, only the JSON is on standard output
        result = _run(plan, folder, tensorboard=tensorboard, to_stderr=to_stderr)
        if video is not None and result["end"] == "complete":
            result["evaluation_score"] = _film(plan, folder, video, to_stderr=to_stderr)
        elif video is not None and result["end"] is not None:
            click.echo(f"{video}: not filmed, for the run diverged", err=True)
        text = json.dumps(result, indent=2) + "\n"
        write(text.encode())
        if to_stderr:
            click.echo(text, nl=False)
    if result["end"] is None:
        raise click.exceptions.Exit(130)


def _planned(
    game: str | None, steps: int, seed: int, preset: str, settings: dict[str, str | None]
) -> "Plan":
    from simsched.cli.training_options import chosen
    from simsched.live.errors import LiveError
    from simsched.live.ga3c.compiled import require_compilable
    from simsched.live.ga3c.engines import overlaps
    from simsched.live.ga3c.environment import EnvironmentGroup
    from simsched.live.ga3c.games import canonical_game
    from simsched.live.ga3c.network import build
    from simsched.live.ga3c.settings import Settings
    from simsched.live.ga3c.transfer import choose_device
    from simsched.live.run_one import plan_run

    if game is None:
        raise LiveError("--game: say what to train, for example MsPacman or CartPole-v1")
    chosen_settings = Settings(game=canonical_game(game), seed=seed, **chosen(preset, settings))
    plan = plan_run(chosen_settings, steps)
    # All that can be refused is refused before a folder is made.
    device = choose_device(chosen_settings.device)
    with closing(EnvironmentGroup(chosen_settings, 1)) as group:
        overlapped = overlaps(chosen_settings, frames=group.frames, device=device)
        require_compilable(chosen_settings, overlapped=overlapped)
        shape, dtype = group.observation_shape, group.observation_dtype
        build(chosen_settings, shape, dtype, group.actions, seed=0)
    return plan


def _resumed(folder: Path) -> "Plan":
    from simsched.live.errors import LiveError
    from simsched.live.run_one import read_run

    context = click.get_current_context()
    for name in context.params:
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in OF_EACH_CALL:
            raise LiveError(
                f"--{name.replace('_', '-')}: a resumed run keeps its settings; leave it out"
            )
    return read_run(folder)


def _claim(out: Path | None) -> Path:
    from simsched.live.errors import LiveError

    folder = out if out is not None else numbered_folder("train-{}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LiveError(f"--out {folder}: is there already; name a new folder, or use --resume")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LiveError(f"--out {folder}: the folder cannot be made: {error.strerror}") from error
    return folder


def _run(plan: "Plan", folder: Path, *, tensorboard: bool, to_stderr: bool) -> dict[str, Any]:
    from simsched.live.progress import BarDisplay, LineDisplay
    from simsched.live.run_one import CURVE, run

    last: list[Progress] = []
    display = BarDisplay(plan) if sys.stderr.isatty() else LineDisplay(plan)

    def hear(progress: "Progress") -> None:
        last[:] = [progress]
        display.hear(progress)

    with display if plan.steps else nullcontext():
        end: End | None = run(plan, folder, hear, tensorboard=tensorboard)
    progress = last[0]
    if end is None:
        click.echo(
            f"Interrupted and saved after {progress.steps:,} steps; go on with: "
            f"simsched train --resume {folder}",
            err=True,
        )
    else:
        click.echo(_summary(folder / CURVE, progress), err=to_stderr)
    return {
        "folder": str(folder),
        "game": plan.game,
        "settings": {**plan.training, **plan.hparams[0], "seed": plan.seed},
        "end": end,
        "reason": progress.reason,
        "steps": progress.steps,
        "episodes": progress.episodes,
        "seconds": progress.seconds,
        "recent_score": progress.recent_score,
    }


def _summary(curve: Path, progress: "Progress") -> str:
    """Return one line on a run that is over."""
    from simsched.live.training import RECENT

    reason = f" ({progress.reason})" if progress.reason else ""
    score = ", no episode ended"
    if progress.recent_score is not None:
        recent = min(RECENT, progress.episodes)
        score = f", mean score of the last {recent}: {progress.recent_score:.1f}"
    return (
        f"{curve}: {progress.end}{reason}, {progress.steps:,} steps in {progress.seconds:.1f} s, "
        f"{progress.episodes:,} episodes{score}"
    )


def _require_film(plan: "Plan", video: Path) -> None:
    """Refuse a video that cannot be made before anything is trained."""
    from simsched.live.ga3c.twins import require_pictures
    from simsched.live.ga3c.video import VideoWriter

    VideoWriter(video)
    require_pictures(plan.settings(0))


def _film(plan: "Plan", folder: Path, video: Path, *, to_stderr: bool) -> float:
    from simsched.live.run_one import play

    score = play(plan, folder, video)
    click.echo(f"{video}: an evaluation episode, score {score:g}", err=to_stderr)
    return score
