"""Durations, numbers and names as people read them."""

import math

MISSING = "–"
"""Stands where there is no value."""


def duration(seconds: float) -> str:
    """Return a duration with two units at most: `12.3 s`, `41 m 10 s`, `1 h 03 m`, `4 d 06 h`.

    Below a tenth of a second it goes on in `ms` and `µs`; from 100 hours on it counts days.
    """
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 59.95:
        return _below_a_minute(seconds)
    whole_s = round(seconds)
    if whole_s < 3600:
        return f"{whole_s // 60} m {whole_s % 60:02d} s"
    whole_min = round(seconds / 60)
    if whole_min < 100 * 60:
        return f"{whole_min // 60} h {whole_min % 60:02d} m"
    whole_h = round(seconds / 3600)
    if whole_h < 1000 * 24:
        return f"{whole_h // 24} d {whole_h % 24:02d} h"
    return f"{seconds / 86400:.0f} d"


def _below_a_minute(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    if seconds >= 0.95:
        return f"{seconds:.1f} s"
    if seconds >= 0.0995:
        return f"{seconds:.2f} s"
    if seconds >= 0.0000995:
        return f"{seconds * 1e3:.{1 if seconds >= 0.00995 else 2}f} ms"
    return f"{seconds * 1e6:.0f} µs"


def rough_duration(seconds: float) -> str:
    """Return a duration in one unit with two digits, as a spread is written: `3.1 m`, `59 s`."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.95:
        return _below_a_minute(seconds)
    unit, size_s = "s", 1
    for larger, larger_s in (("m", 60), ("h", 3600), ("d", 86400)):
        if seconds >= larger_s - 0.05:
            unit, size_s = larger, larger_s
    amount = seconds / size_s
    return f"{amount:.{1 if amount < 9.95 else 0}f} {unit}"


def number(value: float, like: float | None = None) -> str:
    """Return a number with about four digits: `2456`, `17.80`, `0.0123`.

    `like` sets the number of decimals: a spread is written as its mean is.
    """
    if not math.isfinite(value):
        return MISSING
    size = abs(value if like is None else like)
    if size >= 1e7 or 0 < size < 1e-4:
        return f"{value:.2e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:.{_decimals(size)}f}"


def _decimals(size: float) -> int:
    if size >= 1000:
        return 0
    if size >= 100:
        return 1
    if size >= 1 or size == 0:
        return 2
    return 2 - math.floor(math.log10(size))


def percent(share: float) -> str:
    """Return a share of one in percent, with one decimal: `93.4 %`."""
    return f"{100 * share:.1f} %"


def bytes_of(value: float) -> str:
    """Return a number of bytes with three digits: `950 B`, `12.3 MB`, `2 GB`."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= 0.9995 * size:
            amount = value / size
            whole = amount >= 99.95 or amount == round(amount)
            decimals = 0 if whole else 1 if amount >= 9.995 else 2
            return f"{amount:.{decimals}f} {unit}"
    return f"{value:.0f} B"


def count(value: int) -> str:
    """Return a whole number with its thousands apart: `27 000` (no-break spaces)."""
    return f"{value:,}".replace(",", "\u00a0")


def plural(value: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `16 trials`."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def listing(items: list[str]) -> str:
    """Return names as they stand in a sentence: `a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
