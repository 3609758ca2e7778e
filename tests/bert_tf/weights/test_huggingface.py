"""Folders of Hugging Face: what their files may hold, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from bert_tf import tasks, weights
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from tests.tokenizers import library_wordpiece

from .test_weights import CONFIG, TOKENS, assert_same_weights, edit, make_bundle


@pytest.fixture
def folder(tmp_path):
    """A pre-trained model, with the vocabulary in vocab.txt alone."""
    weights.write(make_bundle(), f"{tmp_path}/hf", Format.HUGGINGFACE)
    (tmp_path / "hf/tokenizer.json").unlink()
    return tmp_path / "hf"


def change(path, **changes):
    """Changes keys of a JSON file; None removes one."""
    values = json.loads(path.read_text()) if path.exists() else {}
    values |= changes
    path.write_text(json.dumps({key: v for key, v in values.items() if v is not None}))


def test_several_files_are_one_model(folder):
    arrays = safetensors.numpy.load((folder / "model.safetensors").read_bytes())
    names = sorted(arrays)
    places = {name: f"model-{index % 2}.safetensors" for index, name in enumerate(names)}
    for place in set(places.values()):
        part = {name: arrays[name] for name in names if places[name] == place}
        (folder / place).write_bytes(safetensors.numpy.save(part))
    (folder / "model.safetensors").unlink()
    change(folder / "model.safetensors.index.json", weight_map=places)
    assert_same_weights(weights.read(str(folder)).weights, make_bundle().weights)
    index = f"{folder}/model.safetensors.index.json"
    for file in (index, f"{folder}/model-1.safetensors"):
        assert_same_weights(weights.read(file).weights, make_bundle().weights)
    Path(index).write_text("{}")
    with pytest.raises(InputError, match="lacks the field weight_map"):
        weights.read(str(folder))


def test_the_single_file_comes_before_an_index(folder):
    change(folder / "model.safetensors.index.json", weight_map={"x": "model-0.safetensors"})
    assert_same_weights(weights.read(str(folder)).weights, make_bundle().weights)
    with pytest.raises(InputError, match=r"index.json: is not a file .* files are model.safeten"):
        weights.read(f"{folder}/model.safetensors.index.json")


def test_a_file_that_is_not_the_model_s_is_refused(folder):
    """Weights of another name, such as averaged ones, are not those that a folder has."""
    assert_same_weights(weights.read(f"{folder}/model.safetensors").weights, make_bundle().weights)
    (folder / "ema.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    for name in ("ema.safetensors", "missing.safetensors", "x.hdf5", "options.json"):
        with pytest.raises(InputError, match=rf"/{name}: is not a file of the model in "):
            weights.read(f"{folder}/{name}")


@pytest.mark.parametrize("kept", ["config.json", "adapter_config.json"])
def test_an_adapter_is_refused(folder, kept):
    change(folder / "adapter_config.json", peft_type="LORA")
    if kept == "adapter_config.json":
        (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"adapter_config.json: adapters .*merge_and_unload\(\)"):
        weights.read(str(folder))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("../../x.safetensors", r"'../../x.safetensors' is not the path of a file in its folder"),
        ("/etc/passwd", "is not the path of a file in its folder"),
        (7, "at weight_map.*: expected text, got a whole number"),
    ],
)
def test_files_of_weights_stay_in_their_folder(folder, place, message):
    (folder / "model.safetensors").unlink()
    change(folder / "model.safetensors.index.json", weight_map={"bert.pooler.dense.bias": place})
    with pytest.raises(InputError, match=message):
        weights.read(str(folder))


@pytest.mark.parametrize("kind", ["regression", "classification", "tagging", "span", "choice"])
def test_a_task_keeps_its_name_and_labels(tmp_path, kind):
    task = tasks.make(kind, "mine").describe()
    units = {"regression": 1, "span": 2, "choice": 1}.get(kind, 3)
    task["labels"] = ["x", "y", "z"] if units == 3 else []
    model = make_bundle(shape=kind, units=units, name="mine", task=task)
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    assert weights.read(f"{tmp_path}/hf").tasks == (task,)
    (tmp_path / "hf/tasks.json").unlink()  # what transformers itself leaves
    found = weights.read(f"{tmp_path}/hf")
    length = {} if kind == "span" else {"max_seq_length": 64}  # that of the positions
    assert found.tasks == ({"name": "mine", "shape": kind, "labels": task["labels"], **length},)
    labels = json.loads((tmp_path / "hf/config.json").read_text()).get("id2label", {})
    assert len(labels) == (0 if kind == "choice" else units)
    tasks.load(found.task())


_KNOWN = (
    "known are bert, roberta, distilbert, albert, electra, mpnet, modernbert, nomic_bert, openai-gpt, "
    "gpt2, bart, xlm-roberta, camembert"
)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "xlnet"}, rf"model_type is 'xlnet'; {_KNOWN}\."),
        ({"model_type": {}}, rf"model_type is {{}}; {_KNOWN}\."),
        ({"hidden_act": "gelu_10"}, "hidden_act is 'gelu_10'; known are gelu, gelu_python"),
        ({"hidden_act": {}}, "hidden_act is '{}'"),
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps is '1e-12'; it must be a number"),
        ({"hidden_size": True}, "hidden_size is True; it must be a whole number"),
        ({"vocab_size": 50}, "shape"),
        ({"is_decoder": "false"}, "is_decoder is 'false'; it must be"),
        ({"classifier_dropout": "x"}, "classifier_dropout is 'x'; it must be"),
        ({"num_attention_heads": 5}, "hidden_size .*num_attention_heads"),
        ({"model_type": "gpt2", "n_embd": "24", "hidden_size": None}, "n_embd is '24'; it must be"),
        ({"model_type": "bart", "encoder_layers": "6", "num_hidden_layers": None},
         "encoder_layers is '6'; it must be a whole"),
        ({"model_type": "bart", "max_position_embeddings": []}, r"max_position_embeddings is \[\]"),
        ({"model_type": "bart", "decoder_ffn_dim": [1]}, r"decoder_ffn_dim is \[1\]; it must be"),
    ],
)  # fmt: skip
def test_configurations_that_are_not_ours_are_named(folder, config, message):
    change(folder / "config.json", **config)
    with pytest.raises(InputError, match=message):
        weights.read(str(folder))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"problem_type": "multi_label_classification"}, "describe different tasks"),
        ({"problem_type": "regression"}, "describe different tasks"),
        ({"problem_type": "other"}, "problem_type is 'other'; known are regression, multi_label"),
        ({"problem_type": 7}, "problem_type is 7; known are"),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, "describe different tasks"),
        ({"id2label": {"0": "a", "1": "b"}}, "id2label must name the 3 units"),
        ({"id2label": {"0": [], "1": "b", "2": "a"}}, "id2label must name"),
        ({"id2label": ["a", "b", "c"]}, "id2label must name"),
    ],
)
def test_heads_that_no_task_has_are_named(tmp_path, config, message):
    weights.write(make_bundle(shape="classification"), f"{tmp_path}/hf", Format.HUGGINGFACE)
    change(tmp_path / "hf/config.json", **config)
    with pytest.raises(InputError, match=message):
        weights.read(f"{tmp_path}/hf")


def test_a_head_that_the_architecture_has_must_be_there(tmp_path, folder):
    edit(folder, lambda a: [a.pop(name) for name in list(a) if name.startswith("cls.predictions")])
    with pytest.raises(InputError, match="lacks the weights of masked_lm; the class BertForPreT"):
        weights.read(str(folder))
    weights.write(make_bundle(shape="classification"), f"{tmp_path}/task", Format.HUGGINGFACE)
    edit(f"{tmp_path}/task", lambda a: a.pop("classifier.bias"))
    with pytest.raises(InputError, match=r"lacks the weight classifier\.bias"):
        weights.read(f"{tmp_path}/task")


def test_a_model_without_heads_may_have_the_class_that_it_began_with(tmp_path, caplog):
    """As all-mpnet-base-v2: its config.json says MPNetForMaskedLM, its weights have no head."""
    model = make_bundle(drop=(bundle.MASKED_LM, bundle.NEXT_SENTENCE))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    change(tmp_path / "hf/config.json", architectures=["BertForMaskedLM"])
    found = weights.read(f"{tmp_path}/hf")
    assert "lacks the heads of BertForMaskedLM" in caplog.text
    assert not found.has(bundle.MASKED_LM) and found.has(bundle.POOLER)
    assert_same_weights(found.weights, model.weights)


def test_left_to_right_models_come_over(tmp_path):
    model = make_bundle(CONFIG.from_dict(CONFIG.to_dict() | {"causal": True}))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    values = json.loads((tmp_path / "hf/config.json").read_text())
    assert values["is_decoder"] and values["architectures"] == ["BertLMHeadModel"]
    found = weights.read(f"{tmp_path}/hf")
    assert found.config.causal
    assert_same_weights(found.weights, model.weights)
    with pytest.raises(InputError, match="no left-to-right encoder"):
        weights.write(model, f"{tmp_path}/tf1", Format.TF1)


@pytest.mark.parametrize(
    ("stated", "normalizer", "expected"),
    [
        ({}, None, (True, True)),  # by the vocabulary, which has no capitals
        ({"do_lower_case": False}, None, (False, False)),
        ({"do_lower_case": True, "strip_accents": False}, None, (True, False)),
        ({}, {"lowercase": False, "strip_accents": None}, (False, False)),
        ({}, {"lowercase": True, "strip_accents": False}, (True, False)),
        ({"do_lower_case": True}, {"lowercase": False}, (True, True)),
        ({"do_lower_case": True, "tokenizer_class": "PreTrainedTokenizerFast"},
         {"lowercase": False}, (False, False)),
    ],
)  # fmt: skip
def test_settings_of_the_tokenizer(folder, caplog, stated, normalizer, expected):
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    if normalizer:
        library_wordpiece(TOKENS, **normalizer).save(f"{folder}/tokenizer.json")
    settings = weights.read(str(folder)).resolved_settings()
    assert (settings["lower_case"], settings["strip_accents"]) == expected
    differ = stated.get("do_lower_case") and normalizer
    followed = "first" if settings["lower_case"] else "second"
    message = "tokenizer_config.json and tokenizer.json contradict each other in lower_case (True, "
    assert (f"{message}False); the {followed} is followed." in caplog.text) == bool(differ)
    message = "tokenizer_config.json does not state it, and transformers 5 takes"
    assert (message in caplog.text) == (not stated and normalizer is not None)


def test_inputs_without_types_make_pairs_without_them(folder, tmp_path):
    """In transformers the tokenizer then returns none, which the model takes for zeros."""
    assert weights.read(str(folder)).tokenizer().typed
    change(folder / "tokenizer_config.json", model_input_names=["input_ids", "attention_mask"])
    model = weights.read(str(folder))
    assert not model.tokenizer()(["word1"], ["word2"])["input_type_ids"].numpy().any()
    weights.write(model, f"{tmp_path}/back", Format.HUGGINGFACE)
    (tmp_path / "back/tokenizer.json").unlink()
    assert weights.read(f"{tmp_path}/back").resolved_settings() == model.resolved_settings()


def test_capital_letters_decide_where_nothing_is_stated(folder):
    tokens = [*TOKENS[:-1], "Zoo"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    assert not weights.read(str(folder)).resolved_settings()["lower_case"]
    # What the model was trained with holds, whatever its vocabulary looks like.
    change(folder / "tokenizer_config.json", do_lower_case=True)
    assert weights.read(str(folder)).tokenizer().normalize.lower_case


@pytest.mark.parametrize("key", ["do_basic_tokenize", "tokenize_chinese_chars"])
def test_another_way_to_split_words_is_refused(folder, key):
    change(folder / "tokenizer_config.json", **{key: False})
    with pytest.raises(InputError, match=f"{key} False is not supported"):
        weights.read(str(folder))


def fast_tokenizer(folder, ids, added=()):
    (folder / "vocab.txt").unlink()
    library_wordpiece(list(ids)).save(f"{folder}/tokenizer.json")
    values = json.loads((folder / "tokenizer.json").read_text())
    values["model"]["vocab"] = ids
    values["added_tokens"] = [{"id": number, "content": token} for token, number in added]
    (folder / "tokenizer.json").write_text(json.dumps(values))


def test_tokens_that_were_added_keep_their_ids(folder):
    ids = {token: index for index, token in enumerate(TOKENS[:-1])}
    fast_tokenizer(folder, ids, [("[CLS]", 2), ("<ent>", len(ids))])
    assert weights.read(str(folder)).vocabulary.tokens == (*TOKENS[:-1], "<ent>")
    # Beyond the embeddings there is nothing that such a token could be.
    change(folder / "added_tokens.json", **{"<more>": len(TOKENS) + 4})
    assert weights.read(str(folder)).vocabulary.tokens == (*TOKENS[:-1], "<ent>")
    change(folder / "added_tokens.json", **{"<more>": "7"})
    with pytest.raises(InputError, match=r"added_tokens.json: the id of '<more>' is '7'"):
        weights.read(str(folder))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "is BertJapaneseTokenizer, not .*; this tokenizer is not supported"),
        ("config.json", {"tokenizer_class": "PhobertTokenizer"}, "/config.json: .*PhobertTokenizer.*tokenizer is not supported"),
        ("bpe.codes", {"a": 1}, "has bpe.codes, as BERTweet and PhoBERT have; this tokenizer is not supported"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["x.Y", None]}}, "auto_map names code of its own"),
        ("tokenizer_config.json", {"cls_token": "<s>"}, r"cls_token '<s>' is not supported; \[CLS\] is"),
        ("special_tokens_map.json", {"unk_token": {"content": "?"}}, r"map.json: unk_token '\?' is not supported"),
        ("tokenizer_config.json", {"truncation_side": "left"}, "truncation_side 'left' is not supported"),
    ],
)  # fmt: skip
def test_another_tokenizer_is_refused(folder, name, values, message):
    if name == "config.json":  # which counts where the tokenizer's has no class
        change(folder / "tokenizer_config.json", tokenizer_class=None)
    change(folder / name, **values)
    with pytest.raises(InputError, match=message):
        weights.read(str(folder))


def test_a_setting_that_nobody_knows_is_named(folder, caplog):
    change(folder / "tokenizer_config.json", an_unknown_setting=True)
    weights.read(str(folder))
    assert "tokenizer_config.json: unknown settings an_unknown_setting." in caplog.text


def test_files_that_contradict_each_other_are_refused(folder):
    library_wordpiece(TOKENS).save(f"{folder}/tokenizer.json")
    assert weights.read(str(folder)).vocabulary.tokens == tuple(TOKENS)
    (folder / "vocab.txt").write_text("\n".join([*TOKENS[:-2], *TOKENS[:-3:-1]]) + "\n")
    with pytest.raises(InputError, match="tokenizer.json has another vocabulary than vocab.txt"):
        weights.read(str(folder))


def test_words_have_as_many_characters_as_in_transformers(folder, tmp_path):
    """100 unless tokenizer.json says otherwise; what is written here keeps its own number."""
    texts = ["a" * 100, "a" * 101, "a" * 200, "a" * 201]

    def longest(place):
        tokenizer = weights.read(place).tokenizer()
        ids = tokenizer.tokenize(texts).to_list()
        assert ids == [tokenizer.plain_ids(text) for text in texts]
        return max(
            len(t) for t, row in zip(texts, ids, strict=True) if row != [tokenizer.unknown_id]
        )

    (folder / "vocab.txt").write_text("\n".join([*TOKENS[:-2], "a", "##a"]) + "\n")
    assert longest(str(folder)) == 200
    change(folder / "tokenizer_config.json", max_input_chars_per_word=None)
    assert longest(str(folder)) == 100
    assert registry.load_tokenizer(str(folder)).settings["max_characters_per_word"] == 100
    library_wordpiece([*TOKENS[:-2], "a", "##a"]).save(f"{folder}/tokenizer.json")
    values = json.loads((folder / "tokenizer.json").read_text())
    values["model"]["max_input_chars_per_word"] = 200
    (folder / "tokenizer.json").write_text(json.dumps(values))
    for target in (Format.HUGGINGFACE, Format.BERT_TF):
        weights.write(weights.read(str(folder)), f"{tmp_path}/{target}", target)
        assert longest(f"{tmp_path}/{target}") == 200


def test_ids_with_gaps_are_refused(folder):
    fast_tokenizer(folder, {token: 2 * index for index, token in enumerate(TOKENS)})
    with pytest.raises(InputError, match="has the id 2 instead of 1; ids count from 0"):
        weights.read(str(folder))


def test_more_tokens_than_embeddings_are_refused(folder):
    (folder / "vocab.txt").write_text("\n".join([*TOKENS, "more"]) + "\n")
    with pytest.raises(InputError, match="has 54 tokens, but the model's vocab_size is 53"):
        weights.read(str(folder))


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "tokenizer.json", "added_tokens.json"]
)
def test_json_of_another_shape_is_named(folder, name):
    (folder / name).write_text("[]")
    with pytest.raises(InputError, match=f"{name}: expected object, got array"):
        weights.read(str(folder))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tf_model.h5", "safe_serialization=True"),
        ("flax_model.msgpack", "; flax_model.msgpack is not read: .*safe_serialization=True"),
        ("model.gguf", "; model.gguf is not read: .*safe_serialization=True"),
        ("onnx/model.onnx", "; onnx/model.onnx is not read: .*safe_serialization=True"),
        ("model.fp16.safetensors", "; rename model.fp16.safetensors to model.safetensors"),
        ("pytorch_model-00001-of-00002.bin", "safe_serialization=True"),
        ("pytorch_model.bin", "is a pickle, .* never loaded: .*safe_serialization=True"),
    ],
)
def test_weights_in_other_files_get_a_remedy(folder, name, message):
    (folder / "onnx").mkdir()
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(InputError, match=message):
        weights.read(str(folder))


def test_an_encoder_without_a_pooler_says_so(tmp_path, caplog):
    model = make_bundle(drop=(bundle.POOLER,))
    model.encoder()
    assert "lacks encoder/pooler/kernel, encoder/pooler/bias, which are random" in caplog.text


def test_buffers_of_bytes_are_left_out(folder):
    edit(folder, lambda a: a.update({"bert.h.0.attn.bias": np.ones((1, 1, 4, 4), np.uint8)}))
    assert_same_weights(weights.read(str(folder)).weights, make_bundle().weights)


def test_dropout_of_the_head_comes_along(folder, tmp_path):
    change(folder / "config.json", classifier_dropout=0.4)
    found = weights.read(str(folder))
    assert found.config.task_dropout == 0.4
    weights.write(found, f"{tmp_path}/again", Format.HUGGINGFACE)
    assert json.loads((tmp_path / "again/config.json").read_text())["classifier_dropout"] == 0.4


def test_an_unknown_class_is_named(folder):
    edit(
        folder, lambda a: a.update({"score.weight": np.zeros((2, CONFIG.hidden_size), np.float32)})
    )
    change(folder / "config.json", architectures=["MyBert"])
    with pytest.raises(InputError, match="architectures names MyBert; known are BertLMHeadModel,"):
        weights.read(str(folder))
    for stated in (None, {"a": 1}, 5):
        change(folder / "config.json", architectures=stated)
        with pytest.raises(InputError, match="architectures names no class; known are"):
            weights.read(str(folder))
