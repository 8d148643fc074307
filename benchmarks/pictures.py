"""What the benchmarks that make figures share: results as JSON lines, pictures by Chromium."""

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

import msgspec
import plotly.graph_objects as go
from playwright.sync_api import sync_playwright

T = TypeVar("T")


def read_results(path: Path, kind: type[T]) -> list[T]:
    """Return what a file of JSON lines holds; none without the file.

    A last line that a kill cut short is dropped from the file.
    """
    if not path.exists():
        return []
    text = path.read_text()
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        path.write_text(text)
    return [msgspec.json.decode(line, type=kind) for line in text.splitlines()]


def append_result(path: Path, result: msgspec.Struct) -> None:
    """Append a result as a line of JSON."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(msgspec.json.encode(result).decode() + "\n")


def seeds_of(counts: Collection[int]) -> str:
    """Say how many seeds the lines of a figure rest on, given the number of each line."""
    least, most = min(counts, default=0), max(counts, default=0)
    if least == most:
        return f"{most} seed" + ("" if most == 1 else "s")
    return f"{least} to {most} seeds"


def render(figure: go.Figure, path: Path, width: int, height: int) -> None:
    """Write a Plotly figure as PNG, `width` x `height` pixels, twice as many of the screen's."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        page_file = Path(name) / "figure.html"
        figure.update_layout(width=width, height=height)
        figure.write_html(page_file, include_plotlyjs=True, config={"displayModeBar": False})
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": width + 40, "height": height + 40}, device_scale_factor=1.5
        )
        page.goto(page_file.as_uri())
        page.wait_for_selector(".plotly-graph-div .main-svg")
        page.wait_for_timeout(500)
        page.locator(".plotly-graph-div").screenshot(path=path)
        browser.close()
