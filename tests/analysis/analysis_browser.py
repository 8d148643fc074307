"""Reports as a browser shows them, offline; `conftest.py` has the browser."""

import shutil
import time
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
PATIENCE_MS = 180_000
"""How long a busy machine may take for what is a matter of seconds."""

DRAWN = """
() => [...document.querySelectorAll('.plot')]
  .filter((box) => box.closest('[hidden]') === null)
  .map((box) => [
    box.id,
    box.classList.contains('js-plotly-plot'),
    box.querySelectorAll(
      'svg .bars .point path, svg .scatterlayer path, svg .heatmaplayer image, svg .fills path'
    ).length,
  ])
"""


class Opened:
    """A page that was opened offline, with all that it asked for and complained of."""

    def __init__(self, context: BrowserContext, path: Path) -> None:
        context.set_default_timeout(PATIENCE_MS)
        context.set_offline(True)
        self.page: Page = context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())
        self.ready()

    def ready(self) -> None:
        self.page.wait_for_selector("html[data-ready=true]", timeout=PATIENCE_MS)

    def until(self, expression: str) -> None:
        """Wait for an expression to hold; the page's policy forbids the browser's own eval."""
        end_s = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < end_s, f"never came true: {expression}"
            self.page.wait_for_timeout(100)

    def said_of(self, chart: str, bar: int = 0) -> str:
        """What is shown while the mouse points at a bar of a chart."""
        self.page.locator(chart).scroll_into_view_if_needed()
        box = self.page.locator(f"{chart} .bars .point path").nth(bar).bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.wait_for_selector(f"{chart} .hoverlayer .hovertext")
        return self.page.locator(f"{chart} .hoverlayer").text_content() or ""


def opened(browser: Browser, path: Path, width: int = 1280, scheme: str = "light") -> Opened:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",  # else a chart still moves when its place is asked for
    )
    return Opened(context, path)
