"""A real browser for the tests of pages."""

import contextlib
import os
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser():
    """Chromium, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@contextlib.contextmanager
def watched(browser, allowed, viewport=WIDE, scheme="light", expected=()):
    """A page; at the end, nothing must have gone wrong in it, or been asked for elsewhere.

    Args:
      browser: the fixture.
      allowed: how the addresses begin that it may ask for.
      viewport: its size.
      scheme: "light" or "dark".
      expected: parts of messages in the console that are no mistakes.
    """
    problems = []

    def note(message):
        if message.type == "error" and not any(part in message.text for part in expected):
            problems.append(message.text)

    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", note)
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda r: r.url.startswith(tuple(allowed)) or problems.append(r.url))
    yield page
    context.close()
    assert not problems, problems


def fits(page):
    """Whether a page has no more width than its window."""
    return page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
