"""Syne Tune's side of peers.py; runs under Syne Tune's own Python, without simsched.

    PYTHON peers_syne.py simulate CURVES.npz asha 16
    PYTHON peers_syne.py decide CURVES.npz REPORTS.json

`simulate` runs a search in Syne Tune's simulator as its own examples do: a tabular blackbox, the
simulator's callback, no sleep, no saving of the tuner, nothing printed in between. The trials come
from a list, so no searcher draws or is fitted. `decide` tells Syne Tune's ASHA the
reports of another run, in their order, and gives its answers. Both print one line of JSON.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

os.environ["SYNETUNE_FOLDER"] = tempfile.gettempdir()  # before syne_tune is imported
logging.disable(logging.WARNING)
METRIC, EPOCH, ELAPSED, TRIAL = "y0", "epoch", "y1", "trial"
REDUCTION = 3


def point(trial: int) -> dict[str, int]:
    """Return a trial's configuration: two numbers, as its table fails with a single one."""
    return {TRIAL: trial, "parity": trial % 2}


def make_space(trials: int) -> dict[str, Any]:
    """Return the space of such configurations."""
    from syne_tune.config_space import randint

    return {TRIAL: randint(0, trials - 1), "parity": randint(0, 1)}


def make_searcher(trials: int) -> Any:
    """Return a searcher that hands out trials 0, 1, 2, …, learns nothing, and runs out."""
    from syne_tune.optimizer.schedulers.searchers.searcher import BaseSearcher

    class Given(BaseSearcher):  # type: ignore[misc]
        """Cheaper than any of Syne Tune's own."""

        def suggest(self, **_: Any) -> dict[str, Any] | None:
            given: dict[str, Any] | None = self._next_points_to_evaluate()
            return given

        def on_trial_result(self, *_: Any, **__: Any) -> None:
            return

        on_trial_complete = on_trial_result

    return Given(make_space(trials), [point(trial) for trial in range(trials)], random_seed=0)


def make_scheduler(name: str, trials: int, epochs: int) -> Any:
    """Return a scheduler that starts trials 0, 1, 2, … and wants large scores."""
    from syne_tune.optimizer.schedulers.asha import AsynchronousSuccessiveHalving
    from syne_tune.optimizer.schedulers.single_fidelity_scheduler import SingleFidelityScheduler

    space, searcher = make_space(trials), make_searcher(trials)
    common: dict[str, Any] = {"do_minimize": False, "random_seed": 0, "searcher": searcher}
    if name == "random":
        return SingleFidelityScheduler(space, metrics=[METRIC], **common)
    brackets = {"asha": 1, "hyperband": int(np.log(epochs) / np.log(REDUCTION)) + 1}[name]
    return AsynchronousSuccessiveHalving(
        space, metric=METRIC, time_attr=EPOCH, max_t=epochs, brackets=brackets,
        reduction_factor=REDUCTION, **common,
    )  # fmt: skip


def make_backend(elapsed_s: np.ndarray, score: np.ndarray) -> Any:
    """Return a simulator over a table of curves, each (trials, epochs)."""
    import pandas as pd
    from syne_tune.backend.simulator_backend.simulator_backend import SimulatorConfig
    from syne_tune.blackbox_repository.blackbox_tabular import BlackboxTabular
    from syne_tune.blackbox_repository.simulated_tabular_backend import UserBlackboxBackend
    from syne_tune.config_space import randint

    trials, epochs = score.shape
    table = BlackboxTabular(
        hyperparameters=pd.DataFrame([point(trial) for trial in range(trials)]),
        configuration_space=make_space(trials),
        fidelity_space={EPOCH: randint(1, epochs)},
        objectives_evaluations=np.stack([score, elapsed_s], axis=-1)[:, None],
    )
    no_delays = SimulatorConfig(0.0, 0.0, 0.0, 0.0, 0.0)
    return UserBlackboxBackend(table, elapsed_time_attr=ELAPSED, simulator_config=no_delays)


def simulate(curves: Path, name: str, workers: int) -> dict[str, Any]:
    """Run one search; return its reports, CPU seconds, makespan, and who stopped when."""
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend.simulator_backend.simulator_callback import SimulatorCallback

    data = np.load(curves)
    trials, epochs = data["score"].shape
    callback = SimulatorCallback()
    tuner = Tuner(
        trial_backend=make_backend(data["elapsed_s"], data["score"]),
        scheduler=make_scheduler(name, trials, epochs),
        stop_criterion=StoppingCriterion(max_num_trials_started=trials + 1),
        n_workers=workers,
        wait_trial_completion_when_stopping=True,
        sleep_time=0,
        callbacks=[callback],
        results_update_interval=1e9,
        print_update_interval=1e9,
        save_tuner=False,
        tuner_name="peers",
    )
    start, wall = time.process_time(), time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        tuner.run()
    spent, wall = time.process_time() - start, time.perf_counter() - wall
    last = {row["trial_id"]: row[EPOCH] for row in callback.results}
    ends = [row["trial_id"] for row in callback.results if row[EPOCH] == last[row["trial_id"]]]
    return {
        "reports": len(callback.results),
        "trials": len(last),
        "cpu_s": spent,
        "wall_s": wall,
        "makespan_s": float(callback.results[-1]["st_tuner_time"]),
        "ends": [[int(trial), int(last[trial])] for trial in ends],
    }


def decide(curves: Path, reports: Path) -> dict[str, Any]:
    """Tell ASHA the reports [trial, epoch, score] in their order; return whether each stops."""
    from syne_tune.backend.trial_status import Trial

    trials, epochs = np.load(curves)["score"].shape
    scheduler = make_scheduler("asha", trials, epochs)
    started: dict[int, Any] = {}
    stops: list[bool] = []
    told = json.loads(reports.read_text())
    start = time.process_time()
    for number, epoch, score in told:
        if number not in started:
            started[number] = Trial(number, point(number), None)
            scheduler.on_trial_add(started[number])
        result = {METRIC: score, EPOCH: epoch}
        stops.append(scheduler.on_trial_result(started[number], result) == "STOP")
    return {"cpu_s": time.process_time() - start, "stops": stops}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("simulate", "decide"))
    parser.add_argument("curves", type=Path)
    parser.add_argument("more", nargs="+")
    options = parser.parse_args()
    if options.what == "simulate":
        found = simulate(options.curves, options.more[0], int(options.more[1]))
    else:
        found = decide(options.curves, Path(options.more[0]))
    json.dump(found, sys.stdout)
    print()


if __name__ == "__main__":
    main()
