"""What a live search came to: results, curves, the report, the trained winner."""

import datetime
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from simsched.ledger import Ledger
from simsched.live import machine
from simsched.live.errors import LiveError
from simsched.live.ga3c_trial import trial_settings
from simsched.live.parts import write_atomically
from simsched.live.settings import LiveSettings
from simsched.live.storage import DamagedError
from simsched.live.usage import read_usage
from simsched.live.watch import measured_costs
from simsched.live.winner import Candidate, Choice, pick_winner
from simsched.messages import Hparams
from simsched.results import Comparison, Measured, RunResult, Settings, results_json
from simsched.run_result import make_result
from simsched.timeline import US_PER_S
from simsched.traces import Metadata, Trace, TraceSet, write

if TYPE_CHECKING:
    from simsched.live.feed import How
    from simsched.live.search import Show
    from simsched.live.workshop import Workshop
    from simsched.live.world import World

CURVES = "curves.parquet"
RESULTS = "results.json"
REPORT = "report.html"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a search ended, and where its results are."""

    ended: Literal["done", "interrupted", "max-time"]
    folder: Path
    result: RunResult | None = None
    """None where it was interrupted."""
    comparison: Comparison | None = None
    """The result with its settings, as tables and the report take it."""
    report: Path | None = None
    curves: Path | None = None
    best_score: float | None = None
    best_trial: int | None = None
    best_hparams: Hparams | None = None
    winner: str | None = None
    """What the evaluation of the best trials says, in a line."""

    @property
    def resume_command(self) -> str:
        """What goes on with it."""
        return f"simsched live --resume {shlex.quote(str(self.folder))}"


def finish(
    world: "World", how: "How", folder: Path, show: "Show", completed: Ledger | None
) -> Outcome:
    """Write what a search came to. An interrupted one has no results yet.

    Args:
        world: that has run it.
        how: it ended.
        folder: the run's.
        show: is told how it gets on.
        completed: the books of what was trained after the search, if anything was.
    """
    if how == "interrupted":
        return Outcome(ended="interrupted", folder=folder)
    settings, ledger, workshop = world.settings, world.control.ledger, world.workshop
    cut_off = settings.max_time_s is not None and not world.control.coordinator.scheduler.done()
    timeline = ledger.close(max(ledger.last_us, 1))
    scheduler = world.control.coordinator.scheduler
    result = make_result(
        settings.scheduler, 0, settings.plan, ledger, timeline, world.sign,
        None, {}, scheduler.notes,
    )  # fmt: skip
    curves = write_curves(result, settings, workshop, folder, completed)
    measured = Measured(
        program=settings.command,
        command=command_of(settings),
        date=datetime.date.fromtimestamp((folder / "settings.json").stat().st_mtime).isoformat(),
        hardware=machine.processor(),
        versions=_versions(settings),
        nodes=tuple(node.name for node in world.nodes),
        failures=ledger.failures,
        usage=tuple(read_usage(folder)),
    )
    comparison = Comparison(settings_of(settings, result, curves), (result,), measured)
    write_atomically(folder / RESULTS, results_json(comparison))
    best = None if result.best_trial is None else ledger.trials[result.best_trial]
    choice = _winner(world, folder, show)
    return Outcome(
        ended="max-time" if cut_off else "done",
        folder=folder,
        result=result,
        comparison=comparison,
        curves=None if curves is None else folder / CURVES,
        best_score=result.best_score,
        best_trial=result.best_trial,
        best_hparams=None if best is None else best.best_hparams,
        winner=None if choice is None else choice.line,
    )


def _winner(world: "World", folder: Path, show: "Show") -> Choice | None:
    """Let the best trials play fresh episodes and keep the winner; None without checkpoints."""
    settings, workshop = world.settings, world.workshop
    candidates = []
    for trial, score, checkpoint in world.control.coordinator.shelf.best():
        record = world.control.ledger.trials[trial]
        hparams = record.best_hparams or record.hparams
        try:
            path = Path(workshop.store.open(checkpoint).path)
        except DamagedError as error:
            show.line(f"trial {trial} cannot be chosen: {error}")
            continue
        own = None
        if settings.command is None:
            own = trial_settings(
                {"game": settings.game, "training": settings.training}, hparams,
                seed=settings.seed, trial=trial,
            )  # fmt: skip
        candidates.append(
            Candidate(
                trial=trial, checkpoint=path, settings=own, hparams=hparams,
                score=score * world.sign,
            )
        )  # fmt: skip
    if not candidates:
        return None
    episodes = settings.evaluation_episodes if settings.command is None else 0
    if episodes:
        trials = ", ".join(str(each.trial) for each in candidates)
        show.line(f"the best by their scores, trials {trials}, play {episodes} fresh episodes each")

    def progress(done: int, total: int) -> None:
        if done and done % max(1, total // 4) == 0:
            show.line(f"{done} of {total} episodes played")

    try:
        return pick_winner(
            candidates, folder, episodes=episodes, seed=settings.seed, mode=settings.mode,
            processes=len(world.nodes), progress=progress,
        )  # fmt: skip
    except LiveError as error:
        show.line(f"no winner could be chosen: {error}")
        return None


def command_of(settings: LiveSettings) -> str:
    """Return the command that runs such a search again, for a shell."""
    what = (
        ["--game", settings.game] if settings.command is None else ["--command", settings.command]
    )
    words = [
        "simsched", "live", *map(str, what), "--nodes", str(settings.nodes),
        "--workers", str(settings.workers), "--scheduler", settings.scheduler,
        "--phases", str(settings.phases), "--phase-length", str(settings.phase_length),
        "--unit", settings.unit, "--seed", str(settings.seed),
    ]  # fmt: skip
    return shlex.join(words)


def _versions(settings: LiveSettings) -> dict[str, str]:
    return machine.versions() if settings.command is None else {"simsched": settings.version}


def settings_of(settings: LiveSettings, result: RunResult, curves: TraceSet | None) -> Settings:
    """Return a live search's settings in the terms of a comparison, its costs as measured."""
    costs = measured_costs(result.timeline.intervals)
    return Settings(
        version=settings.version,
        traces=CURVES,
        traces_sha256="" if curves is None else curves.sha256,
        game=settings.game or "",
        metric=settings.metric,
        mode=settings.mode,
        synthetic=False,
        recorded_trials=0 if curves is None else len(curves.traces),
        nodes=(settings.nodes,),
        node_speeds=(1.0,),
        workers=(settings.workers,),
        schedulers=(settings.scheduler,),
        phases=settings.phases,
        phase_length=settings.phase_length,
        unit=settings.unit,
        start_s=costs.start_s,
        save_s=costs.save_s,
        load_s=costs.load_s,
        replications=1,
        resample=False,
        seed=settings.seed,
    )


def write_curves(
    result: RunResult,
    settings: LiveSettings,
    workshop: "Workshop",
    folder: Path,
    completed: Ledger | None,
) -> TraceSet | None:
    """Write the run's own learning curves as a trace file, and return them."""
    traces: list[Trace] = []
    later = {} if completed is None else completed.trials
    for trial in result.trials:
        record = later.get(trial.trial)
        fate = trial.fate if record is None or record.fate is None else record.fate
        trace = workshop.curve(trial.trial).trace(trial.trial, trial.hparams, fate)
        if trace is not None:
            traces.append(trace)
    if not traces:
        return None
    metadata = Metadata(
        game=settings.game or "",
        metric=settings.metric,
        mode=settings.mode,
        resource_note="seconds are wall time of training, without starting, loading, saving "
        "and waiting",
        space=settings.space,
        seed=settings.seed,
        hardware=machine.processor(),
        versions=_versions(settings),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        recorded_by=f"simsched live --scheduler {settings.scheduler}, {settings.nodes} nodes; "
        + ("completed afterwards" if completed is not None else "the scheduler ended trials early"),
        ends={str(trace.trial): trace.end for trace in traces},
    )
    made = TraceSet(folder.name, None, metadata, tuple(traces))
    write(made, folder / CURVES)
    return made


def span_s(result: RunResult) -> float:
    """Return how long the run took, in seconds."""
    return result.timeline.end_us / US_PER_S
