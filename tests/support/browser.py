"""A real Chromium, started once for all tests of a process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from playwright.sync_api import expect as expect
else:

    def expect(locator: object) -> object:
        """Assertions that wait until they hold. The package is large, and only these tests need it."""
        from playwright.sync_api import expect as made

        return made(locator)


WIDE, PHONE = (1280, 800), (390, 844)


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser; its tests are skipped where it is not installed."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        assert "HERMES_TEST_ALL_PROGRAMS" not in os.environ, "chromium is not installed"
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root may not use the browser's own sandbox; the pages here are ours.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, url: str, size: tuple[int, int] = WIDE, colours: str = "light", *, javascript: bool = True
) -> Generator[Page]:
    """A page in a window of its own. Errors on its console fail the test."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if colours == "dark" else "light",
        java_script_enabled=javascript,
    )
    context.set_default_timeout(60_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
    assert [problem for problem in problems if "Failed to load resource" not in problem] == []
