"""Colours: apart for everybody, and readable on either page."""

import itertools
from typing import Any

import numpy as np
import pytest

from simsched.analysis import palette

# Matrices of Machado, Oliveira and Fernandes 2009 for severity 1, on linear RGB.
VISION = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
LIGHT = list(palette.LINE_COLORS)
DARK = [palette.DARK[color] for color in LIGHT]


def linear(color: str) -> Any:
    channels = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def oklab(rgb: Any) -> Any:
    return OKLAB @ np.cbrt(LMS @ np.clip(rgb, 0, 1))


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_scheduler_colours_stay_apart_for_the_colour_blind(colors: list[str], vision: str) -> None:
    seen = [oklab(VISION[vision] @ linear(color)) for color in colors]
    apart = min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))
    assert apart > 0.08


def test_colours_stand_out_from_the_page() -> None:
    assert min(contrast(color, palette.SURFACE) for color in LIGHT) > 2.95
    assert min(contrast(color, palette.DARK[palette.SURFACE]) for color in DARK) > 2.95
    assert contrast(palette.MUTED, palette.SURFACE) > 4.5
    dark_text = palette.DARK[palette.MUTED]
    assert contrast(dark_text, palette.DARK[palette.SURFACE]) > 4.5
    trials = [palette.trial_color(trial) for trial in range(palette.TRIAL_COLORS)]
    assert min(contrast(palette.ON_TRIAL, color) for color in trials) > 4.5
    assert len(set(trials)) == palette.TRIAL_COLORS


def test_neighbouring_trials_have_colours_far_apart() -> None:
    seen = [oklab(linear(palette.trial_color(trial))) for trial in range(palette.TRIAL_COLORS)]
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.pairwise(seen)) > 0.15
    first = itertools.combinations(seen[:16], 2)
    assert min(float(np.linalg.norm(a - b)) for a, b in first) > 0.04
