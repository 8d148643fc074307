"""States of a search, made up to be shown."""

from collections.abc import Sequence
from typing import Any

from simsched.live.settings import LiveSettings
from simsched.live.status import Doing, NodeStatus, Status
from simsched.space import PUBLISHED_GA3C


def settings(**changes: Any) -> LiveSettings:
    given: dict[str, Any] = {
        "version": "1", "code": "", "game": "MsPacman", "nodes": 6, "workers": 16,
        "phases": 4, "phase_length": 100_000, "space": PUBLISHED_GA3C.to_json(), **changes,
    }  # fmt: skip
    return LiveSettings(**given)


def node(number: int, doing: Doing = "training", **changes: Any) -> NodeStatus:
    given: dict[str, Any] = {"node": number, "name": f"GPU {number}", "doing": doing}
    if doing not in ("idle", "out of service"):
        given |= {
            "trial": number + 3, "attempt": 17, "phase": 1, "count": 123_456.0, "until": 200_000,
            "score": 340.25, "steps_per_s": 1512.5,
        }  # fmt: skip
    given |= {"cpu_percent": 93.4, "gpu_percent": 45.6, "gpu_memory_bytes": 1_300_000_000}
    return NodeStatus(**{**given, **changes})


def status(nodes: Sequence[NodeStatus], **changes: Any) -> Status:
    given: dict[str, Any] = {
        "elapsed_s": 723.4, "nodes": nodes, "trials": 16, "started": 12,
        "fates": {"stopped": 3, "finished": 1}, "paused": 2, "milestones": 23,
        "best_score": 1412.5, "best_trial": 7,
        "best_hparams": {"learning_rate": 0.00034567, "t_max": 5, "gamma": 0.99},
        "failures": 1, "checkpoint_bytes": 12_345_678, "time_left_s": 440.2, "progress": 0.624,
        **changes,
    }  # fmt: skip
    return Status(**given)
