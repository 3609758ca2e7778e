"""Corpora in ranges of any size: each document once, whole, in order; sentences lose no letter."""

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from pipelines.corpus import reader, sentences
from tests import strategies

_LINES = strategies.texts(5).map(lambda text: " ".join(text.replace("\0", "").split()))
_DOCUMENTS = st.lists(st.lists(_LINES.filter(bool), min_size=1, max_size=4), max_size=8)
_BLANK = st.sampled_from(["\n", "\n\n\n", " \t\n", "\r\n"])


def _read(path, kind, range_bytes):
    size = path.stat().st_size
    ranges = reader.plan_ranges([reader.CorpusFile(str(path), kind, size)], range_bytes)
    found = [s for r in ranges for s in reader.read_sections(r, reader.ReadOptions())]
    assert len({section.document for section in found}) == len(found)  # none is long
    return [section.sentences for section in found]


@given(documents=_DOCUMENTS, blanks=st.lists(_BLANK, min_size=9), range_bytes=st.integers(1, 400))
def test_documents_of_sentences(tmp_path_factory, documents, blanks, range_bytes):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    parts = []
    for document, blank in zip(documents, blanks, strict=False):
        parts += [f"{line}\n" for line in document] + [blank]
    assume(not "".join(parts).startswith("\ufeff"))  # there it is a mark, and no text
    path.write_bytes("".join(parts).encode())
    assert _read(path, "sentences", range_bytes) == [
        [line.strip() for line in document] for document in documents
    ]


@given(
    documents=st.lists(st.lists(_LINES, max_size=3).map("\n".join), max_size=8),
    range_bytes=st.integers(1, 400),
    ascii_only=st.booleans(),
)
def test_documents_of_json_lines(tmp_path_factory, documents, range_bytes, ascii_only):
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    lines = [json.dumps({"text": text}, ensure_ascii=ascii_only) + "\n" for text in documents]
    path.write_text("".join(lines), "utf-8")
    found = _read(path, "jsonl", range_bytes)
    wanted = [sentences.prose_sentences(text.strip(), unwrap=False) for text in documents]
    assert found == [document for document in wanted if document]


@given(st.lists(_LINES | st.sampled_from(["Dr. No said: no.", "e.g. this", "Wait... What?!", ""])))
def test_sentences_are_the_text(lines):
    text = "\n".join(lines)
    found = sentences.prose_sentences(text, unwrap=False)
    assert all(sentence.strip() and sentence == sentence.rstrip() for sentence in found)
    # Line ends are lost between wide characters only, as of Chinese.
    assert "".join(found).replace("\n", "") == text.rstrip().replace("\n", "")
    unwrapped = sentences.prose_sentences(text)
    assert "".join("".join(unwrapped).split()) == "".join(text.split())
