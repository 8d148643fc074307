"""Shows a trained agent: finds its checkpoint in a run's folder, films it or opens a window.

What is found is data: checkpoints are read as weights only, settings are checked, games are those
that the installed packages have. Nothing in the folder is executed.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from simsched.live.best import BEST, CHECKPOINT, HPARAMS, read_about
from simsched.live.errors import LiveError
from simsched.live.ga3c.checkpoint import read_checkpoint, settings_in
from simsched.live.ga3c.evaluation import Evaluation, evaluate
from simsched.live.ga3c.screen import Screen, ScreenClosed
from simsched.live.ga3c.settings import Settings, settings_from
from simsched.live.ga3c.trained import load_network
from simsched.live.ga3c.twins import Picture, require_pictures
from simsched.live.ga3c.video import VideoWriter, frames_per_s
from simsched.live.parts import checkpoint_path
from simsched.live.plan import PLAN_FILE, read_plan
from simsched.live.run_one import HPARAMS as HPARAMS_OF_TRAIN
from simsched.live.search import SETTINGS, read_settings
from simsched.live.storage import DATA, MANIFEST, Store
from simsched.messages import Checkpoint

FILM = "play.mp4"


class Agent(NamedTuple):
    """A trained agent."""

    trial: int
    checkpoint: Path
    settings: Settings
    hparams: dict[str, Any]
    folder: Path
    """Where its film goes, unless somebody says otherwise."""


def find_agent(run: Path, trial: int | None = None) -> Agent:
    """Find the agent that a run trained.

    Args:
        run: the folder of a live search, whose winner it is, of `simsched train` or of a recording
            under way; or a checkpoint, wherever it is.
        trial: that trial's newest checkpoint instead of the winner's.

    Raises:
        LiveError: there is none; the message says which trials have one.
    """
    if run.is_file():
        return _of_file(run, _film_folder(run.parent), trial)
    if not run.is_dir():
        raise LiveError(f"{run}: there is no such folder or file")
    if (run / SETTINGS).is_file():
        return _of_search(run, trial)
    if (run / PLAN_FILE).is_file():
        return _of_plan(run, trial)
    if (run / HPARAMS).is_file():
        return _of_best(run, trial)
    if (run / MANIFEST).is_file():
        return _of_file(run / DATA, _film_folder(run), trial)
    raise LiveError(
        f"{run}: not the folder of a run: it has neither {SETTINGS}, of simsched live, nor "
        f"{PLAN_FILE}, of simsched train"
    )


def _film_folder(folder: Path) -> Path:
    """Return a checkpoint's folder; in a search, which deletes such folders, the search's."""
    search = Path(os.path.normpath(folder / ".." / ".."))
    return search if (search / SETTINGS).is_file() else folder


def _of_search(run: Path, trial: int | None) -> Agent:
    told = read_settings(run)
    if told.command is not None:
        raise LiveError(f"{run}: its trials are {told.command!r}; only GA3C can be played here")
    best = run / BEST
    if trial is None:
        if best.is_dir():
            return _of_best(best, None)
        hint = _which_have(run, [each.trial for each in _checkpoints(run)], "use --trial")
        raise LiveError(f"{run}: the search has no winner yet; {hint}")
    own = [each for each in _checkpoints(run) if each.trial == trial]
    if own:
        source = Store(run / "checkpoints").open(max(own, key=lambda each: each.step))
        fields = {"game": told.game, "seed": told.seed, "trial": trial, **told.training}
        return _of_file(Path(source.path), run, trial, settings_from(fields), list(told.space))
    if best.is_dir() and read_about(best).trial == trial:
        return _of_best(best, trial)
    known = [each.trial for each in _checkpoints(run)]
    raise LiveError(f"--trial {trial}: it has no checkpoint; {_which_have(run, known, 'use')}")


def _checkpoints(run: Path) -> list[Checkpoint]:
    folder = run / "checkpoints"
    return Store(folder).here() if folder.is_dir() else []


def _which_have(run: Path, trials: list[int], what: str) -> str:
    if not trials:
        return f"no trial has one in {run}"
    return f"{what}: {', '.join(map(str, sorted(set(trials))))} have one"


def _of_best(best: Path, trial: int | None) -> Agent:
    about = read_about(best)
    if about.settings is None:
        raise LiveError(f"{best}: the winner is no GA3C agent; only those can be played here")
    if trial not in (None, about.trial):
        raise LiveError(f"--trial {trial}: {best} is of trial {about.trial}")
    return Agent(about.trial, best / CHECKPOINT, about.settings, about.hparams, best)


def _of_plan(run: Path, trial: int | None) -> Agent:
    plan = read_plan(run)
    assert plan is not None  # noqa: S101 - the caller has seen the file
    known = [t for t in range(plan.trials) if checkpoint_path(run, t).is_file()]
    if trial is None and plan.trials == 1:
        trial = 0
    if trial is None:
        hint = _which_have(run, known, "use --trial")
        raise LiveError(f"{run}: a recording of {plan.trials} trials; {hint}")
    if trial not in known:
        raise LiveError(f"--trial {trial}: it has no checkpoint; {_which_have(run, known, 'use')}")
    path = checkpoint_path(run, trial)
    return Agent(trial, path, plan.settings(trial), plan.hparams[trial], run)


def _of_file(
    path: Path,
    folder: Path,
    trial: int | None,
    otherwise: Settings | None = None,
    names: Sequence[str] = HPARAMS_OF_TRAIN,
) -> Agent:
    """Return the agent of a checkpoint file, by the settings in it.

    Args:
        path: the file.
        folder: where its film goes.
        trial: whose it must be.
        otherwise: settings where the file has none, as checkpoints of older versions.
        names: of the hyperparameters.
    """
    settings = settings_in(read_checkpoint(path), path) or otherwise
    if settings is None:
        raise LiveError(
            f"{path}: it does not say what it was trained on; name the folder of its run instead"
        )
    if trial not in (None, settings.trial):
        raise LiveError(f"--trial {trial}: {path} is of trial {settings.trial}")
    hparams = {name: getattr(settings, name, None) for name in names}
    return Agent(settings.trial, path, settings, hparams, folder)


def play(
    agent: Agent,
    *,
    episodes: int,
    seed: int,
    greedy: bool = False,
    video: Path | None = None,
    window: bool = False,
    ready: Callable[[], object] | None = None,
    tell: Callable[[Evaluation], object] | None = None,
) -> list[Evaluation]:
    """Play episodes with an agent's frozen weights.

    Args:
        agent: who plays.
        episodes: how many; fewer are played if somebody closes the window.
        seed: of the episodes.
        greedy: take the most likely action instead of drawing one as in training.
        video: a file to film all of them into.
        window: whether to show them in a window.
        ready: called when nothing stands in the way any more.
        tell: told of each episode that has ended.

    Returns the episodes that ended.

    Raises:
        DivergedError: the policy is not finite.
        LiveError: the checkpoint does not fit, or the episodes cannot be shown or filmed.
    """
    settings = agent.settings
    network = load_network(agent.checkpoint, settings)
    fps = frames_per_s(settings.game)
    title = f"simsched: trial {agent.trial}, {settings.game}"
    screen = Screen(title, fps=fps) if window else None
    if video is not None or window:
        require_pictures(settings)
    played: list[Evaluation] = []

    def note(evaluation: Evaluation) -> None:
        played.append(evaluation)
        if tell is not None:
            tell(evaluation)

    with contextlib.ExitStack() as stack:
        stack.enter_context(_one_thread())
        listeners: list[Callable[[Picture], object]] = []
        if video is not None:
            listeners.append(stack.enter_context(VideoWriter(video, fps=fps)).write)
        if screen is not None:
            listeners.append(stack.enter_context(screen).show)

        def show(picture: Picture) -> None:
            for listener in listeners:
                listener(picture)

        if ready is not None:
            ready()
        with contextlib.suppress(ScreenClosed):
            evaluate(
                network,
                settings,
                seed=seed,
                episodes=episodes,
                greedy=greedy,
                on_frame=show if listeners else None,
                on_episode=note,
            )
    return played


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: for one observation at a time, more only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
