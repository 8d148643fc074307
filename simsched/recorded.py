"""What a comparison asks of recorded trials: their name, length, order and search space."""

import msgspec

from simsched.draws import keyed
from simsched.errors import SimschedError
from simsched.messages import Hparams, Unit
from simsched.replay import scored
from simsched.results import Settings
from simsched.space import SearchSpace, infer
from simsched.traces import TraceSet, is_shipped


def name_of(recorded: TraceSet) -> str:
    """Return the name of shipped curves, and of a file its own."""
    return recorded.name if recorded.path is None or is_shipped(recorded) else recorded.path.name


def trial_length(recorded: TraceSet, index: int, unit: Unit) -> float:
    """Return how long a recorded trial is, in `unit`."""
    trace = recorded.traces[index]
    return float(len(scored(trace)) if unit == "reports" else getattr(trace, unit)[-1])


def default_phase_length(recorded: TraceSet, unit: Unit, phases: int) -> int:
    """Return the longest phase that fits every complete trial, rounded down to two digits."""
    complete = [i for i, trace in enumerate(recorded.traces) if trace.end == "complete"]
    among = complete or range(len(recorded.traces))
    length, i = (min if complete else max)((trial_length(recorded, i, unit), i) for i in among)
    longest = int(length / phases)
    if longest < 1:
        raise SimschedError(
            f"recorded trial {recorded.traces[i].trial} of {name_of(recorded)} has "
            f"{length:,.10g} {unit}, fewer than the {phases:,} that {phases:,} phases of 1 need; "
            "ask for fewer phases"
        )
    digits: int = 10 ** max(0, len(str(longest)) - 2)
    return longest // digits * digits


def check_lengths(recorded: TraceSet, unit: Unit, phases: int, phase_length: int) -> None:
    """Refuse milestones that lie past the end of a complete trial."""
    needed = phases * phase_length
    for index, trace in enumerate(recorded.traces):
        length = trial_length(recorded, index, unit)
        if trace.end == "complete" and length < needed:
            raise SimschedError(
                f"recorded trial {trace.trial} of {name_of(recorded)} has {length:,.10g} {unit}, "
                f"fewer than the {needed:,} that {phases:,} phases of {phase_length:,} need; "
                "ask for fewer or shorter phases"
            )


def draw_order(settings: Settings, workers: int, replication: int) -> list[int]:
    """Return which recorded trial each trial replays, as places in the file.

    Replication 0 takes them in the order of the file, and what goes beyond them is drawn.
    """
    limit, seed = settings.recorded_trials, settings.seed
    if replication == 0:
        extra = keyed(seed, "resample", 0).integers(limit, size=max(0, workers - limit))
        return [*range(min(workers, limit)), *(int(i) for i in extra)]
    rng = keyed(seed, "resample" if settings.resample else "order", replication)
    if settings.resample:
        return [int(i) for i in rng.integers(limit, size=workers)]
    return [int(i) for i in rng.permutation(limit)[:workers]]


def space_of(recorded: TraceSet) -> SearchSpace:
    """Return the search space that the file declares, or one that holds all its trials.

    Raises:
        SimschedError: a trial is not in it.
    """
    declared = recorded.meta.space
    space = None if declared is None else SearchSpace.from_json(declared)
    names = set(recorded.traces[0].hparams if space is None else space.parameters)
    for trace in recorded.traces:
        if set(trace.hparams) != names:
            given = ", ".join(trace.hparams) or "none"
            where = "the search space" if space is not None else "the first trial"
            raise SimschedError(
                f"recorded trial {trace.trial} of {name_of(recorded)} has hyperparameters {given}; "
                f"{where} has {', '.join(sorted(names)) or 'none'}, and all must have the same"
            )
    if space is None:
        space = infer([trace.hparams for trace in recorded.traces])
    for trace in recorded.traces:
        try:
            space.encode(trace.hparams)
        except (ValueError, TypeError, OverflowError):
            said = msgspec.json.encode(declared).decode()
            raise _outside(recorded, trace.trial, trace.hparams, said) from None
    return space


def _outside(recorded: TraceSet, trial: int, hparams: Hparams, space: str) -> SimschedError:
    given = ", ".join(f"{name}={value}" for name, value in hparams.items()) or "no hyperparameters"
    return SimschedError(
        f"recorded trial {trial} of {name_of(recorded)} has {given}; "
        f"that is not in its search space: {space or 'empty'}"
    )
