"""Numbers and times as a terminal's narrow columns have them."""

MISSING = "–"
"""Stands where there is no value."""


def printable(text: str) -> str:
    """Return one line without what could move a terminal's cursor or change its colours."""
    return "".join(char if char.isprintable() else " " for char in text).strip()


def clock(seconds: float) -> str:
    """Return a duration such as `0:12:03`."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def share(value: float) -> str:
    """Return a share of one in percent: `42 %`. It is 100 only where nothing is left."""
    percent = 100 * min(1.0, max(0.0, value))
    return f"{99 if 99 < percent < 100 else round(percent)} %"


def short(count: float) -> str:
    """Return a count in at most five characters up to a billion: `950`, `12.3k`, `1.25M`."""
    for unit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= 0.9995 * unit:
            return f"{_three_digits(count / unit)}{sign}"
    return _three_digits(count)


def size(number: int | float) -> str:
    """Return bytes as people say them: `12.3 MB`."""
    for unit, sign in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= 0.9995 * unit:
            return f"{_three_digits(number / unit)} {sign}"
    return f"{number:.0f} B"


def _three_digits(value: float) -> str:
    """Return a number with three digits, or all before its point."""
    if value == round(value) or abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.{1 if abs(value) >= 9.995 else 2}f}"


def figure(score: float | None) -> str:
    """Return a score in at most nine characters."""
    if score is None:
        return MISSING
    if abs(score) >= 1e5:
        return short(score) if abs(score) < 1e12 else f"{score:.2g}"
    text = f"{score:.1f}" if abs(score) >= 100 else f"{score:.4g}"
    return text if len(text) <= 9 else f"{score:.2g}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `16 trials`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
