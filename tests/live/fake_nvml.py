"""A machine with NVIDIA GPUs, for tests: the part of pynvml that simsched uses, as it behaves."""

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

NOT_SUPPORTED, NOT_FOUND, NOT_LOADED, NO_LIBRARY, UNINITIALIZED = 3, 6, 9, 12, 1
MISMATCH = 18


class NVMLError(Exception):
    """As in pynvml: the code is its value, its text says what it means."""

    texts: ClassVar = {
        1: "Uninitialized", 3: "Not Supported", 6: "Not Found", 9: "Driver Not Loaded",
        12: "NVML Shared Library Not Found", 18: "RM has detected an NVML/RM version mismatch.",
    }  # fmt: skip

    def __init__(self, value: int) -> None:
        self.value = value

    def __str__(self) -> str:
        return self.texts[self.value]


@dataclass(eq=False)
class Device:
    """A GPU, or a part of one; its memory and processes change as a test likes."""

    uuid: str
    name: str = "NVIDIA Test 80GB"
    total: int | None = 80 << 30
    used: int = 1 << 30
    busy: int | None = 40
    processes: dict[int, int | None] = field(default_factory=dict)
    parts: "list[Device | None] | None" = None
    lost: bool = False


class FakeNvml(ModuleType):
    """Stands for the module pynvml."""

    NVML_ERROR_LIBRARY_NOT_FOUND = NO_LIBRARY
    NVML_ERROR_DRIVER_NOT_LOADED = NOT_LOADED
    NVMLError = NVMLError

    def __init__(self, devices: list[Device], *, init_error: int | None = None) -> None:
        super().__init__("pynvml")
        self.devices, self.init_error, self.started = devices, init_error, 0

    def nvmlInit(self) -> None:  # noqa: N802
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.started += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self._need_start()
        self.started -= 1

    def _need_start(self) -> None:
        if not self.started:
            raise NVMLError(UNINITIALIZED)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._need_start()
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:  # noqa: N802
        self._need_start()
        if self.devices[index].lost:
            raise NVMLError(NOT_FOUND)
        return self.devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Device:  # noqa: N802
        self._need_start()
        everything = [*self.devices, *(p for d in self.devices for p in d.parts or [] if p)]
        for device in everything:
            if device.uuid == uuid and not device.lost:
                return device
        raise NVMLError(NOT_FOUND)

    def nvmlDeviceGetUUID(self, device: Device) -> str:  # noqa: N802
        return device.uuid

    def nvmlDeviceGetName(self, device: Device) -> str:  # noqa: N802
        return device.name

    def nvmlDeviceGetMemoryInfo(self, device: Device) -> Any:  # noqa: N802
        if device.total is None:
            raise NVMLError(NOT_SUPPORTED)
        return SimpleNamespace(
            total=device.total, used=device.used, free=device.total - device.used
        )

    def nvmlDeviceGetUtilizationRates(self, device: Device) -> Any:  # noqa: N802
        if device.busy is None:
            raise NVMLError(NOT_SUPPORTED)
        return SimpleNamespace(gpu=device.busy, memory=device.busy // 2)

    def nvmlDeviceGetComputeRunningProcesses(self, device: Device) -> list[Any]:  # noqa: N802
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in device.processes.items()
        ]

    def nvmlDeviceGetMigMode(self, device: Device) -> list[int]:  # noqa: N802
        if device.parts is None:
            raise NVMLError(NOT_SUPPORTED)
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Device) -> int:  # noqa: N802
        return len(device.parts or [])

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Device, index: int) -> Device:  # noqa: N802
        part = (device.parts or [])[index]
        if part is None:
            raise NVMLError(NOT_FOUND)
        return part


def install(
    monkeypatch: pytest.MonkeyPatch, devices: int | list[Device], *, init_error: int | None = None
) -> FakeNvml:
    """Give this process GPUs: so many, or these."""
    if isinstance(devices, int):
        devices = [Device(f"GPU-{k}{k}-{k:04d}") for k in range(devices)]
    nvml = FakeNvml(devices, init_error=init_error)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml
