"""What a tokenizer gives when it is called is what exports make of the same texts."""

import dataclasses

import numpy as np
import pytest

from bert_tf import BertEncoder
from bert_tf.models.heads import TaskHead
from bert_tf.tasks.signatures import ServedModel
from pipelines.tokenizers import registry
from tests.bert_tf import exported
from tests.bert_tf.helpers import CONFIG
from tests.bert_tf.models.user_models import randomize
from tests.pipelines.tokenizers import byte_bpe_reference


@pytest.fixture(params=["wordpiece", "byte_bpe"])
def tokenizer(request, vocab_path):
    if request.param == "wordpiece":
        return registry.load_tokenizer(vocab_path)
    return registry.make(byte_bpe_reference.learn(exported.TEXTS * 2, 300))


@pytest.mark.parametrize("name", ["mood", "same"])
def test_texts_and_what_the_tokenizer_makes_of_them_have_the_same_answers(tokenizer, name):
    config = dataclasses.replace(
        CONFIG, vocab_size=len(tokenizer.vocabulary), max_position_embeddings=exported.MAX_LENGTH
    )
    task = exported.make_tasks()[name]
    head = TaskHead(config.hidden_size, task.units, name=name)
    head.build()
    model = ServedModel(tokenizer, randomize(BertEncoder(config)), randomize(head))
    by_text, by_ids = task.signatures(model)[:2]
    texts = [exported.TEXTS, exported.TEXTS[::-1]][: 1 + (name == "same")]
    inputs = tokenizer(*texts, max_seq_length=exported.MAX_LENGTH)
    assert inputs["input_mask"].numpy().sum(1).max() == exported.MAX_LENGTH  # some were cut

    def answer(signature, inputs):
        sequences, state = signature.preprocess(inputs)
        return signature.postprocess(signature.computation.in_chunks(sequences), state)

    wanted = answer(by_text, dict(zip(by_text.inputs, map(np.array, texts), strict=True)))
    found = answer(by_ids, inputs)
    for output, value in wanted.items():
        np.testing.assert_array_equal(found[output], value)
