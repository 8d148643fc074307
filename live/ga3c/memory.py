"""Keeps memory that was freed: every batch needs as much of it again."""

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Of mallopt(3)."""
_LARGEST_FROM_THE_HEAP = 32 << 20
"""The most that glibc accepts."""
_KEPT_AT_THE_TOP = 1 << 30


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed, and take large arrays from it too; return whether it does.

    Else batches are mapped anew and their pages cleared each time: some 45 page faults and a
    tenth of the time of a step where one thread acts and trains. It holds for this process.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_FROM_THE_HEAP)
        and mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_THE_TOP)
        and mallopt(_M_ARENA_MAX, 1)  # those of threads are given back however large they are
    )
