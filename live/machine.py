"""What a recording says about where it was made: processor and versions, no names of hosts."""

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Collection
from pathlib import Path

from simsched._version import __version__
from simsched.live.errors import LiveError

TRAINING_PACKAGES = ("torch", "gymnasium", "ale-py")


def require_training_packages() -> None:
    """Raise LiveError if a package that training needs is not installed."""
    for package in TRAINING_PACKAGES:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            raise LiveError(
                f"{package} is not installed, training needs it: pip install 'simsched[live]'"
            )


def versions() -> dict[str, str]:
    """Return the versions of what takes part in training."""
    names = [*TRAINING_PACKAGES, "numpy"]
    if importlib.util.find_spec("minatar") is not None:
        names.append("minatar")
    packages = {name: importlib.metadata.version(name) for name in names}
    return {"simsched": __version__, "python": platform.python_version(), **packages}


def available_cores() -> list[int]:
    """Return the numbers of the processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin_to_cores(cores: Collection[int]) -> None:
    """Keep this process and its threads on these cores, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(cores))


def processor() -> str:
    """Return the processor's model and how many cores the machine has."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {os.cpu_count()} cores"
