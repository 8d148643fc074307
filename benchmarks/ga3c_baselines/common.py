"""What the baselines share: options, a word on stderr, one line of JSON. Nothing of simsched."""

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any

PACKAGES = ("torch", "ale-py", "gymnasium", "stable-baselines3")


def parser(documentation: str, *, agents: int, seconds: float | None) -> argparse.ArgumentParser:
    """Return a parser of what all take; its description is the first line of `documentation`.

    Args:
        documentation: of the script.
        agents: how many there are by default.
        seconds: default length of the measured window; None where there is no such window.
    """
    made = argparse.ArgumentParser(description=documentation.partition("\n")[0])
    made.add_argument("--game", default="Pong", help="MsPacman, CartPole-v1, MinAtar/Breakout-v1 …")
    made.add_argument("--agents", type=int, default=agents, help=f"default {agents}")
    made.add_argument("--seed", type=int, default=0, help="default 0")
    if seconds is not None:
        text = f"length of the measured window, default {seconds:g}"
        made.add_argument("--seconds", type=float, default=seconds, help=text)
        text = "seconds before it, default 10"
        made.add_argument("--warmup", type=float, default=10.0, help=text)
    return made


def parse(of: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; exit with 2 and one line of error for numbers that cannot work."""
    chosen = of.parse_args()
    for name, value in vars(chosen).items():
        positive = name in (
            "agents",
            "seconds",
            "steps",
            "n_steps",
            "cores",
            "learning_rate",
            "threads",
            "torch_threads",
        )
        if isinstance(value, int | float) and not (value > 0 if positive else value >= 0):
            option = "--" + name.replace("_", "-")
            of.error(f"{option}: {value} must be {'above 0' if positive else '0 or more'}")
    return chosen


def run(main: Callable[[], None]) -> None:
    """Run a script; Ctrl-C ends it with 130 and without a traceback."""
    try:
        main()
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def report(baseline: str, settings: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Print the one line: what was run, with which settings and versions, and what came of it."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0))
    print(
        json.dumps(
            {
                "baseline": baseline,
                **settings,
                **result,
                "cores_allowed": cores,
                "versions": versions,
            }
        )
    )
