"""The nodes of this machine: its GPUs, or sets of processor cores where it has none."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from simsched.live.errors import LiveError
from simsched.live.machine import available_cores
from simsched.live.nvml import Gpu, visible_gpus

TOPOLOGY = Path("/sys/devices/system/cpu")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A place that trains one trial at a time."""

    number: int
    name: str
    """"core 0", "cores 0-3", "GPU 0", or "GPU 0, 1 of 2" where nodes share a GPU."""
    cores: tuple[int, ...]
    """Numbers of the cores that its worker is kept on."""
    gpu: int | None = None
    """Number of its GPU, as nvidia-smi counts."""
    gpu_uuid: str | None = None
    gpu_name: str | None = None
    gpu_memory_bytes: int | None = None
    """Of the whole GPU."""
    gpu_share: int = 1
    """How many nodes share the GPU."""


def find_nodes(
    nodes: int | None = None,
    nodes_per_gpu: int | None = None,
    cores_per_node: int | None = None,
) -> list[Node]:
    """Return the nodes that a search on this machine gets.

    With GPUs there is a node for each, and the cores are shared out evenly; without, a node for
    each core.

    Args:
        nodes: how many; None takes all there are.
        nodes_per_gpu: how many share a GPU; then several may also share a core.
        cores_per_node: cores of each node. Nodes without GPU never share one.

    Raises:
        LiveError: more was asked for than is there; the line says what would be right.
    """
    asked = {
        "--nodes": nodes,
        "--nodes-per-gpu": nodes_per_gpu,
        "--cores-per-node": cores_per_node,
    }
    for option, value in asked.items():
        if value is not None and value < 1:
            raise LiveError(f"{option} {value}: must be 1 or more")
    cores = usable_cores()
    if cores_per_node is not None and cores_per_node > len(cores):
        raise LiveError(
            f"--cores-per-node {cores_per_node}: this machine has {counted(len(cores), 'core')} "
            f"to use; ask for at most {len(cores)}"
        )
    gpus = visible_gpus()
    if gpus:
        return _gpu_nodes(gpus, cores, nodes, nodes_per_gpu, cores_per_node)
    if nodes_per_gpu is not None:
        raise LiveError(
            f"--nodes-per-gpu {nodes_per_gpu}: no GPU was found here; leave it out, and nodes "
            "are sets of cores (--cores-per-node)"
        )
    return _core_nodes(cores, nodes, cores_per_node or 1)


def _core_nodes(cores: Sequence[int], nodes: int | None, each: int) -> list[Node]:
    most = len(cores) // each
    if nodes is not None and nodes > most:
        smaller = len(cores) // nodes
        instead = f", or for --cores-per-node {smaller}" if smaller else ""
        raise LiveError(
            f"--nodes {nodes}: this machine has {counted(len(cores), 'core')} to use, which make "
            f"{counted(most, 'node')} of {counted(each, 'core')}; ask for at most {most}{instead}"
        )
    return [
        Node(number=number, name=f"core{'s' * (len(own) > 1)} {ranges(own)}", cores=own)
        for number, own in enumerate(_deal(cores, nodes or most, each))
    ]


def _gpu_nodes(
    gpus: Sequence[Gpu],
    cores: Sequence[int],
    nodes: int | None,
    per_gpu: int | None,
    cores_per_node: int | None,
) -> list[Node]:
    most = len(gpus) * (per_gpu or 1)
    count = most if nodes is None else nodes
    if count > most:
        enough = -(-count // len(gpus))
        raise LiveError(
            f"--nodes {nodes}: this machine has {counted(len(gpus), 'GPU')} to use, which make "
            f"{counted(most, 'node')}; ask for at most {most}, or for --nodes-per-gpu {enough}"
        )
    shares = [len(range(k, count, len(gpus))) for k in range(len(gpus))]
    found: list[Node] = []
    dealt = iter(_share_out(cores, count, cores_per_node))
    for gpu, share in zip(gpus, shares, strict=True):
        name = f"GPU {gpu.index}" + (f" part {gpu.slice}" if gpu.slice is not None else "")
        for place in range(share):
            found.append(
                Node(
                    number=len(found),
                    name=name if share == 1 else f"{name}, {place + 1} of {share}",
                    cores=next(dealt),
                    gpu=gpu.index,
                    gpu_uuid=gpu.uuid,
                    gpu_name=gpu.name,
                    gpu_memory_bytes=gpu.memory_bytes,
                    gpu_share=share,
                )
            )
    return found


def _share_out(
    cores: Sequence[int], count: int, cores_per_node: int | None
) -> list[tuple[int, ...]]:
    """Return the cores of each node with a GPU: as many for each, disjoint if there are enough."""
    each = cores_per_node or max(1, len(cores) // count)
    if count * each <= len(cores):
        return _deal(cores, count, each)
    if cores_per_node is not None:
        fitting = len(cores) // count
        right = f"ask for at most {fitting}, or leave it out" if fitting else "leave it out"
        raise LiveError(
            f"--cores-per-node {each}: {counted(count, 'node')} of {counted(each, 'core')} need "
            f"{count * each}, this machine has {len(cores)} to use; {right}"
        )
    return [(cores[number % len(cores)],) for number in range(count)]


def _deal(cores: Sequence[int], count: int, each: int) -> list[tuple[int, ...]]:
    """Return disjoint sets of `each` cores; there are enough of them.

    No two sets have hyperthreads of one physical core if that can be: a node's speed should not
    depend on what its neighbour does.
    """
    physical = sorted(_physical_cores(cores), key=lambda threads: (-len(threads), threads))
    apart: list[tuple[int, ...]] = []
    waiting = iter(physical)
    own: list[int] = []
    while len(apart) < count and (threads := next(waiting, None)) is not None:
        own += threads[: each - len(own)]
        if len(own) == each:
            apart.append(tuple(sorted(own)))
            own = []
    if len(apart) == count:
        return apart
    adjacent = [thread for threads in physical for thread in threads]
    return [tuple(sorted(adjacent[k * each : (k + 1) * each])) for k in range(count)]


def _physical_cores(cores: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the cores, those together that are hyperthreads of one physical core."""
    usable, groups = set(cores), dict[tuple[int, ...], None]()
    for core in cores:
        path = TOPOLOGY / f"cpu{core}" / "topology" / "thread_siblings_list"
        try:
            siblings = usable & set(parse_ranges(path.read_text()))
        except (OSError, ValueError):
            siblings = set()
        groups[tuple(sorted(siblings | {core}))] = None
    return list(groups)


def usable_cores() -> list[int]:
    """Return the numbers of the cores this process may use, no more than its container pays for."""
    cores = available_cores()
    limit = _quota_cores()
    return cores if limit is None else cores[: max(1, int(limit))]


def _quota_cores() -> float | None:
    """Return to how many cores' time the control groups (v2) limit this process, if they do."""
    try:
        entries = OWN_CGROUP.read_text().splitlines()
    except OSError:
        return None
    own = next((entry.removeprefix("0::/") for entry in entries if entry.startswith("0::/")), None)
    if own is None:
        return None
    limits = []
    for folder in (CGROUPS / own, *(CGROUPS / own).parents):
        if not folder.is_relative_to(CGROUPS):
            break
        try:
            quota, period = (folder / "cpu.max").read_text().split()
        except (OSError, ValueError):
            continue  # a group without the limit
        if quota != "max":
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as the system writes lists of cores: 0-3,8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def parse_ranges(text: str) -> list[int]:
    """Return the numbers in a list such as 0-3,8. Raises ValueError if it is none."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def counted(count: int, noun: str) -> str:
    """Return "1 core", "2 cores"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cores_left(nodes: Sequence[Node]) -> int:
    """Return how many cores could be used here that no node has."""
    return len(set(usable_cores()) - {core for node in nodes for core in node.cores})
