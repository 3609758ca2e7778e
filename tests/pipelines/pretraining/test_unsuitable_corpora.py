"""Corpora that the example writer refuses, or warns of."""

import glob
import shutil

import pytest

from pipelines.common.errors import InputError
from pipelines.pretraining import example_writer
from tests.conftest import make_documents, write_documents
from tests.pipelines.pretraining.written import HERE, request


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([[f"Sentence {i} here." for i in range(30)]], "one document.*--objective=mlm.*--format"),
        ([[f"The token {i}."] for i in range(30)], "every document is a single sentence"),
        (make_documents(5), "5 documents; to hold some out.*at least 20"),
    ],
)
def test_corpora_without_next_sentences_are_named(tmp_path, vocab_path, documents, message):
    path = write_documents(tmp_path / "c.txt", documents)
    with pytest.raises(InputError, match=message):
        example_writer.write(request(path, vocab_path, tmp_path / "o"), HERE)
    assert not glob.glob(f"{tmp_path}/o/*.tfrecord")


def test_a_vocabulary_is_no_text(tmp_path, vocab_path):
    write_documents(tmp_path / "c.txt", make_documents(30))
    shutil.copy(vocab_path, tmp_path / "vocab.txt")
    wanted = request(f"{tmp_path}/*.txt", f"{tmp_path}/./vocab.txt", tmp_path / "o")
    with pytest.raises(InputError, match="the vocabulary is among the files of the corpus"):
        example_writer.write(wanted, HERE)
    assert not (tmp_path / "o").exists()


def test_a_document_of_one_sentence_among_others_is_used_and_counted(tmp_path, vocab_path):
    path = write_documents(tmp_path / "c.txt", [*make_documents(30), ["The token reads."]])
    manifest = example_writer.write(request(path, vocab_path, tmp_path / "o"), HERE)
    assert manifest["text"]["one_sentence_documents"] == 1


def test_documents_of_one_sentence_and_unknown_words_are_told(tmp_path, vocab_path, caplog):
    """As tweets are; without pairs, nothing is said of the first."""
    tweets = [["日本日本日本日本 the token."]] * 40
    path = write_documents(tmp_path / "c.txt", [*make_documents(3), *tweets])
    example_writer.write(request(path, vocab_path, tmp_path / "pairs"), HERE)
    unknown, single = caplog.messages
    assert "c.txt: " in unknown and "are unknown to the vocabulary, most often '日'" in unknown
    assert single.startswith("40 of 43 documents have one sentence")
    assert "--objective=mlm" in single
    caplog.clear()
    tokens = tmp_path / "tokens.txt"
    tokens.write_text(open(vocab_path).read() + "日\n本\n")
    example_writer.write(request(path, str(tokens), tmp_path / "spans", objective="mlm"), HERE)
    assert not caplog.messages


def test_text_without_a_token_is_an_error(tmp_path, vocab_path):
    (tmp_path / "c.txt").write_text(" \n\u200b\n \n")
    with pytest.raises(InputError, match="no text"):
        example_writer.write(request(str(tmp_path / "c.txt"), vocab_path, tmp_path / "o"), HERE)


def test_holding_out_all_but_one_document_is_refused(tmp_path, vocab_path):
    path = write_documents(tmp_path / "c.txt", make_documents(20))
    with pytest.raises(InputError, match="leaves [01] documents? to train on; at least 2"):
        example_writer.write(
            request(path, vocab_path, tmp_path / "o", held_out_fraction=0.99), HERE
        )
