"""`simsched replay`: a live search beside its simulation, and beside searches that it was not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from simsched.errors import SimschedError
from simsched.events import Adopt
from simsched.live.agreement import Agreement, compare, in_words
from simsched.live.past_costs import Measured, Score, measure
from simsched.live.past_run import PastRun, read_run
from simsched.live.rerun import Simulated, mean_costs, rerun, retraced_costs
from simsched.results import Comparison, RunResult, Settings, run_fields
from simsched.schedulers import parse
from simsched.timeline import US_PER_S


class Replayed(NamedTuple):
    """A live search, and what simulations make of it."""

    run: PastRun
    measured: Measured
    predicted: Simulated
    """With the mean of each cost."""
    retraced: Simulated
    """With each cost as it was where the search had it."""
    others: list[RunResult]
    """Other schedulers, or more or fewer nodes, with the mean of each cost."""

    @property
    def wrong_scores(self) -> list[Score]:
        """Scores that are not those that the replay's rule finds, with no reason for it."""
        return [each for each in self.measured.scores if not each.agrees]

    @property
    def agrees(self) -> bool:
        """Whether all decisions and scores are those of the journal."""
        return self.run.checked.difference is None and not self.wrong_scores

    def agreement(self, simulated: Simulated) -> Agreement:
        """Compare the verdicts of a simulation with the search's."""
        return compare(self.run.records, simulated.records)


def replay_run(folder: Path, schedulers: Sequence[str] = (), nodes: Sequence[int] = ()) -> Replayed:
    """Simulate a live search again.

    Args:
        folder: of the search, over or not; nothing in it is touched.
        schedulers: others to simulate with the same curves and costs; by default, where `nodes`
            are given, the search's own.
        nodes: how many nodes those have; by default as many as the search had.

    Raises:
        SimschedError: it is no such folder, or its journal is damaged; a scheduler is not known or
            does not fit the plan.
    """
    texts = ["".join(text.split()) for text in schedulers]
    for text in texts:
        parse(text)
    if len(set(texts)) < len(texts):
        raise SimschedError(f"scheduler: {', '.join(texts)}: name none twice")
    run = read_run(folder)
    measured = measure(run)
    means = mean_costs(measured)
    own, own_nodes = run.settings.scheduler, run.settings.nodes
    cases = [
        (text, count)
        for count in (nodes or [own_nodes])
        for text in (texts or [own])
        if (text, count) != (own, own_nodes)
    ]
    return Replayed(
        run,
        measured,
        rerun(run, means),
        rerun(run, retraced_costs(measured)),
        [rerun(run, means, text, count).result for text, count in cases],
    )


def comparison(replayed: Replayed) -> Comparison:
    """Return the search as it was predicted, and the others beside it, as tables take them."""
    run, runs = replayed.run, (replayed.predicted.result, *replayed.others)
    settings, costs = run.settings, replayed.measured.costs
    means = {kind: cost.mean_us / US_PER_S for kind, cost in costs.items()}
    trained = sum(bool(pieces[0].scores) for pieces in run.curves)
    return Comparison(
        Settings(
            version=settings.version,
            traces=str(run.folder),
            traces_sha256="",
            game=settings.game or "",
            metric=settings.metric,
            mode=settings.mode,
            synthetic=False,
            recorded_trials=trained,
            nodes=tuple(dict.fromkeys(each.nodes for each in runs)),
            node_speeds=(1.0,),
            workers=(settings.workers,),
            schedulers=tuple(dict.fromkeys(each.scheduler for each in runs)),
            phases=settings.phases,
            phase_length=settings.phase_length,
            unit=settings.unit,
            start_s=means.get("start", 0.0),
            save_s=means.get("save", 0.0),
            load_s=means.get("load", 0.0),
            replications=1,
            resample=False,
            seed=settings.seed,
        ),
        runs,
    )


def cautions(replayed: Replayed) -> list[str]:
    """Return what to keep in mind of the others."""
    run, costs, found = replayed.run, replayed.measured.costs, list[str]()
    if "load" not in costs and any(each.loads for each in replayed.others):
        found.append("the run loaded no checkpoint, so loading costs nothing here")
    if "save" not in costs and any(each.saves for each in replayed.others):
        found.append("the run saved no checkpoint, so saving costs nothing here")
    if any(each.nodes > run.settings.nodes for each in replayed.others):
        found.append(
            f"starting and training take as long as on the run's {run.settings.nodes:,} nodes; "
            "more of them on the same machine would be slower"
        )
    if any(isinstance(command, Adopt) for record in run.records for command in record.commands):
        found.append(
            "hyperparameters changed in mid-run, and with them the curves that are replayed"
        )
    return found


def replayed_json(replayed: Replayed) -> bytes:
    """Return all of it as indented JSON; times in seconds."""
    run, measured = replayed.run, replayed.measured
    scores = measured.scores
    values = {
        "run": {
            "folder": str(run.folder),
            "ended": run.ended,
            "settings": msgspec.to_builtins(run.settings),
        },
        "decisions": run.checked._asdict(),
        "scores": {
            "checked": len(scores),
            "equal": sum(each.why is None and each.told == each.found for each in scores),
            "others": [
                _score(each, run.sign) for each in scores if each.why is not None or not each.agrees
            ],
        },
        "lost": {
            "failures": measured.lost.failures,
            "interruptions": measured.lost.interruptions,
            "node_s": measured.lost.node_us / US_PER_S,
        },
        "costs": {
            kind: {
                "samples": cost.samples,
                "mean_s": cost.mean_us / US_PER_S,
                "median_s": cost.median_us / US_PER_S,
                "least_s": cost.least_us / US_PER_S,
                "most_s": cost.most_us / US_PER_S,
            }
            for kind, cost in measured.costs.items()
        },
        "actual": run_fields(run.result),
        "predicted": _simulated(replayed, replayed.predicted),
        "retraced": _simulated(replayed, replayed.retraced),
        "others": [run_fields(each) for each in replayed.others],
        "cautions": cautions(replayed),
    }
    return msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n"


def _score(score: Score, sign: float) -> dict[str, Any]:
    return {
        "trial": score.trial,
        "step": score.step,
        "journal": None if score.told is None else score.told * sign,
        "replay": None if score.found is None else score.found * sign,
        "why": score.why,
    }


def _simulated(replayed: Replayed, simulated: Simulated) -> dict[str, Any]:
    agreement = replayed.agreement(simulated)
    return {
        **run_fields(simulated.result),
        "milestones_with_the_same_decision": agreement.same,
        "differences": [
            {
                "trial": each.trial,
                "step": each.step,
                "actual": in_words(each.actual),
                "simulated": in_words(each.simulated),
            }
            for each in agreement.differences
        ],
    }
