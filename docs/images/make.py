"""Takes the pictures in README and docs from real report pages, in headless Chromium.

    python docs/images/make.py

Needs the dev group (playwright) and Debian's or Ubuntu's package chromium.
"""

import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import simsched

HERE = Path(__file__).parent


def report(folder: Path, name: str, **options: object) -> str:
    """Write a report on the shipped curves and return its address."""
    path = folder / f"{name}.html"
    simsched.write_report(simsched.simulate("MsPacman", **options), path)  # type: ignore[arg-type]
    return path.as_uri()


def shoot(page: Page, address: str, name: str, first: str, last: str) -> None:
    """Photograph the page from the top of one element to the bottom of another."""
    page.goto(address)
    page.wait_for_timeout(2000)
    boxes = [page.locator(selector).bounding_box() for selector in (first, last)]
    if boxes[0] is None or boxes[1] is None:
        raise LookupError(f"{name}: {first} or {last} is not on the page")
    top = max(0, boxes[0]["y"] - 12)
    height = boxes[1]["y"] + boxes[1]["height"] + 16 - top
    width = page.viewport_size["width"] if page.viewport_size else 1280
    clip = {"x": 0, "y": top, "width": width, "height": height}
    page.screenshot(path=HERE / f"{name}.png", full_page=True, clip=clip)  # type: ignore[arg-type]


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        published = report(folder, "published", save_s=15.0, load_s=15.0)
        pair = report(
            folder, "pair", save_s=15.0, load_s=15.0,
            schedulers=("successive-halving", "hypertrick"),
        )  # fmt: skip
        sizes = report(
            folder, "sizes", nodes=(2, 4, 8, 16), save_s=15.0, load_s=15.0, replications=5,
            schedulers=("successive-halving", "hyperband", "hypertrick"),
        )  # fmt: skip
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        light = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
        charts = "figure.chart >> nth={}"
        shoot(light, published, "report", "h1", charts.format(2))
        shoot(light, pair, "gantt", charts.format(2), charts.format(3))
        shoot(light, sizes, "sizes", "section#sizes", "section#sizes")
        dark = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        shoot(dark, published, "phone", "h1", charts.format(0))
        browser.close()


if __name__ == "__main__":
    main()
