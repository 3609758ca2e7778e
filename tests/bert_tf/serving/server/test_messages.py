"""Mutated requests over HTTP and gRPC, and what is found wrong in answers."""

import pytest

from benchmarks.soak import messages
from benchmarks.soak.outcomes import Workspace

pytestmark = pytest.mark.more


def test_mutated_messages_are_answered_or_refused(serve, two_tasks, tmp_path):
    """The first messages of `make soak ARGS=--only=messages`."""
    server = serve()
    found = messages.Sender(server, two_tasks, Workspace(tmp_path, 0)).run(0, 600)
    assert found.failures == ()
    assert found.counts["messages"] == 600
    assert min(found.counts[result] for result in ("answered", "refused", "closed")) > 20


def _answer(status, body, kind=b"application/json", size=None):
    size = len(body) if size is None else size
    lines = b"HTTP/1.1 %d x\r\ncontent-length: %d\r\ncontent-type: %s\r\n\r\n"
    return lines % (status, size, kind) + body


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ("closed", None)),
        (_answer(200, b'{"a": [1.5]}') * 2, ("answered", None)),
        (_answer(200, b"<p>NaN", b"text/html"), ("answered", None)),
        (_answer(404, b'{"error": "Not Found"}'), ("refused", None)),
        (_answer(400, b'{"error": {"message": "no"}}'), ("refused", None)),
        (_answer(200, b"{}") + _answer(500, b"no"), ("refused", "500: b'no'")),
        (_answer(400, b'{"error": "a\\nb"}'), ("refused", "has several lines: 'a\\nb'")),
        (
            _answer(200, b'{"a": NaN}'),
            ("answered", "is not finite JSON: it has NaN: b'{\"a\": NaN}'"),
        ),
        (b"Traceback", ("closed", "is not an answer: b'Traceback'")),
    ],
)
def test_outcomes_of_answers(data, expected):
    assert messages.checked_answers(data, ended=False) == expected


def test_an_answer_may_lack_its_end_only_if_the_client_has_ended_the_request():
    data = _answer(200, b"{", size=2)
    assert messages.checked_answers(data, ended=True) == ("answered", None)
    assert "lacks its end" in messages.checked_answers(data, ended=False)[1]
