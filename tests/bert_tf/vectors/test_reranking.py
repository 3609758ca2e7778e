"""Negatives that are hard to tell apart, and models that order neighbours anew."""

import dataclasses
import json
import os
import signal

import numpy as np
import pytest

from bert_tf.export import saved_model, sources
from bert_tf.models.head_config import Pooling
from bert_tf.serving import reranking
from bert_tf.vectors import hard_negatives, neighbours, run, vector_file
from bert_tf.vectors import model as models
from bert_tf.vectors.extractor import Embedder, FeatureExtractor
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.common import stopping
from pipelines.common.errors import InputError
from pipelines.labelled import multiple_choice
from pipelines.labelled.schema import TextExample
from pipelines.labelled.source import Source
from tests import commands
from tests.bert_tf.vectors.kills import each_moment

TEXTS = ["the small model", "a deep kernel", "the mask", "a kernel", "every shard", "the model"]


def _pairs(*rows):
    return [TextExample(str(n), f"x.tsv: line {n}", *row) for n, row in enumerate(rows)]


def _mine(model, path, pairs, count):
    """The rows that are written."""
    number = hard_negatives.mine(model, pairs, str(path), count)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert number == len(rows)
    assert not os.path.exists(f"{path}.partial")
    path.unlink()
    return rows


def test_negatives_are_the_nearest_texts_that_do_not_belong(folders, tmp_path):
    model, path = folders["pretrained"], tmp_path / "train.jsonl"
    pairs = _pairs(*(("what ?", text) for text in TEXTS[:2]), *(("how ?", t) for t in TEXTS[1:]))
    rows = _mine(model, path, pairs, 3)
    embed = Embedder(model, EmbeddingSettings())
    for query, belonging in (("what ?", TEXTS[:2]), ("how ?", TEXTS[1:])):
        found = [row for row in rows if row["context"] == query]
        assert [row["choices"].pop(row["label"]) for row in found] == belonging
        others = [text for text in TEXTS if text not in belonging]
        a, b = embed([query])[0], embed(others)
        cosines = b @ a / np.linalg.norm(b, axis=1) / np.linalg.norm(a)
        nearest = [others[n] for n in np.argsort(-cosines, kind="stable")[:3]]
        assert all(row["choices"] == nearest for row in found)
    # The right ones are at all places.
    assert [row["label"] for row in rows] == [0, 1, 0, 1, 0, 1, 0]
    # A text is not irrelevant to itself, nor in the other direction.
    rows = _mine(model, path, _pairs(("a", "b"), ("b", "c")), 3)
    assert rows == [{"context": "a", "choices": ["b", "c"], "label": 0}]
    with pytest.raises(InputError, match="line 1: a text is empty; fill it"):
        hard_negatives.mine(model, _pairs(("a", "b"), ("b", "")), str(path), 1)
    with pytest.raises(InputError, match="every text_b belongs to every text_a"):
        hard_negatives.mine(model, _pairs(("a", "b"), ("a", "c")), str(path), 1)
    assert not list(tmp_path.iterdir())


def test_a_search_for_negatives_goes_on_where_it_stopped(folders, tmp_path, monkeypatch):
    model, path = folders["pretrained"], tmp_path / "train.jsonl"
    pairs = _pairs(*((f"{text} ?", text) for text in TEXTS))
    monkeypatch.setattr(vector_file, "_ROWS", 2)
    whole = _mine(model, path, pairs, 2)
    searched = []

    def search(blocks, queries, count, *dot):
        if len(searched) == 2:
            raise stopping.Stopped(signal.SIGTERM)
        searched.append(len(queries))
        return neighbours.search(blocks, queries, count, *dot)

    monkeypatch.setattr(hard_negatives, "search", search)
    with pytest.raises(stopping.Stopped):
        hard_negatives.mine(model, pairs, str(path), 2)
    assert not path.exists()
    pooled = dataclasses.replace(EmbeddingSettings(), pooling=Pooling.CLS)
    with (
        monkeypatch.context() as changed,
        pytest.raises(InputError, match="begun with other settings: pool"),
    ):
        changed.setattr(models, "complete", lambda *_: pooled)
        hard_negatives.mine(model, pairs, str(path), 2)
    for other, message in (
        ((pairs[1:], 2), "partial: was begun with other pairs"),
        ((pairs, 3), "begun with other count"),
    ):
        with pytest.raises(InputError, match=message):
            hard_negatives.mine(model, other[0], str(path), other[1])
    searched.clear()
    assert _mine(model, path, pairs, 2) == whole
    assert searched == [2]  # the last two texts of six


@pytest.mark.more
def test_mining_that_is_killed_at_any_moment_is_resumed(folders, tmp_path, monkeypatch):
    """At its last rename, too, and while what was kept until then is removed."""
    monkeypatch.setattr(vector_file, "_ROWS", 4)
    source = models.read(folders["pretrained"])
    extractor = FeatureExtractor(source, EmbeddingSettings())
    monkeypatch.setattr(models, "read", lambda _: source)
    monkeypatch.setattr(run, "FeatureExtractor", lambda *_: extractor)
    pairs = _pairs(*((f"{text} ?", text) for text in TEXTS))

    def mine(folder):
        hard_negatives.mine("", pairs, f"{folder}/train.jsonl", 2)
        return (folder / "train.jsonl").read_bytes()

    whole = mine(tmp_path / "whole")
    moments = 0
    for folder in each_moment(mine, tmp_path):
        moments += 1
        if (folder / "train.jsonl").exists() and not (folder / "train.jsonl.partial").exists():
            with pytest.raises(InputError, match=r"train\.jsonl: exists; name another file"):
                mine(folder)  # it was complete
            assert (folder / "train.jsonl").read_bytes() == whole
        else:
            assert mine(folder) == whole
        assert os.listdir(folder) == ["train.jsonl"]
    assert moments > 20


@pytest.mark.more
def test_commands_from_pairs_to_neighbours_in_a_new_order(folders, tmp_path):
    pairs = [{"text_a": f'{text} "?', "text_b": text} for text in TEXTS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    model = f"--model={folders['pretrained']}"
    mined = f"{tmp_path}/train.jsonl"
    commands.done("mine-negatives", model, f"--input={tmp_path}/pairs.jsonl", f"--output={mined}")
    same = (f"--input={tmp_path}/pairs.jsonl", f"--output={tmp_path}/./pairs.jsonl")
    error = commands.error_of(commands.run("mine-negatives", model, *same))
    assert "is the file of the texts; name another file" in error
    again = ("mine-negatives", model, f"--input={tmp_path}/pairs.jsonl", f"--output={mined}")
    assert "train.jsonl: exists; name another file" in commands.error_of(commands.run(*again))
    rows = list(multiple_choice.read_choices(Source(mined), True))
    assert [row.choices[row.label] for row in rows] == TEXTS
    assert all(row.context == f'{text} "?' for row, text in zip(rows, TEXTS, strict=True))
    assert {len(row.choices) for row in rows} == {5}
    vectors = f"{tmp_path}/v.npy"
    commands.done("embed", model, f"--input={tmp_path}/texts.txt", f"--output={vectors}")
    asked = ("neighbours", model, f"--vectors={vectors}", "--query=a model", "--json", "--count=4")
    for reranker in ("same", "pick"):
        before, after = (
            json.loads(commands.done(*asked, *more).stdout)["neighbours"]
            for more in ((), (f"--rerank={folders[reranker]}",))
        )
        texts = [near["text"] for near in before]
        found = reranking.load(folders[reranker])("a model", texts)
        scores = dict(zip(texts, found, strict=True))
        assert [near["text"] for near in after] == sorted(texts, key=lambda text: -scores[text])
        assert [near["similarity"] for near in after] == pytest.approx(
            sorted(scores.values(), reverse=True), abs=1e-5
        )


def test_a_reranker_is_a_model_of_pairs_or_choices(folders):
    assert len(reranking.load(folders["score"])("a", ["b", "c"])) == 2
    assert sum(reranking.load(folders["pick"])("a", ["b", "c"])) == pytest.approx(1)
    with pytest.raises(InputError, match=r"of its tasks \(topics\), none ranks texts; fine-tune"):
        reranking.load(folders["topics"])


def test_of_several_tasks_the_one_that_ranks_reranks(folders, tmp_path):
    found = sources.find([f"{name}={folders[name]}" for name in ("topics", "score")])
    saved_model.export(found, f"{tmp_path}/export")
    alone, among = map(reranking.load, (folders["score"], f"{tmp_path}/export"))
    assert among("a", TEXTS) == pytest.approx(alone("a", TEXTS), abs=1e-6)
