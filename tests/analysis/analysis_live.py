"""Searches that really ran, as far as an analysis can tell, and how busy their nodes were."""

from typing import Any

import msgspec
import numpy as np
from analysis_runs import comparison, hand_made, settings

from simsched.analysis.figures import usage
from simsched.results import Comparison, Measured, RunResult, Usage

COMMAND = "simsched live --game MsPacman --nodes 2 --scheduler hypertrick --seed 0"
GB = 10**9


def samples(
    nodes: int, end_s: float, *, every_s: float, gpu: bool = True, gap: tuple[float, float] = (0, 0)
) -> tuple[Usage, ...]:
    """Node n uses 50 + n percent of its cores, 20 + n of its GPU and n + 1 GB of its memory."""
    found = []
    for node in range(nodes):
        for at_s in np.arange(every_s, end_s + every_s / 2, every_s).tolist():
            if gap[0] < at_s <= gap[1]:
                continue
            of_gpu: dict[str, Any] = {
                "gpu_percent": 20.0 + node, "gpu_memory_bytes": (node + 1) * GB,
            }  # fmt: skip
            found.append(
                Usage(
                    at_s=at_s, node=node, over_s=every_s, cpu_percent=50.0 + node,
                    **(of_gpu if gpu else {}),
                )
            )  # fmt: skip
    return tuple(found)


def measured(run: RunResult, **changes: Any) -> Measured:
    given: dict[str, Any] = {
        "command": COMMAND,
        "date": "2026-11-21",
        "hardware": "a processor, 16 cores; a GPU",
        "versions": {"simsched": "0.1.0", "torch": "2.13.0"},
        "nodes": tuple(f"GPU {node}" for node in range(run.nodes)),
        "usage": samples(run.nodes, run.wall_time_s, every_s=run.wall_time_s / 100),
        **changes,
    }
    return Measured(**given)


def live(**changes: Any) -> Comparison:
    """Relabel the run that was written by hand: 100 s on two nodes."""
    run = hand_made()
    place = settings(
        nodes=(2,), workers=(3,), phases=2, start_s=5.0, save_s=5.0, load_s=0.0451, game="MsPacman",
        traces="curves.parquet", recorded_trials=3,
    )  # fmt: skip
    place = msgspec.structs.replace(
        place, **{key: changes.pop(key) for key in ("game", "mode") if key in changes}
    )
    if "run" in changes:
        run = changes.pop("run")
    return Comparison(place, (run,), measured(run, **changes))


def large(nodes: int = 40, **changes: Any) -> Comparison:
    given = comparison(["asha"], nodes=(nodes,), workers=(60,), phases=4)
    return Comparison(given.settings, given.runs, measured(given.runs[0], **changes))


def usage_of(given: Comparison, measure: Any) -> Any:
    figure = usage(given, measure)
    assert figure is not None
    return figure
