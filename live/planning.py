"""From what a live search was asked for to its settings, everything that can be refused refused.

What was not said is derived: GA3C's preset and the length of a phase from the nodes, the first
trial from the published settings. Each derivation is told in a line.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from simsched._version import __version__
from simsched.errors import SimschedError, nearest
from simsched.live.command_line import check_command
from simsched.live.derived import game_phase_length, length_text, of_command, preset_for
from simsched.live.errors import LiveError
from simsched.live.first import read_first
from simsched.live.nodes import Node
from simsched.live.search import configurations, make_scheduler, policy_of
from simsched.live.settings import LiveSettings, code_digest
from simsched.messages import Hparams, Unit
from simsched.space import PUBLISHED_GA3C, Categorical, SearchSpace

DEFAULT_GAME = "MsPacman"
NO_FIRST = "none"
PUBLISHED_SETTINGS: Hparams = {"learning_rate": 3e-4, "t_max": 5, "gamma": 0.99}
"""Of GA3C's paper and code (Babaeizadeh et al., ICLR 2017): trial 0 by default."""
OWN = ("game", "seed", "trial")
"""Settings of GA3C that a search sets itself."""
CHECKED_DRAWS = 1000
"""So many of a search's configurations are tried out as settings before it starts."""

DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in msgspec.structs.fields(LiveSettings)
}
LONGEST = 10**15
"""A trial's full length, at most: counts are JSON numbers, which others read as floats."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a live search was asked for; None where nothing was said."""

    game: str | None = None
    command: str | None = None
    preset: str | None = None
    training: dict[str, Any] = {}
    """Settings of GA3C."""
    nodes: int | None = None
    nodes_per_gpu: int | None = None
    cores_per_node: int | None = None
    workers: int | None = None
    scheduler: str | None = None
    phases: int | None = None
    phase_length: int | None = None
    unit: Unit | None = None
    space: SearchSpace | None = None
    blame: Callable[[str, str], SimschedError] | None = None
    """Makes the error for a hyperparameter of `space` and a reason, that names file and line."""
    first: str | None = None
    """A file of configurations, or "none"."""
    metric: str | None = None
    mode: Literal["max", "min"] | None = None
    max_time_s: float | None = None
    seed: int | None = None
    retries: int | None = None
    checkpoints: str | None = None
    preemption: Literal["eager", "lazy"] | None = None
    complete: bool | None = None


class Planned(NamedTuple):
    """A search that can be run."""

    settings: LiveSettings
    derived: tuple[str, ...]
    """What nobody had asked for, and why it is so; a line each."""


def plan_search(asked: Asked, nodes: Sequence[Node]) -> Planned:
    """Return the settings of a search on these nodes.

    Raises:
        SimschedError: something asked for cannot be; nothing was written.
    """
    special, space, derived = _of_command(asked) if asked.command else _of_game(asked, nodes)
    first = _first(asked, space)
    given = {
        name: value
        for name in ("nodes_per_gpu", "cores_per_node", "workers", "phases", "max_time_s", "seed",
                     "retries", "checkpoints", "preemption", "complete")
        if (value := getattr(asked, name)) is not None
    }  # fmt: skip
    if asked.scheduler is not None:
        given["scheduler"] = "".join(asked.scheduler.split())
    settings = LiveSettings(
        version=__version__,
        code=code_digest(),
        nodes=len(nodes),
        space=msgspec.json.decode(msgspec.json.encode(space.to_json())),  # lists, no tuples
        first=first,
        **given,
        **special,
    )
    if len(first) > settings.workers:
        raise LiveError(
            f"--first {asked.first}: it has {len(first)} configurations, more than the "
            f"{settings.workers} trials (--workers)"
        )
    policy_of(settings)  # which knows whether its checkpoints make sense
    notes = check_scheduler(settings)
    if settings.command is None:
        check_training(settings, asked.blame)
    return Planned(settings, (*derived, *notes))


def _of_command(asked: Asked) -> tuple[dict[str, Any], SearchSpace, list[str]]:
    """Return what is special in a search that trains a command, and what was derived."""
    if asked.game is not None:
        raise LiveError("--game and --command exclude each other: name one thing to train")
    if asked.preset is not None or asked.training:
        option = "--preset" if asked.preset is not None else f"--set {next(iter(asked.training))}"
        raise LiveError(f"{option}: is for GA3C, not for --command")
    if asked.space is None:
        raise LiveError(
            "--command needs --search-space FILE: for each hyperparameter a table like "
            '[learning_rate] with type = "real", low = 1e-5, high = 1e-2, log = true'
        )
    assert asked.command is not None  # noqa: S101 - told to the type checker
    check_command(asked.command, list(asked.space.parameters))
    unit, length, derived = of_command(asked.unit, asked.phase_length)
    special = {
        "command": asked.command,
        "metric": asked.metric or "score",
        "mode": asked.mode or "max",
        "unit": unit,
        "phase_length": length,
    }
    return special, asked.space, derived


def _of_game(asked: Asked, nodes: Sequence[Node]) -> tuple[dict[str, Any], SearchSpace, list[str]]:
    """Return what is special in a search that trains GA3C, and what was derived."""
    from simsched.live.ga3c.games import canonical_game
    from simsched.live.ga3c.settings import PRESETS

    for option, value in (("metric", asked.metric), ("mode", asked.mode)):
        if value is not None:
            raise LiveError(f"--{option}: is for --command; a game's metric is its return")
    game = canonical_game(asked.game or DEFAULT_GAME)
    space = asked.space or PUBLISHED_GA3C
    for name in asked.training:
        if name in space.parameters:
            raise LiveError(f"--set {name}: every trial draws its own from the search space")
    preset, derived = asked.preset, list[str]()
    if preset is None:
        preset, why = preset_for(nodes)
        derived.append(f"preset {preset}: {why}")
    unit = asked.unit or "steps"
    length = asked.phase_length
    if length is None:
        length, why = game_phase_length(game, unit, asked.phases or DEFAULTS["phases"], nodes)
        derived.append(f"phase length {length_text(length, unit)}: {why}")
    training = {**PRESETS[preset], **asked.training}
    special = {
        "game": game,
        "preset": preset,
        "training": {k: v for k, v in training.items() if k not in (*space.parameters, *OWN)},
        "unit": unit,
        "phase_length": length,
    }
    return special, space, derived


def _first(asked: Asked, space: SearchSpace) -> list[Hparams]:
    if asked.first == NO_FIRST:
        return []
    if asked.first is not None:
        return read_first(Path(asked.first), space)
    published = asked.command is None and space == PUBLISHED_GA3C
    return [dict(PUBLISHED_SETTINGS)] if published else []


def check_scheduler(settings: LiveSettings) -> tuple[str, ...]:
    """Refuse a scheduler that cannot be made for this plan; return what it has to say of it.

    Raises:
        SimschedError: no such scheduler or parameter, or it does not fit the plan.
    """
    plan = settings.plan
    if plan.maximum > LONGEST:
        raise LiveError(
            f"{plan.phases:,} phases of {plan.phase_length:,} are {plan.maximum:,} "
            f"{settings.unit}; ask for at most {LONGEST:,}"
        )
    try:
        return make_scheduler(settings).notes
    except OverflowError:
        raise LiveError(
            f"{settings.scheduler}: a parameter is too large to compute with; make it smaller"
        ) from None


def check_training(
    settings: LiveSettings, blame: Callable[[str, str], SimschedError] | None = None
) -> None:
    """Refuse GA3C settings, or values of the search space, with which nothing can be trained.

    Args:
        settings: of the search.
        blame: makes the error for a hyperparameter and a reason.

    Raises:
        SimschedError: the setting, its value, and what would be right.
    """
    from simsched.live.ga3c.knobs import OF_WEIGHTS
    from simsched.live.ga3c.settings import Settings

    space = settings.search_space
    known = [name for name in Settings.__struct_fields__ if name not in OWN]
    blame = blame or (lambda name, reason: LiveError(f"search space: {name}: {reason}"))
    for name in space.parameters:
        if name not in known:
            raise blame(
                name, f"is no setting of GA3C{nearest(name, known)}; see simsched train --help"
            )
    if make_scheduler(settings).checkpoints == "milestone":  # trials take others' weights
        for name in set(OF_WEIGHTS).intersection(space.parameters):
            raise blame(
                name,
                f"cannot differ between trials with {settings.scheduler}: weights are copied "
                "from one to another; leave it out, or fix it with --set",
            )
    for hparams in _tried_out(settings, space):
        error = _why_not({"game": settings.game, **settings.training, **hparams})
        if error is not None:
            name, _, reason = str(error).partition(": ")
            raise blame(name, reason) if name in space.parameters else error


def _why_not(fields: dict[str, Any]) -> LiveError | None:
    """Return what is wrong with settings of GA3C; None where nothing is."""
    from simsched.live.ga3c.settings import Settings, settings_from

    # Settings themselves say best what would be right, but take a value of any type.
    ways: tuple[Callable[[], Settings], ...] = (
        lambda: Settings(**fields),
        lambda: settings_from(fields),
    )
    for make in ways:
        try:
            make()
        except LiveError as error:
            return LiveError(str(error).replace("Expected `int`", "must be a whole number"))
        except TypeError:  # text where they compare numbers
            continue
    return None


def _tried_out(settings: LiveSettings, space: SearchSpace) -> Iterator[Hparams]:
    """Yield the first trials' configurations, and the first of them with each bound."""
    few = min(settings.workers, CHECKED_DRAWS)
    base, *others = configurations(msgspec.structs.replace(settings, workers=few))
    yield from (base, *others)
    for name, parameter in space.parameters.items():
        bounds = (
            parameter.choices
            if isinstance(parameter, Categorical)
            else (parameter.low, parameter.high)
        )
        yield from ({**base, name: value} for value in bounds)
