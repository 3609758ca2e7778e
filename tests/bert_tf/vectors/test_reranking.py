"""Negatives that are hard to tell apart, and models that order neighbours anew."""

import json

import numpy as np
import pytest

from bert_tf.serving import reranking
from bert_tf.vectors import hard_negatives
from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from tests import commands

TEXTS = ["the small model", "a deep kernel", "the mask", "a kernel", "every shard", "the model"]


def _pairs(*rows):
    return [TextExample(str(n), f"x.tsv: line {n}", *row) for n, row in enumerate(rows)]


def test_negatives_are_the_nearest_texts_that_do_not_belong(folders):
    pairs = _pairs(*(("what ?", text) for text in TEXTS[:2]), *(("how ?", t) for t in TEXTS[1:]))
    rows = list(hard_negatives.mine(folders["pretrained"], pairs, 3))
    embed = Embedder(folders["pretrained"], EmbeddingSettings())
    for query, own in (("what ?", TEXTS[:2]), ("how ?", TEXTS[1:])):
        found = [(text, label) for first, text, label in rows if first == query]
        assert found[: len(own)] == [(text, "1") for text in own]
        others = [text for text in TEXTS if text not in own]
        a, b = embed([query])[0], embed(others)
        cosines = b @ a / np.linalg.norm(b, axis=1) / np.linalg.norm(a)
        nearest = [others[n] for n in np.argsort(-cosines, kind="stable")[:3]]
        assert found[len(own) :] == [(text, "0") for text in nearest]
    # A text is not irrelevant to itself, nor in the other direction.
    rows = list(hard_negatives.mine(folders["pretrained"], _pairs(("a", "b"), ("b", "c")), 3))
    assert rows == [("a", "b", "1"), ("a", "c", "0"), ("b", "c", "1")]
    with pytest.raises(InputError, match="every text_b belongs to every text_a"):
        list(hard_negatives.mine(folders["pretrained"], _pairs(("a", "b"), ("a", "c")), 1))


def test_commands_from_pairs_to_neighbours_in_a_new_order(folders, tmp_path):
    table = "text_a\ttext_b\n" + "".join(f'{text} "?\t{text}\n' for text in TEXTS)
    (tmp_path / "pairs.tsv").write_text(table)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    model = f"--model={folders['pretrained']}"
    mined = f"{tmp_path}/train.tsv"
    commands.done("mine-negatives", model, f"--input={tmp_path}/pairs.tsv", f"--output={mined}")
    same = (f"--input={tmp_path}/pairs.tsv", f"--output={tmp_path}/./pairs.tsv")
    error = commands.error_of(commands.run("mine-negatives", model, *same))
    assert "is the file of the texts; name another file" in error
    rows = [line.split("\t") for line in open(mined).read().splitlines()[1:]]
    assert rows[0] == [f'{TEXTS[0]} "?', TEXTS[0], "1"]
    labels = [row[2] for row in rows]
    assert labels == ["1", *"0000"] * 6
    vectors = f"{tmp_path}/v.npy"
    commands.done("embed", model, f"--input={tmp_path}/texts.txt", f"--output={vectors}")
    asked = ("neighbours", model, f"--vectors={vectors}", "--query=a model", "--json", "--count=4")
    before, after = (
        json.loads(commands.done(*asked, *more).stdout)["neighbours"]
        for more in ((), (f"--rerank={folders['same']}",))
    )
    texts = [near["text"] for near in before]
    scores = dict(zip(texts, reranking.load(folders["same"])("a model", texts), strict=True))
    assert [near["text"] for near in after] == sorted(texts, key=lambda text: -scores[text])
    assert [near["similarity"] for near in after] == pytest.approx(
        sorted(scores.values(), reverse=True), abs=1e-5
    )


def test_a_reranker_is_a_model_of_pairs(folders, export):
    assert len(reranking.load(folders["score"])("a", ["b", "c"])) == 2
    with pytest.raises(InputError, match="its task pick does not rank pairs; fine-tune"):
        reranking.load(folders["pick"])
