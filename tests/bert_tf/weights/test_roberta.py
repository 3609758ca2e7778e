"""RoBERTa in folders of Hugging Face: names, round trips, and what is refused."""

import collections
import dataclasses
import json
import os

import numpy as np
import pytest
import safetensors.numpy
import tokenizers

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.tokenizers import bpe_vocabulary, byte_bpe_words, registry
from pipelines.tokenizers.bpe_vocabulary import BPEVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests.tokenizers import library_byte_bpe, library_wordpiece

from .test_huggingface import change
from .test_weights import CONFIG, assert_same_weights, edit
from .test_weights import make_bundle as make_any

ROBERTA = dataclasses.replace(
    BertConfig.named("roberta-base"),
    vocab_size=53,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=20,
)
SHAPES = {"classification": 3, "regression": 1, "tagging": 5, "span": 2, "choice": 1}


def make_bundle(config=ROBERTA, **options):
    """A model of random weights without what RoBERTa has not."""
    drop = (*options.pop("drop", ()), bundle.NEXT_SENTENCE)
    model = make_any(config, drop=drop, **options)
    return dataclasses.replace(model, vocabulary=None)


def names_of(folder):
    return set(safetensors.numpy.load((folder / "model.safetensors").read_bytes()))


def test_names_of_a_masked_lm(tmp_path):
    model = make_bundle(drop=(bundle.POOLER,))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    block = ("attention.self.query", "attention.self.key", "attention.self.value",
             "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
             "output.dense", "output.LayerNorm")  # fmt: skip
    layers = ["roberta.embeddings.LayerNorm", "lm_head.dense", "lm_head.layer_norm"]
    layers += [f"roberta.encoder.layer.{i}.{layer}" for i in range(2) for layer in block]
    expected = {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}
    tables = ("word", "position", "token_type")
    expected |= {f"roberta.embeddings.{table}_embeddings.weight" for table in tables}
    assert names_of(tmp_path / "hf") == expected | {"lm_head.bias"}
    assert_same_weights(weights.read(f"{tmp_path}/hf").weights, model.weights)


def test_keys_of_the_configuration(tmp_path):
    weights.write(make_bundle(drop=(bundle.POOLER,)), f"{tmp_path}/hf", Format.HUGGINGFACE)
    values = json.loads((tmp_path / "hf/config.json").read_text())
    expected = {
        "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "pad_token_id": 1,
        "max_position_embeddings": 20, "hidden_act": "gelu",
        "type_vocab_size": 1, "layer_norm_eps": 1e-5, "classifier_dropout": 0.1,
        "is_decoder": False,
    }  # fmt: skip
    assert {key: values[key] for key in expected} == expected
    assert "position_offset" not in values and "pooler_dropout" not in values
    assert weights.read(f"{tmp_path}/hf").config == ROBERTA


def test_absent_keys_are_as_the_class_has_them(tmp_path):
    config = dataclasses.replace(
        BertConfig.named("roberta-base"), num_hidden_layers=1, hidden_size=4,
        num_attention_heads=1, intermediate_size=4,
        max_position_embeddings=512, type_vocab_size=2, layer_norm_eps=1e-12,
    )  # fmt: skip
    model = make_bundle(config, drop=(bundle.MASKED_LM,))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    stated = {key: getattr(config, key) for key in keys} | {"model_type": "roberta"}
    (tmp_path / "hf/config.json").write_text(json.dumps(stated))
    assert weights.read(f"{tmp_path}/hf").config == config


@pytest.mark.parametrize(
    ("keys", "offset", "dropout"),
    [
        ({"pad_token_id": 0}, 1, 0.1),
        ({"pad_token_id": 7}, 8, 0.1),
        ({"classifier_dropout": 0.3}, 2, 0.3),
        ({"classifier_dropout": None, "hidden_dropout_prob": 0.2}, 2, 0.2),
    ],
)
def test_padding_and_dropout_are_in_other_keys(tmp_path, keys, offset, dropout):
    weights.write(make_bundle(drop=(bundle.MASKED_LM,)), f"{tmp_path}/hf", Format.HUGGINGFACE)
    change(tmp_path / "hf/config.json", **keys)
    config = weights.read(f"{tmp_path}/hf").config
    assert (config.position_offset, config.pooler_dropout) == (offset, dropout)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_comes_back_to_the_bit(tmp_path, shape):
    # Heads of tokens have no pooler there.
    drop = (bundle.POOLER,) if shape in ("tagging", "span") else ()
    model = make_bundle(shape=shape, units=SHAPES[shape], drop=drop)
    weights.write(model, f"{tmp_path}/out", Format.HUGGINGFACE)
    found = weights.read(f"{tmp_path}/out")
    assert_same_weights(found.weights, model.weights)
    assert (found.config, found.tasks) == (ROBERTA, model.tasks)


def test_the_pooler_is_part_of_the_head_of_a_classifier(tmp_path):
    weights.write(make_bundle(shape="classification"), f"{tmp_path}/hf", Format.HUGGINGFACE)
    heads = {name for name in names_of(tmp_path / "hf") if not name.startswith("roberta.")}
    layers = ("classifier.dense", "classifier.out_proj")
    assert heads == {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}
    # Old files have the pooler besides, which is of no use.
    extra = {"roberta.pooler.dense.weight": np.ones((24, 24), "f4")}
    edit(tmp_path / "hf", lambda a: a.update(extra))
    found = weights.read(f"{tmp_path}/hf")
    assert_same_weights(found.weights, make_bundle(shape="classification").weights)
    edit(tmp_path / "hf", lambda a: [a.pop(n) for n in list(a) if "classifier.dense" in n])
    with pytest.raises(InputError, match=r"of encoder/pooler; the class RobertaForSeq"):
        weights.read(f"{tmp_path}/hf")


@pytest.mark.parametrize("shape", ["classification", "choice"])
def test_a_head_of_sequences_needs_a_pooler(tmp_path, shape):
    model = make_bundle(shape=shape, units=SHAPES[shape], drop=(bundle.POOLER,))
    with pytest.raises(InputError, match="of encoder/pooler; the class RobertaFor"):
        weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)


@pytest.mark.parametrize("shape", [None, "tagging"])
def test_a_pooler_of_no_use_stays_behind(tmp_path, shape):
    weights.write(make_bundle(shape=shape, units=2), f"{tmp_path}/hf", Format.HUGGINGFACE)
    assert not [name for name in names_of(tmp_path / "hf") if "pooler" in name]
    assert not weights.read(f"{tmp_path}/hf").has(bundle.POOLER)


def test_an_encoder_alone_has_no_prefix(tmp_path):
    model = make_bundle(drop=(bundle.MASKED_LM,))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    assert "pooler.dense.weight" in names_of(tmp_path / "hf")
    assert_same_weights(weights.read(f"{tmp_path}/hf").weights, model.weights)
    edit(tmp_path / "hf", lambda a: [a.update({f"roberta.{n}": a.pop(n)}) for n in list(a)])
    assert_same_weights(weights.read(f"{tmp_path}/hf").weights, model.weights)


def test_a_masked_lm_without_its_head_is_not_filled_up(tmp_path):
    weights.write(make_bundle(), f"{tmp_path}/hf", Format.HUGGINGFACE)
    edit(tmp_path / "hf", lambda a: [a.pop(n) for n in list(a) if n.startswith("lm_head")])
    with pytest.raises(
        InputError, match=r"masked_lm; the class RobertaForMaskedLM .*lm_head\.dense\.wei"
    ):
        weights.read(f"{tmp_path}/hf")


def test_tied_weights_are_taken_by_either_name(tmp_path):
    model = make_bundle(drop=(bundle.POOLER,))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    words = "roberta.embeddings.word_embeddings.weight"
    copies = {"lm_head.decoder.weight": words, "lm_head.decoder.bias": "lm_head.bias"}
    edit(tmp_path / "hf", lambda a: a.update({copy: a[name] for copy, name in copies.items()}))
    assert_same_weights(weights.read(f"{tmp_path}/hf").weights, model.weights)
    edit(tmp_path / "hf", lambda a: [a.pop(name) for name in copies.values()])
    assert_same_weights(weights.read(f"{tmp_path}/hf").weights, model.weights)
    edit(tmp_path / "hf", lambda a: a.update({words: a["lm_head.decoder.weight"] + 1}))
    with pytest.raises(InputError, match="RoBERTa's output embeddings are tied"):
        weights.read(f"{tmp_path}/hf")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pad_token_id": "1"}, r"config\.json: pad_token_id is '1'; it must be a whole"),
        ({"pad_token_id": 30}, "position_offset 31 leaves none of the 20"),
        ({"classifier_dropout": "much"}, "pooler_dropout is 'much'"),
        (
            {"hidden_act": "relu"},
            r"config\.json: the masked LM head of .* RoBERTa always uses gelu_erf",
        ),
        ({"position_embedding_type": "relative_key"}, "only 'absolute' is supported"),
    ],
)
def test_keys_that_make_no_sense_are_named(tmp_path, keys, message):
    weights.write(make_bundle(), f"{tmp_path}/hf", Format.HUGGINGFACE)
    change(tmp_path / "hf/config.json", **keys)
    with pytest.raises(InputError, match=message):
        weights.read(f"{tmp_path}/hf")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_offset": 0}, "this model's position_offset is 0"),
        ({"shared_layers": True}, "Hugging Face's RoBERTa does not support shared_layers True"),
        ({"type_vocab_size": 0}, "does not support type_vocab_size 0"),
        ({"hidden_act": "gelu"}, "always uses gelu_erf"),
        (
            {"model_type": "bert"},
            "Face's BERT does not support position_offset 2, pooler_dropout 0.1",
        ),
    ],
)
def test_what_transformers_does_not_compute_is_refused(tmp_path, changes, message):
    model = make_bundle(dataclasses.replace(ROBERTA, **changes))
    with pytest.raises(InputError, match=message):
        weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)


def test_no_head_is_lost_in_silence(tmp_path):
    model = dataclasses.replace(make_any(ROBERTA), vocabulary=None)
    with pytest.raises(InputError, match="RoBERTa has no next-sentence prediction head"):
        weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)


def test_formats_of_bert_only_refuse_it(tmp_path):
    with pytest.raises(
        InputError, match=r"model_type 'roberta', position_offset 2, .* does not support that"
    ):
        weights.write(make_bundle(), f"{tmp_path}/tf1", Format.TF1)
    weights.write(make_any(CONFIG), f"{tmp_path}/tf1", Format.TF1)
    change(tmp_path / "tf1/bert_config.json", model_type="roberta")
    with pytest.raises(InputError, match=r"bert_config\.json: has model_type 'roberta'; google"):
        weights.read(f"{tmp_path}/tf1")


@pytest.fixture(scope="module")
def vocabulary():
    """A byte-level BPE with a few merges."""
    words = byte_bpe_words.split_words(["the word of the words, the other words"] * 9)
    return bpe_vocabulary.ByteBPEVocabulary.learn(collections.Counter(words.numpy().tolist()), 270)


def with_vocabulary(vocabulary, settings):
    config = dataclasses.replace(ROBERTA, vocab_size=len(vocabulary))
    model = make_bundle(config)
    return dataclasses.replace(model, vocabulary=vocabulary, tokenizer_settings=settings)


@pytest.mark.parametrize("space", [False, True])
def test_its_tokenizer_comes_along_both_ways(vocabulary, tmp_path, space):
    settings = {"kind": "byte_bpe", "add_prefix_space": space}
    weights.write(with_vocabulary(vocabulary, settings), f"{tmp_path}/hf", Format.HUGGINGFACE)
    found = weights.read(f"{tmp_path}/hf")
    assert found.vocabulary == vocabulary and found.resolved_settings() == settings
    weights.write(found, f"{tmp_path}/ours", Format.BERT_TF)
    again = weights.read(f"{tmp_path}/ours")
    assert again.vocabulary == vocabulary and again.resolved_settings() == settings
    assert again.tokenizer().tokenize(["the words"]).to_list()[0]


def test_the_newer_kind_of_file_will_do(vocabulary, tmp_path):
    weights.write(with_vocabulary(vocabulary, None), f"{tmp_path}/hf", Format.HUGGINGFACE)
    fast = tokenizers.Tokenizer.from_str(
        tokenizers.ByteLevelBPETokenizer(
            f"{tmp_path}/hf/vocab.json", f"{tmp_path}/hf/merges.txt"
        ).to_str()
    )
    fast.add_special_tokens(list(vocabulary.roles.values()))
    fast.save(f"{tmp_path}/hf/tokenizer.json")
    for name in ("vocab.json", "merges.txt"):
        os.remove(f"{tmp_path}/hf/{name}")
    assert weights.read(f"{tmp_path}/hf").vocabulary == vocabulary
    stored = json.loads((tmp_path / "hf/tokenizer.json").read_text())
    del stored["added_tokens"]  # all tokens are in the vocabulary, too
    (tmp_path / "hf/tokenizer.json").write_text(json.dumps(stored))
    assert weights.read(f"{tmp_path}/hf").vocabulary == vocabulary


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"added_tokens": []}, "tokenizer.json: lacks the field model"),
        (
            {"model": {"type": "Unigram"}},
            "tokenizer_class is RobertaTokenizer, not AlbertTokenizer",
        ),
        ({"model": {"merges": []}}, "tokenizer.json: model: lacks the field vocab"),
        ({"model": {"vocab": {"a": "0"}, "merges": []}}, "json: the id of 'a' is '0', which is"),
        ({"model": {"vocab": {"a": 1}, "merges": []}}, "json: 'a' has the id 1 instead of 0"),
        ({"model": {"vocab": {"a": 0}, "merges": ["a b c"]}}, "json: a merge is not a pair"),
    ],
)
def test_what_is_wrong_in_the_newer_kind_of_file_is_named(vocabulary, tmp_path, values, message):
    weights.write(with_vocabulary(vocabulary, None), f"{tmp_path}/hf", Format.HUGGINGFACE)
    for name in ("vocab.json", "merges.txt"):
        os.remove(f"{tmp_path}/hf/{name}")
    (tmp_path / "hf/tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=message):
        weights.read(f"{tmp_path}/hf")


def test_a_vocabulary_of_another_kind_is_refused(tmp_path):
    words = BPEVocabulary.learn(collections.Counter({b"ab": 9}), 20)
    model = dataclasses.replace(make_bundle(), vocabulary=words)
    with pytest.raises(
        InputError, match="has a vocabulary of byte_bpe, but this model has one of bpe"
    ):
        weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)


def test_a_mask_takes_the_space_before_it(vocabulary, tmp_path):
    """As in pre-training; otherwise transformers makes a token of the space."""
    weights.write(with_vocabulary(vocabulary, None), f"{tmp_path}/hf", Format.HUGGINGFACE)
    mask = json.loads((tmp_path / "hf/tokenizer_config.json").read_text())["mask_token"]
    assert mask["content"] == "<mask>" and mask["lstrip"] and not mask["rstrip"]


@pytest.mark.parametrize("name", ["added_tokens.json", "tokenizer.json"])
def test_added_tokens_keep_their_ids_if_they_have_embeddings(vocabulary, tmp_path, caplog, name):
    model = with_vocabulary(vocabulary, None)
    size = len(vocabulary)
    words = model.weights["encoder/embeddings/word_embeddings"]
    larger = dataclasses.replace(
        model,
        config=dataclasses.replace(model.config, vocab_size=size + 1),
        weights=model.weights
        | {"encoder/embeddings/word_embeddings": np.concatenate([words, words[:1]])}
        | {"masked_lm/output_bias": np.zeros(size + 1, np.float32)},
    )
    for folder, written in (("hf", model), ("larger", larger)):
        weights.write(written, f"{tmp_path}/{folder}", Format.HUGGINGFACE)
        added = {"<new>": size}
        if name == "tokenizer.json":
            added = {"added_tokens": [{"content": "<new>", "id": size}]}
            library_byte_bpe(vocabulary).save(f"{tmp_path}/{folder}/{name}")
        change(tmp_path / folder / name, **added)
    assert weights.read(f"{tmp_path}/hf").vocabulary == vocabulary
    assert weights.read(f"{tmp_path}/larger").vocabulary.tokens == (*vocabulary.tokens, "<new>")
    assert "added tokens (<new>) in a text are tokenized like other words" in caplog.text


def test_the_space_is_stated_in_either_file(vocabulary, tmp_path):
    weights.write(with_vocabulary(vocabulary, None), f"{tmp_path}/hf", Format.HUGGINGFACE)
    change(tmp_path / "hf/tokenizer_config.json", add_prefix_space=None)
    assert not weights.read(f"{tmp_path}/hf").resolved_settings()["add_prefix_space"]
    config = tmp_path / "hf/tokenizer_config.json"
    stated = config.read_text()
    config.write_text('{"add_prefix_space": true}')  # no settings of ours, though named alike
    assert registry.load_tokenizer(f"{tmp_path}/hf").settings["add_prefix_space"]
    config.write_text(stated)
    library_byte_bpe(vocabulary, add_prefix_space=True).save(f"{tmp_path}/hf/tokenizer.json")
    assert weights.read(f"{tmp_path}/hf").resolved_settings()["add_prefix_space"]
    config.unlink()
    assert weights.read(f"{tmp_path}/hf").resolved_settings()["add_prefix_space"]


@pytest.mark.parametrize("is_fast", [False, True])
def test_word_pieces_are_read(tmp_path, is_fast):
    """As of Chinese models, one of whose tokens is white space."""
    words = WordPieceVocabulary((*SPECIAL_TOKENS, "\u2028", *(f"w{i}" for i in range(20))))
    weights.write(make_bundle(), f"{tmp_path}/hf", Format.HUGGINGFACE)
    if is_fast:
        tokens = [token.strip() for token in words.tokens]
        library_wordpiece(tokens).save(f"{tmp_path}/hf/tokenizer.json")
    else:
        words.save(f"{tmp_path}/hf")
    found = weights.read(f"{tmp_path}/hf")
    assert found.vocabulary == words
    # With one token type, as KLUE's, the types of pairs are zero; transformers gives none.
    inputs = found.tokenizer()(["w1"], ["w2 w3"])
    assert not inputs["input_type_ids"].numpy().any()
    found.config.check_segments(found.tokenizer().types(2), "a task of pairs")
    weights.write(found, f"{tmp_path}/again", Format.HUGGINGFACE)
    again = weights.read(f"{tmp_path}/again")
    assert again.vocabulary == words
    assert not again.tokenizer().typed
    stated = json.loads((tmp_path / "again/tokenizer_config.json").read_text())
    assert stated["tokenizer_class"] == "BertTokenizer"
    assert stated["model_input_names"] == ["input_ids", "attention_mask"]
