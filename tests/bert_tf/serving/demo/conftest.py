"""The page in a real browser."""

import contextlib

import pytest

from bert_tf.serving.demo import page as demo_page
from tests import browsing
from tests.bert_tf.serving.demo import served
from tests.browsing import WIDE, browser  # noqa: F401  (a fixture among them)

CANNED = "http://demo.test/"


@pytest.fixture(scope="module")
def address(predictor):
    with served.serve(predictor) as found:
        yield found


@pytest.fixture
def open_page(browser, address):  # noqa: F811
    """Opens the page at a signature; at the end, nothing must have gone wrong in it."""
    with contextlib.ExitStack() as stack:

        def open_one(name, viewport=WIDE, scheme="light", at=address, expected=()):
            page = stack.enter_context(
                browsing.watched(browser, (at, "data:"), viewport, scheme, expected)
            )
            page.goto(f"{at}#{name}")
            assert not page.locator("#failure").is_visible()
            return page, page.locator(".panel:visible")

        yield open_one


@pytest.fixture
def open_canned(browser):  # noqa: F811
    """Opens the page of a manifest, and answers with what is given."""
    with contextlib.ExitStack() as stack:

        def open_one(manifest, answer, expected=()):
            page = stack.enter_context(
                browsing.watched(browser, (CANNED, "data:"), expected=expected)
            )
            text = demo_page.render(manifest, "bert")
            page.route(CANNED, lambda route: route.fulfill(body=text, content_type="text/html"))
            page.route(f"{CANNED}v1/models/bert", lambda route: route.fulfill(json=served.STATES))
            page.route(f"{CANNED}v1/models/bert:predict", answer)
            page.goto(CANNED)
            return page, page.locator(".panel:visible")

        yield open_one
