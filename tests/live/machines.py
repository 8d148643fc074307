"""Machines for tests: cores and GPUs as a test wants them."""

from pathlib import Path

import pytest
from fake_nvml import Device, install

from simsched.live import nodes as module
from simsched.live import nvml
from simsched.live.nodes import Node, ranges


class Machine:
    """Cores and GPUs as a test wants them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch, self._folder = monkeypatch, folder
        monkeypatch.setattr(module, "TOPOLOGY", folder / "cpu")
        monkeypatch.setattr(module, "CGROUPS", folder / "cgroup")
        monkeypatch.setattr(module, "OWN_CGROUP", folder / "own-cgroup")
        monkeypatch.setattr(nvml, "DRIVER", folder / "nvidiactl")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        self.gpus(0)

    def cores(self, *physical: tuple[int, ...]) -> None:
        """Physical cores, each with its hyperthreads."""
        numbers = sorted(thread for threads in physical for thread in threads)
        self._monkeypatch.setattr(module, "available_cores", lambda: numbers)
        for threads in physical:
            for thread in threads:
                folder = self._folder / "cpu" / f"cpu{thread}" / "topology"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "thread_siblings_list").write_text(f"{ranges(threads)}\n")

    def gpus(self, devices: int | list[Device], *, init_error: int | None = None) -> None:
        self.nvml = install(self._monkeypatch, devices, init_error=init_error)

    def quota(self, own: str, **limits: str) -> None:
        """Control groups: `own` is this process's, `limits` the cpu.max of each by name."""
        (self._folder / "own-cgroup").write_text(f"3:cpuset:/\n0::/{own}\n")
        for depth in range(len(Path(own).parts) + 1):
            folder = self._folder.joinpath("cgroup", *Path(own).parts[:depth])
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name in limits:
                (folder / "cpu.max").write_text(limits[folder.name] + "\n")


def cores_of(nodes: list[Node]) -> list[tuple[int, ...]]:
    return [node.cores for node in nodes]


def single(count: int) -> list[tuple[int]]:
    """Physical cores of one thread."""
    return [(core,) for core in range(count)]


def paired(count: int) -> list[tuple[int, int]]:
    """Physical cores of two threads, numbered as on most machines: 0 and 4, 1 and 5, …"""
    return [(core, core + count) for core in range(count)]
