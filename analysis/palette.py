"""Colours: one for each scheduler, trial and fate, each with its partner on a dark page.

The schedulers' colours keep a contrast of about 3:1 to the page and stay apart for people
with protanopia, deuteranopia and tritanopia (checked by a test with the matrices of
Machado, Oliveira and Fernandes 2009); lines differ in their dashes and marks as well.
"""

import math
from typing import Any, NamedTuple

from simsched.results import Fate
from simsched.timeline import Kind


class Style(NamedTuple):
    """How the lines of one scheduler look. `faint` fills areas behind `color`."""

    color: str
    faint: str
    dash: str
    symbol: str


class Fill(NamedTuple):
    """How a kind of time looks in a Gantt chart: plotly's pattern, and how dense it is."""

    shape: str
    solidity: float


SURFACE, TEXT, MUTED, GRID, AXIS, SHADE = (
    "#ffffff",
    "#1b2330",
    "#5c6675",
    "#e9ecf1",
    "#c6ccd6",
    "#f3f5f8",
)
"""What a figure is drawn on and with, on a light page."""

_NEUTRAL_DARK = ("#161a21", "#e7eaf0", "#9ba5b4", "#272d37", "#434c5a", "#1c212a")
_LINES = (
    ("#0074b3", "#2db8f9"),
    ("#be7400", "#e1b638"),
    ("#04a86f", "#82eda2"),
    ("#c07ac0", "#ba60a7"),
    ("#1f4196", "#088fd5"),
    ("#9d370c", "#e27b45"),
    ("#5f6161", "#afafb3"),
    ("#790800", "#b94b40"),
)
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "hexagon")

TRIAL_COLORS = 60
"""So many trials get a colour of their own; then the colours come round again."""
ON_TRIAL = "#14181f"
"""Text and hatching on a trial's colour, on either page."""

FILLS: dict[Kind, Fill] = {
    "train": Fill("", 0.0),
    "redo": Fill("x", 0.35),
    "start": Fill(".", 0.35),
    "save": Fill("/", 0.5),
    "load": Fill("\\", 0.5),
    "wait": Fill("-", 0.3),
    "held": Fill("|", 0.3),
    "grace": Fill("+", 0.3),
    "down": Fill("x", 0.6),
    "idle": Fill("", 0.0),
}

FATES: dict[Fate, str] = {
    "finished": _LINES[0][0],
    "stopped": "#8d97a5",
    "diverged": _LINES[5][0],
    "censored": _LINES[3][0],
    "lost": _LINES[7][0],
}


def _mixed(color: str, ground: str, share: float) -> str:
    """Return `share` of a colour on a ground, as one opaque colour."""
    pairs = zip(_channels(color), _channels(ground), strict=True)
    return _hex(tuple(share * above + (1 - share) * below for above, below in pairs))


def _channels(color: str) -> tuple[int, ...]:
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def _hex(channels: tuple[float, ...]) -> str:
    return "#" + "".join(f"{min(255, max(0, round(channel))):02x}" for channel in channels)


def _faint(index: int) -> tuple[str, str]:
    light, dark = _LINES[index]
    return _mixed(light, SURFACE, 0.28), _mixed(dark, _NEUTRAL_DARK[0], 0.34)


DARK: dict[str, str] = {
    **dict(zip((SURFACE, TEXT, MUTED, GRID, AXIS, SHADE), _NEUTRAL_DARK, strict=True)),
    **dict(_LINES),
    **dict(_faint(index) for index in range(len(_LINES))),
    "#8d97a5": "#6b7686",
}
"""Each colour of a light page with its partner on a dark one."""


def scheduler_style(index: int) -> Style:
    """Return the look of the scheduler that stands at `index` in its comparison."""
    turn = index % len(_LINES)
    return Style(
        color=_LINES[turn][0],
        faint=_faint(turn)[0],
        dash=_DASHES[index % len(_DASHES)],
        symbol=_SYMBOLS[turn],
    )


def _trial_color(index: int) -> str:
    """Return a colour at the golden angle from its neighbours, light enough for dark text.

    Hue, chroma and lightness are those of OKLCH (Ottosson 2020).
    """
    hue = math.radians(35 + 137.50776 * index)
    lightness = (0.76, 0.68, 0.84)[index % 3]
    a, b = 0.115 * math.cos(hue), 0.115 * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return _hex(tuple(255 * _srgb(channel) for channel in linear))


def _srgb(linear: float) -> float:
    if linear <= 0.0031308:
        return 12.92 * linear
    return float(1.055 * linear ** (1 / 2.4) - 0.055)


def trial_colorscale() -> list[tuple[float, str]]:
    """Return a stepped colour scale: the numbers 0 … TRIAL_COLORS - 1 on cmin = -0.5."""
    scale: list[tuple[float, str]] = []
    for index in range(TRIAL_COLORS):
        color = _trial_color(index)
        scale += [(index / TRIAL_COLORS, color), ((index + 1) / TRIAL_COLORS, color)]
    return scale


def base_layout(**changes: Any) -> dict[str, Any]:
    """Return the layout that all figures share; a report's page swaps its colours by `DARK`."""
    return {
        "template": "none",
        "paper_bgcolor": SURFACE,
        "plot_bgcolor": SURFACE,
        "font": {"family": FONTS, "size": 12, "color": MUTED},
        "margin": {"l": 48, "r": 16, "t": 64, "b": 40},
        "hoverlabel": {
            "bgcolor": SURFACE,
            "bordercolor": AXIS,
            "font": {"family": FONTS, "color": TEXT, "size": 12},
            "align": "left",
        },
        "legend": {
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.0,
            "xanchor": "left",
            "x": 0,
            "font": {"color": TEXT},
            "bgcolor": "rgba(0,0,0,0)",
        },
        "uirevision": "kept",
        **changes,
    }


FONTS = (
    "Inter, ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', "
    "Arial, sans-serif"
)


def axis(**changes: Any) -> dict[str, Any]:
    """Return an axis in the shared look."""
    return {
        "gridcolor": GRID,
        "linecolor": AXIS,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "tickfont": {"color": MUTED},
        "automargin": True,
        **changes,
    }
