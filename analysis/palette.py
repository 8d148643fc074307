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
    """How a kind of time looks in a Gantt chart: Plotly's pattern, its density, or a shade."""

    shape: str
    solidity: float
    shade: float


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
    ("#04aa71", "#82eda2"),
    ("#c47cc4", "#ba60a7"),
    ("#1f4196", "#088fd5"),
    ("#9d370c", "#e27b45"),
    ("#5f6161", "#afafb3"),
    ("#790800", "#b94b40"),
)
LINE_COLORS = tuple(light for light, _ in _LINES)
"""The schedulers' colours on a light page, in order."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "hexagon")

TRIAL_COLORS = 60
"""So many trials get a colour of their own; then the colours come round again."""
ON_TRIAL = "#14181f"
"""Text and hatching on a trial's colour, on either page."""
KEY = "#b6bfcc"
"""What stands for any trial's colour in a legend."""
DOWN = "#7d8797"
"""A node that is out of service, on either page: darker than any trial, and of no hue."""

FILLS: dict[Kind, Fill] = {
    "train": Fill("", 0.0, 0.0),
    "redo": Fill("x", 0.5, 0.4),
    "start": Fill(".", 0.4, 0.2),
    "save": Fill("/", 0.5, 0.6),
    "load": Fill("\\", 0.5, 0.35),
    "wait": Fill("-", 0.35, 0.15),
    "held": Fill("|", 0.35, 0.15),
    "grace": Fill("+", 0.35, 0.15),
    "down": Fill("", 0.0, 0.0),
    "idle": Fill("", 0.0, 0.0),
}

FATES: dict[Fate, str] = {
    "finished": _LINES[0][0],
    "stopped": "#8d97a5",
    "diverged": _LINES[5][0],
    "censored": _LINES[3][0],
    "lost": _LINES[7][0],
}


def mixed(color: str, ground: str, share: float) -> str:
    """Return `share` of a colour on a ground, as one opaque colour."""
    pairs = zip(_channels(color), _channels(ground), strict=True)
    return _hex(tuple(share * above + (1 - share) * below for above, below in pairs))


def _channels(color: str) -> tuple[int, ...]:
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def _hex(channels: tuple[float, ...]) -> str:
    return "#" + "".join(f"{min(255, max(0, round(channel))):02x}" for channel in channels)


def _faint(index: int) -> tuple[str, str]:
    light, dark = _LINES[index]
    return mixed(light, SURFACE, 0.28), mixed(dark, _NEUTRAL_DARK[0], 0.34)


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


def trial_color(trial: int) -> str:
    """Return a trial's colour: the same in every chart, light enough for dark text.

    Neighbours are a golden angle apart in hue, in OKLCH (Ottosson 2020).
    """
    return _TRIALS[trial % TRIAL_COLORS]


def _golden(index: int) -> str:
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


_TRIALS = tuple(_golden(index) for index in range(TRIAL_COLORS))


def base_layout(**changes: Any) -> dict[str, Any]:
    """Return the layout that all figures share; a report's page swaps its colours by `DARK`."""
    return {
        "template": "none",
        "paper_bgcolor": SURFACE,
        "plot_bgcolor": SURFACE,
        "font": {"family": FONTS, "size": 12, "color": MUTED},
        "margin": {"l": 52, "r": 24, "t": 92, "b": 40},
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
