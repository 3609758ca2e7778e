"""Pairs whose order means nothing, of a model that reads from left to right."""

import dataclasses
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import Predictor, weights
from bert_tf.export import saved_model, sources
from bert_tf.models.families import FAMILIES
from bert_tf.serving import file_prediction
from pipelines.common.errors import InputError
from pipelines.labelled.source import Source
from pipelines.tokenizers import packing
from tests.bert_tf.labelled_data import BAD, CONFIG, GOOD, sentence, tune, write_init, write_rows

pytestmark = pytest.mark.more


def _same_mood(folder):
    """Pairs in MRPC's layout: whether both texts are good, or both bad."""
    rng = random.Random(0)
    for split, count in (("train", 64), ("dev", 16)):
        rows = []
        for number in range(count):
            first, second = rng.choice([GOOD, BAD]), rng.choice([GOOD, BAD])
            texts = [sentence(rng, rng.choice(words), 3) for words in (first, second)]
            rows.append([str(int(first is second)), f"{number}a", f"{number}b", *texts])
        header = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
        write_rows(folder / f"{split}.tsv", rows, header)
    return str(folder)


def _packed(model, first, second):
    """The inputs of the encoder."""
    tokenizer = weights.read(model).tokenizer()
    return packing.padded(tokenizer, tokenizer.pack_texts(first, second, 40)[0])


def test_a_gpt_reads_pairs_whose_order_means_nothing_in_both_orders(tmp_path):
    """In training, in prediction, in an export and as a Keras model."""
    config = dataclasses.replace(CONFIG, **FAMILIES["openai-gpt"].values)
    init = write_init(str(tmp_path / "gpt"), config)
    _, output = tune(tmp_path, init, "mrpc", _same_mood, epochs=1.0)
    (task,) = json.load(open(f"{output}/tasks.json"))
    assert task["head"]["both_orders"]
    # What training scored is what the weights, and an export of them, answer.
    dev = Source(f"{tmp_path}/data/dev.tsv")
    (path,), _ = file_prediction.predict_file(output, dev, f"{tmp_path}/again", labelled=True)
    again, rows = (
        np.loadtxt(file, str, delimiter="\t", skiprows=1)
        for file in (path, f"{output}/predictions.dev.tsv")
    )
    np.testing.assert_allclose(again[:, 2:4].astype(float), rows[:, 2:4].astype(float), atol=1e-5)
    export = saved_model.export(sources.find([f"mrpc={output}"]), f"{tmp_path}/export")
    predictor = Predictor(export)
    first, second = rows[:, -2].tolist(), rows[:, -1].tolist()
    there = predictor(text_a=first, text_b=second)
    back = predictor(text_a=second, text_b=first)
    np.testing.assert_allclose(there["probabilities"], back["probabilities"], atol=1e-5)
    np.testing.assert_allclose(there["probabilities"], rows[:, 2:4].astype(float), atol=1e-5)
    # As a Keras model, too.
    inputs = _packed(output, first, second), _packed(output, second, first)
    model = weights.read(output).task_model()
    one, other = (model(each)["mrpc"] for each in inputs)
    np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_allclose(tf.nn.softmax(one), there["probabilities"], atol=1e-4)
    with pytest.raises(InputError, match="pairs in both orders"):
        weights.write(weights.read(output), f"{tmp_path}/other", "huggingface")
