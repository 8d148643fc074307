"""The browser that reports are opened in."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    from analysis_browser import CHROMIUM, PATIENCE_MS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture
def browser(chromium: "Browser") -> "Iterator[Browser]":
    """Chromium; pages are closed after each test, as some take much memory."""
    yield chromium
    for context in list(chromium.contexts):
        context.close()
