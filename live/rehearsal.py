"""The rehearsal of a live search: its plan, simulated on recorded curves of the game.

The simulation is `simsched simulate`'s, with the plan's own scheduler, trials, phases and nodes.
Recorded curves are of other configurations than the search will draw, so the rehearsal says how
long such a search takes and how busy the nodes are, not which score it will find.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from simsched.comparison import simulate
from simsched.errors import SimschedError
from simsched.live.nodes import Node
from simsched.live.settings import LiveSettings
from simsched.recorded import check_lengths, name_of
from simsched.results import RunResult
from simsched.space import SearchSpace
from simsched.traces import TraceSet, is_shipped, load, read, shipped

START_S, SAVE_S, LOAD_S = 5.0, 0.02, 0.02
"""What a GA3C worker takes to start (imports, games, network), to write a checkpoint of 5.4 MB to
the disk, and to take it up: processor time on MsPacman, one core of an AMD EPYC, 2026-11-21. """
MOST_WORKERS = 20_000
"""Larger searches take too long to simulate while somebody waits."""
RECORDED_PRESET = "repeatable"
"""What the curves that come with simsched were recorded with, on one core a trial."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation foretells of a plan."""

    curves: str | None = None
    """Name of the recorded curves; None where there are none."""
    recorded_trials: int = 0
    hardware: str = ""
    """What they were recorded on."""
    start_s: float = 0.0
    save_s: float = 0.0
    load_s: float = 0.0
    run: RunResult | None = None
    """The simulated search; None where it could not be simulated, and `notes` say why."""
    notes: tuple[str, ...] = ()
    """What to keep in mind, a line each."""


def recorded_curves(game: str) -> TraceSet | None:
    """Return the curves of a game that come with simsched; None if there are none."""
    wanted = game.replace("/", "-").lower()
    for name in shipped():
        if name.lower() == wanted:
            return load(name)
    return None


def rehearse(
    settings: LiveSettings, nodes: Sequence[Node], trace_file: str | None = None
) -> Rehearsal:
    """Simulate a plan on recorded curves.

    Args:
        settings: the plan.
        nodes: what it runs on.
        trace_file: curves of one's own; by default those of the game that come with simsched.

    Raises:
        TraceError: the file cannot be used. That the curves do not fit the plan is no error, the
            result says so.
    """
    if trace_file is not None:
        recorded: TraceSet | None = read(Path(trace_file))
    else:
        recorded = None if settings.game is None else recorded_curves(settings.game)
    if recorded is None:
        what = "a command" if settings.game is None else settings.game
        return Rehearsal(notes=(f"there are no recorded curves of {what}",))
    facts = Rehearsal(
        curves=name_of(recorded),
        recorded_trials=len(recorded.traces),
        hardware=recorded.meta.hardware,
    )
    why_not = _why_not(settings, nodes, recorded)
    if why_not is not None:
        return msgspec.structs.replace(facts, notes=(why_not,))
    if settings.game is not None:
        facts = msgspec.structs.replace(facts, start_s=START_S, save_s=SAVE_S, load_s=LOAD_S)
    try:
        run = _simulated(settings, len(nodes), recorded, facts)
    except SimschedError as error:
        return msgspec.structs.replace(facts, notes=(str(error),))
    notes = tuple(_notes(settings, nodes, recorded, run))
    return msgspec.structs.replace(facts, run=run, notes=notes)


def _why_not(settings: LiveSettings, nodes: Sequence[Node], recorded: TraceSet) -> str | None:
    """Return why a plan cannot be rehearsed on these curves."""
    on_gpu = any(node.gpu is not None for node in nodes)
    if on_gpu and is_shipped(recorded) and settings.unit != "seconds":
        return (
            f"the curves of {name_of(recorded)} were recorded on one core a trial, so their times "
            "cannot be compared with those of a GPU"
        )
    if settings.workers > MOST_WORKERS:
        return f"more than {MOST_WORKERS:,} trials take long to simulate; use simsched simulate"
    try:
        check_lengths(recorded, settings.unit, settings.phases, settings.phase_length)
    except SimschedError as error:
        return str(error).partition(";")[0]
    return None


def _simulated(
    settings: LiveSettings, nodes: int, recorded: TraceSet, costs: Rehearsal
) -> RunResult:
    comparison = simulate(
        recorded,
        nodes=nodes,
        workers=settings.workers,
        schedulers=[settings.scheduler],
        phases=settings.phases,
        phase_length=settings.phase_length,
        unit=settings.unit,
        start_s=costs.start_s,
        save_s=costs.save_s,
        load_s=costs.load_s,
        checkpoints=settings.checkpoints,
        preemption=settings.preemption,
        resample=settings.workers > len(recorded.traces),
        seed=settings.seed,
    )
    return comparison.runs[0]


def _notes(
    settings: LiveSettings, nodes: Sequence[Node], recorded: TraceSet, run: RunResult
) -> Iterator[str]:
    """Yield what makes the plan another thing than what was simulated."""
    meta = recorded.meta
    if settings.game is not None and meta.game and meta.game != settings.game:
        yield f"the curves are of {meta.game}"
    if meta.synthetic:
        yield "the curves are synthetic"
    if settings.workers > len(recorded.traces):
        yield f"{settings.workers} trials are drawn from {len(recorded.traces)}, with replacement"
    if meta.space is not None and SearchSpace.from_json(meta.space) != settings.search_space:
        yield "the recorded trials are of another search space"
    if is_shipped(recorded):
        yield from _other_pace(settings, nodes)
    if settings.game is None:
        yield "nothing is charged for starting, saving and loading a command"
    if run.approximate:
        yield "what follows a change of hyperparameters is approximate"
    if run.censored:
        yield f"{run.censored} trials end where their record does"
    if settings.max_time_s is not None and run.wall_time_s > settings.max_time_s:
        yield "it would not be over by --max-time"
    if settings.complete:
        yield "training on what was stopped (--complete) is not in it"


def _other_pace(settings: LiveSettings, nodes: Sequence[Node]) -> Iterator[str]:
    cores = max(len(node.cores) for node in nodes)
    if cores > 1:
        yield f"a trial had one core when it was recorded, and has {cores} here"
    if settings.preset != RECORDED_PRESET:
        yield f"they were recorded with the preset {RECORDED_PRESET}, not {settings.preset}"
