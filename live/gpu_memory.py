"""Whether a GPU's memory is free again after a worker."""

import asyncio
import logging
import time
from collections.abc import Collection

from simsched.live import nvml
from simsched.live.nodes import Node

SLACK_BYTES = 32 << 20
"""What a GPU's memory in use may have grown by: the driver keeps some for itself."""
POLL_S = 0.1

logger = logging.getLogger(__name__)


def gpu_memory_in_use(node: Node) -> int | None:
    """Return the bytes in use on a node's GPU; None without GPU, or where nobody can tell."""
    if node.gpu_uuid is None:
        return None
    with nvml.session() as library:
        return None if library is None else nvml.used_memory(library, node.gpu_uuid)


async def wait_for_gpu_memory(
    node: Node, before_bytes: int | None, timeout_s: float, pids: Collection[int] = ()
) -> bool:
    """Wait until a GPU's memory is back after a worker and its group are gone.

    Where the GPU is one node's alone, it is back when no more is in use than before the worker
    started, but for `SLACK_BYTES`. Where nodes share the GPU that tells nothing, as the others'
    use changes too: it is back when NVML lists none of the worker's processes, and the memory
    in use falls no further.

    Args:
        node: whose worker is gone.
        before_bytes: in use before it was started; None where that is not known.
        timeout_s: how long to wait; then a warning is logged. In a container NVML does not tell
            whose memory it is, so it may be another program's.
        pids: the worker's processes.

    Returns whether it is back.
    """
    if node.gpu_uuid is None:
        return True
    deadline_s = time.monotonic() + timeout_s
    last: int | None = None
    with nvml.session() as library:
        while library is not None:
            used = await asyncio.to_thread(nvml.used_memory, library, node.gpu_uuid)
            if used is None:
                return True  # a GPU that does not tell
            if node.gpu_share == 1 and before_bytes is not None:
                back = used <= before_bytes + SLACK_BYTES
            else:
                listed = nvml.memory_by_process(library, node.gpu_uuid)
                back = last is not None and used >= last and not set(pids) & set(listed)
            if back:
                return True
            if time.monotonic() >= deadline_s:
                _warn(node, used, before_bytes, timeout_s)
                return False
            last = used
            await asyncio.sleep(min(POLL_S, timeout_s))
    return True


def _warn(node: Node, used: int, before_bytes: int | None, timeout_s: float) -> None:
    before = "" if before_bytes is None else f", {before_bytes / 2**20:,.0f} MiB before it started"
    logger.warning(
        "%s: %s MiB of its memory are in use %g s after its worker is gone%s; "
        "if no other program has them, the worker's are not free",
        node.name,
        f"{used / 2**20:,.0f}",
        timeout_s,
        before,
        extra={"node": node.number},
    )
