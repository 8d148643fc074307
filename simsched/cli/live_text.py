"""What `simsched live` prints: the plan before a search, what came of it after."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simsched.live.nodes import Node
    from simsched.live.outcome import Outcome
    from simsched.live.rehearsal import Rehearsal
    from simsched.live.settings import LiveSettings
    from simsched.messages import Hparams
    from simsched.space import Parameter

WIDTH = 80
LABEL = 11
NODES_NAMED = 4
COMMAND_LENGTH = 200


def plan_text(
    settings: "LiveSettings",
    derived: Sequence[str],
    nodes: "Sequence[Node]",
    folder: Path,
    rehearsal: "Rehearsal | None",
) -> str:
    """Return a search's plan as lines of a label and a text, wrapped to 80 columns."""
    parts = [("plan", _plan(settings)), ("space", _space(settings))]
    parts += [("first", line) for line in _first(settings)]
    if (training := _training(settings)) is not None:
        parts.append(("training", training))
    parts += [("default", line) for line in derived]
    parts += [("limits", line) for line in _limits(settings)]
    parts += [("nodes", _nodes(nodes)), ("folder", str(folder))]
    if rehearsal is not None:
        parts += [("rehearsal", line) for line in _rehearsal(rehearsal)]
    return labelled(parts)


def labelled(parts: "Sequence[tuple[str, str]]") -> str:
    """Return lines of a label and a text; a label that repeats is said once."""
    lines: list[str] = []
    before = None
    for label, text in parts:
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"{'' if label == before else label:<{LABEL}}",
            subsequent_indent=" " * LABEL,
            break_on_hyphens=False,
            break_long_words=False,
        )
        before = label
    return "".join(f"{line}\n" for line in lines)


def _plan(settings: "LiveSettings") -> str:
    from simsched.live.derived import length_text

    what = settings.game if settings.game is not None else _short(f"`{settings.command}`")
    phases = f"{settings.phases} phase{'s' * (settings.phases != 1)}"
    return (
        f"{_plural(settings.workers, 'trial')} of {what}, {phases} of "
        f"{length_text(settings.phase_length, settings.unit)} at most, {settings.scheduler}, "
        f"seed {settings.seed}"
    )


def _short(text: str) -> str:
    return text if len(text) <= COMMAND_LENGTH else f"{text[: COMMAND_LENGTH - 1]}…"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _space(settings: "LiveSettings") -> str:
    parameters = settings.search_space.parameters
    return ", ".join(f"{name} {_range(parameter)}" for name, parameter in parameters.items())


def _range(parameter: "Parameter") -> str:
    from simsched.space import Categorical

    if isinstance(parameter, Categorical):
        return "|".join(map(str, parameter.choices))
    log = " log" if parameter.log else ""
    steps = f" by {parameter.q}" if parameter.q not in (None, 1) else ""
    return f"{parameter.low}…{parameter.high}{log}{steps}"


def _first(settings: "LiveSettings") -> Iterator[str]:
    from simsched.live.planning import PUBLISHED_SETTINGS

    for trial, hparams in enumerate(settings.first[:3]):
        published = settings.game is not None and hparams == PUBLISHED_SETTINGS
        whose = ", as published" if published else ""
        yield f"trial {trial}: {hparams_text(hparams)}{whose}"
    if len(settings.first) > 3:
        yield f"… and {len(settings.first) - 3} more"


def hparams_text(hparams: "Hparams") -> str:
    """Return "learning_rate=0.0003 t_max=5"."""
    return " ".join(
        f"{name}={value:.4g}" if type(value) is float else f"{name}={value}"
        for name, value in hparams.items()
    )


def _training(settings: "LiveSettings") -> str | None:
    """Return the preset and what differs from it; None for a command."""
    from simsched.live.ga3c.settings import PRESETS

    if settings.game is None:
        return None
    preset = PRESETS.get(settings.preset, {})
    changed = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in settings.training.items()
        if preset.get(name) != value
    ]
    return " ".join([f"GA3C, preset {settings.preset}", *changed])


def _limits(settings: "LiveSettings") -> Iterator[str]:
    from simsched.analysis.wording import duration

    if settings.max_time_s is not None:
        yield f"over after {duration(settings.max_time_s)} at most"
    if settings.complete:
        yield "what the scheduler stops is trained on after the search"


def _nodes(nodes: "Sequence[Node]") -> str:
    names = [node.name for node in nodes[:NODES_NAMED]]
    more = len(nodes) - len(names)
    named = "; ".join([*names, *([f"and {more:,} more"] if more else [])])
    return f"{len(nodes):,}: {named}"


def _rehearsal(rehearsal: "Rehearsal") -> Iterator[str]:
    from simsched.analysis.wording import duration, number, percent

    run = rehearsal.run
    if run is None:
        yield from (f"none: {note}" for note in rehearsal.notes)
        return
    yield (
        f"expect {duration(run.wall_time_s)}, {number(run.node_hours)} node-hours, "
        f"utilization {percent(run.utilization)}"
    )
    place = f" (on {rehearsal.hardware})" if rehearsal.hardware else ""
    yield (
        f"this is a simulation, of {_plural(rehearsal.recorded_trials, 'recorded trial')} of "
        f"{rehearsal.curves}{place}"
    )
    if rehearsal.start_s:
        yield (
            f"a worker starts in {rehearsal.start_s:g} s, a checkpoint is saved in "
            f"{rehearsal.save_s:g} s and loaded in {rehearsal.load_s:g} s, as measured on "
            "MsPacman; the fresh episodes that the best play afterwards are not in it"
        )
    yield from rehearsal.notes


def plan_json(
    settings: "LiveSettings",
    derived: Sequence[str],
    nodes: "Sequence[Node]",
    folder: Path,
    rehearsal: "Rehearsal | None",
) -> bytes:
    """Return the plan as JSON."""
    import msgspec

    plan: dict[str, Any] = {
        "settings": msgspec.to_builtins(settings),
        "derived": list(derived),
        "nodes": msgspec.to_builtins(nodes),
        "folder": str(folder),
        "rehearsal": None if rehearsal is None else _rehearsal_json(rehearsal),
    }
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def _rehearsal_json(rehearsal: "Rehearsal") -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(rehearsal, run=None))
    del fields["run"]
    run = rehearsal.run
    if run is not None:
        fields |= {
            "wall_time_s": run.wall_time_s,
            "node_hours": run.node_hours,
            "utilization": run.utilization,
            "occupancy": run.occupancy,
            "completion_rate": run.completion_rate,
            "approximate": run.approximate,
        }
    return fields


def outcome_text(outcome: "Outcome") -> str:
    """Return what came of a search, a line each."""
    parts = []
    if outcome.ended == "max-time":
        parts.append(("ended", "by --max-time, before the scheduler was done"))
    if outcome.best_score is None:
        parts.append(("best", "no trial had a score"))
    else:
        hparams = hparams_text(outcome.best_hparams or {})
        score = f"trial {outcome.best_trial}, score {outcome.best_score:.5g}"
        parts.append(("best", f"{score}: {hparams}"))
    if outcome.winner is not None:
        parts.append(("winner", outcome.winner))
    for label, path in (("curves", outcome.curves), ("report", outcome.report)):
        if path is not None:
            parts.append((label, str(path)))
    return labelled(parts)
