"""A real browser for pages of our own, headless, where this machine has one."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NO_PROGRAM = f"no browser on PATH: none of {', '.join(BROWSERS)}"
NO_DRIVER = "playwright is not installed"


def missing() -> str | None:
    """What is missing for a browser to be driven, None if nothing is."""
    if not any(map(shutil.which, BROWSERS)):
        return NO_PROGRAM
    return None if importlib.util.find_spec("playwright") else NO_DRIVER


@contextmanager
def browser() -> Iterator[Any]:
    """The first browser on PATH, driven by playwright."""
    from playwright.sync_api import sync_playwright

    program = next(found for name in BROWSERS if (found := shutil.which(name)))
    with sync_playwright() as driver:
        # Without a sandbox of its own, which root does not get: only pages that this program wrote are opened.
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()
