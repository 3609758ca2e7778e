"""Sentences of words and tags, written in each layout, come back as they were."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pipelines.labelled import conll, text_files
from pipelines.labelled.source import Source
from tests import strategies

# "-DOCSTART-" begins a document; the tags tell sentences of lists.
_WORD = strategies.words().filter(lambda word: word == "".join(word.split()))
_SENTENCES = st.lists(
    st.lists(st.tuples(_WORD, strategies.labels()), min_size=1, max_size=5), min_size=1, max_size=5
)


def _write(tmp_path_factory, name, text):
    path = tmp_path_factory.mktemp("words") / name
    path.write_bytes(text.encode())
    return str(path)


def _found(path):
    found = text_files.read_words(Source(path), True)
    return [list(zip(e.words, e.tags, strict=True)) for e in found]


@given(
    sentences=_SENTENCES,
    gap=st.sampled_from(["\t", " ", "\tX\t", " X X "]),
    end=st.sampled_from(["\n", "\r\n"]),
    documents=st.booleans(),
)
def test_a_word_a_line(tmp_path_factory, sentences, gap, end, documents):
    """Words may begin with #, all those of a sentence too: what is laid out as words is words."""
    parts = [f"-DOCSTART-{gap}O{end}{end}"] if documents else []
    parts += ["".join(f"{w}{gap}{t}{end}" for w, t in words) + end for words in sentences]
    path = _write(tmp_path_factory, "t.conll", "".join(parts))
    assert _found(path) == sentences
    assert all(example.tags for example in conll.read(Source(path), labelled=None))


@given(sentences=_SENTENCES, newdoc=st.booleans())
def test_conllu(tmp_path_factory, sentences, newdoc):
    """With comments before sentences, tokens of several words, and empty ones."""
    parts = []
    for number, words in enumerate(sentences):
        parts += ["# newdoc\n"] * newdoc + [f"# sent_id = {number}\n#\n"]
        for place, (word, tag) in enumerate(words, 1):
            parts.append(f"{place}\t{word}\t_\t{tag}" + "\t_" * 6 + "\n")
            parts.append(f"{place}.1\tnot\t_\tX" + "\t_" * 6 + "\n")
        parts.append("1-2\tnot\t_\tX" + "\t_" * 6 + "\n\n")
    path = _write(tmp_path_factory, "t.conllu", "".join(parts))
    assert _found(path) == sentences
    groups = [example.document for example in conll.read(Source(path))]
    assert len(set(groups)) == (len(sentences) if newdoc else 1)


@given(sentences=_SENTENCES)
def test_a_sentence_a_row(tmp_path_factory, sentences):
    rows = [{"words": [w for w, _ in s], "tags": [t for _, t in s]} for s in sentences]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert _found(_write(tmp_path_factory, "t.jsonl", text)) == sentences
    lines = [f"{' '.join(row['words'])}\t{' '.join(row['tags'])}\n" for row in rows]
    path = _write(tmp_path_factory, "t.tsv", "".join(["words\ttags\n", *lines]))
    assert _found(path) == sentences
