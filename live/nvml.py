"""What NVML, NVIDIA's management library, says of the GPUs here: none where there is no driver."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

Nvml: TypeAlias = Any
"""The module pynvml, of the package nvidia-ml-py; it has no types."""

DRIVER = Path("/dev/nvidiactl")
HIDE_ALL = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES that people use to hide every GPU."""

logger = logging.getLogger(__name__)


class Gpu(msgspec.Struct, frozen=True):
    """A GPU, or a part of one that the driver keeps apart (MIG)."""

    index: int
    """Of the whole GPU, as NVML and nvidia-smi number them."""
    uuid: str
    name: str
    memory_bytes: int | None
    """None where the GPU has no memory of its own."""
    slice: int | None = None
    """Number of the MIG part; None for a whole GPU."""


@contextmanager
def session() -> Iterator[Nvml | None]:
    """Give pynvml with NVML started; None where there is no package or no driver."""
    try:
        nvml: Nvml = import_module("pynvml")
    except ImportError:
        if DRIVER.exists():
            logger.warning("GPUs are not seen without nvidia-ml-py: pip install 'simsched[live]'")
        yield None
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        absent = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
        if error.value not in absent:
            logger.warning("GPUs are not seen: NVML does not start: %s", error)
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves: all if it is not set, in its order.

    Its numbers are taken in NVML's order, that of CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    with session() as nvml:
        gpus = [] if nvml is None else _all_gpus(nvml)
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return gpus
    visible = _chosen(gpus, value)
    if gpus and not visible and value.strip() not in HIDE_ALL:
        logger.warning(
            "CUDA_VISIBLE_DEVICES=%s names no GPU of this machine, which has %s to %s",
            value, gpus[0].index, gpus[-1].index,
        )  # fmt: skip
    return visible


def _all_gpus(nvml: Nvml) -> list[Gpu]:
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            parts = _mig_parts(nvml, handle)
            if parts is None:
                found.append(_gpu(nvml, handle, index, None))
            else:
                found += [_gpu(nvml, part, index, number) for number, part in parts]
        except nvml.NVMLError as error:  # lost, or not this user's: the others still work
            logger.warning("GPU %s cannot be used: %s", index, error)
    return found


def _mig_parts(nvml: Nvml, handle: Any) -> list[tuple[int, Any]] | None:
    """Return the handles of a GPU's MIG parts; None where it is not divided."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        return None  # a GPU that cannot be divided
    if not current:
        return None
    parts = []
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            parts.append((number, nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)))
        except nvml.NVMLError:
            continue  # no part has this number
    return parts


def _gpu(nvml: Nvml, handle: Any, index: int, part: int | None) -> Gpu:
    try:
        memory_bytes = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:
        memory_bytes = None
    uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
    return Gpu(index, uuid, name, memory_bytes, part)


def _chosen(gpus: list[Gpu], value: str) -> list[Gpu]:
    """Return what CUDA takes from CUDA_VISIBLE_DEVICES: all before the first unknown entry."""
    chosen: list[Gpu] = []
    for entry in value.split(","):
        entry = entry.strip()
        if entry.isdecimal():
            named = [gpu for gpu in gpus if gpu.index == int(entry)]
        else:
            named = [gpu for gpu in gpus if entry and gpu.uuid.startswith(entry)]
            named = named if len(named) == 1 else []
        if not named:
            break
        chosen += [gpu for gpu in named if gpu not in chosen]
    return chosen


def utilization(nvml: Nvml, uuid: str) -> float | None:
    """Return the percentage of time that a GPU was busy lately; None where nobody can tell."""
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except nvml.NVMLError:
        return None


def used_memory(nvml: Nvml, uuid: str) -> int | None:
    """Return the bytes of a GPU's memory that are in use; None where nobody can tell."""
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
    except nvml.NVMLError:
        return None


def memory_by_process(nvml: Nvml, uuid: str) -> dict[int, int]:
    """Return the bytes that each process has on a GPU, by its id.

    Empty, or with ids that mean nothing here, in a container: NVML knows the host's processes.
    """
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError:
        return {}
    return {process.pid: process.usedGpuMemory or 0 for process in processes}
