"""Small trace files whose simulations can be worked out by hand."""

from pathlib import Path

import numpy as np

from simsched.traces import Metadata, Trace, TraceSet, write

HEAD = "trial,seconds,steps,episodes,score,hp.lr"


def ladder(
    path: str | Path,
    trials: int = 4,
    rows: int = 4,
    *,
    ends: tuple[str, ...] = ("complete",),
    mode: str = "max",
    synthetic: bool = False,
) -> str:
    """Write curves that rise: row r (from 1) of trial t is at 10 r seconds, 100 r steps and r
    episodes, with the score t + r/10. `ends` are dealt out in turn; a trial that is not
    complete ends halfway.
    """
    made = []
    for trial in range(trials):
        end = ends[trial % len(ends)]
        count = np.arange(1, (rows if end == "complete" else rows // 2) + 1)
        made.append(
            Trace(
                trial=trial,
                hparams={"lr": 10.0 ** -(trial % 5 + 1), "t_max": 2 + trial},
                end=end,  # type: ignore[arg-type]
                seconds=(count * 10).astype(np.float64),
                steps=count * 100,
                episodes=count,
                score=(trial + count / 10).astype(np.float64),
            )
        )
    meta = Metadata(game="Ladder", mode=mode, synthetic=synthetic)  # type: ignore[arg-type]
    write(TraceSet("ladder", None, meta, tuple(made)), path)
    return str(path)


def lines(path: str | Path, *rows: str, head: str = HEAD) -> str:
    """Write a CSV file line by line."""
    Path(path).write_text("\n".join((head, *rows)) + "\n")
    return str(path)
