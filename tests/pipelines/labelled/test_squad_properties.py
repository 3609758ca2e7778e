"""SQuAD's files come back as they were written."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pipelines.labelled import squad
from pipelines.labelled.schema import AnswerSpan
from tests import strategies

_TEXT = strategies.texts(4)


@st.composite
def _paragraphs(draw):
    """A context, and questions with answers of it; None: unknown."""
    context = draw(_TEXT)
    questions = []
    for text in draw(st.lists(_TEXT, max_size=3)):
        answers = None
        if draw(st.booleans()):
            starts = draw(st.lists(st.integers(0, len(context)), max_size=3))
            answers = [(context[s : s + 5], s) for s in starts]  # empty at the end
        questions.append((text, answers))
    return context, questions


@given(
    articles=st.lists(st.lists(_paragraphs(), max_size=3), max_size=3),
    form=st.sampled_from([int, str, float]),
    impossible=st.booleans(),
)
def test_questions(tmp_path_factory, articles, form, impossible):
    path = tmp_path_factory.mktemp("squad") / "dev.json"
    expected, data = [], []
    for paragraphs in articles:
        written = []
        for context, questions in paragraphs:
            qas = []
            for text, answers in questions:
                entry = {"id": f"q{len(expected)}", "question": text}
                if answers is not None:
                    entry["answers"] = [{"text": a, "answer_start": form(s)} for a, s in answers]
                    entry["is_impossible"] = impossible
                known = None if answers is None else tuple(AnswerSpan(*a) for a in answers if a[0])
                qas.append(entry)
                none = answers is not None and impossible
                expected.append((entry["id"], text, context, () if none else known))
            written.append({"context": context, "qas": qas})
        data.append({"title": "T", "paragraphs": written})
    path.write_text(json.dumps({"version": "1.1", "data": data}), "utf-8")
    assert squad.is_squad(str(path))
    if not expected:
        return
    found = squad.read(str(path))
    assert [(e.key, e.question, e.context, e.answers) for e in found] == expected
