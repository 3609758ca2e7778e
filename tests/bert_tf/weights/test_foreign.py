"""Weights of KerasHub, Model Garden and TF Hub: names as their programs write them."""

import json
import os
import shutil
import sys

import h5py
import keras_nlp
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf import weights
from bert_tf.weights import formats, tf_checkpoint
from bert_tf.weights.bundle import MASKED_LM
from pipelines.common.errors import InputError

from .test_weights import CONFIG, TOKENS, assert_same_weights, make_bundle

SLOT = "/.OPTIMIZER_SLOT/optimizer/m"
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture(scope="module")
def model():
    return make_bundle()


def by_heads(name, value):
    """A weight of attention with heads as an axis of their own."""
    heads, size = CONFIG.num_attention_heads, CONFIG.hidden_size // CONFIG.num_attention_heads
    if "attention_output" in name or "_attention_layer/_output" in name:
        return value.reshape(heads, size, -1) if value.ndim == 2 else value
    return value.reshape(*value.shape[:-1], heads, size)


def attention_parts(model, index):
    """Query, key and value of a block: kernels and biases."""
    path = f"encoder/block_{index}/attention/qkv"
    kernels = np.split(model.weights[f"{path}/kernel"], 3, -1)
    biases = np.split(model.weights[f"{path}/bias"], 3)
    return dict(zip(("query", "key", "value"), zip(kernels, biases, strict=True), strict=True))


# Parts of a block, apart from query, key and value: ours, Model Garden's, TF Hub's.
BLOCK = [
    ("attention/output", "_attention_layer/_output_dense", "self_attention/attention_output"),
    ("attention_norm", "_attention_layer_norm", "self_attention_layer_norm"),
    ("feed_forward/intermediate", "_intermediate_dense", "intermediate"),
    ("feed_forward/output", "_output_dense", "output"),
    ("output_norm", "_output_layer_norm", "output_layer_norm"),
]


def save(folder, arrays, prefix="bert_model.ckpt-1"):
    folder.mkdir()
    CONFIG.save(f"{folder}/bert_config.json")
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=f"{folder}/{prefix}", tensor_names=[f"{name}{VALUE}" for name in names],
        shape_and_slices=[""] * len(names), tensors=[arrays[name] for name in names],
    )  # fmt: skip


def garden_arrays(model, functional, root):
    """The variables of an encoder: of the functional one, or of the newer one."""
    w = model.weights
    layers = CONFIG.num_hidden_layers
    if functional:
        top = [f"layer_with_weights-{i}" for i in range(4)]
        blocks = [f"layer_with_weights-{i + 4}" for i in range(layers)]
        pooler = f"layer_with_weights-{layers + 4}"
    else:
        top = [f"_{n}" for n in ("embedding_layer", "position_embedding_layer", "type_embedding_layer", "embedding_norm_layer")]  # fmt: skip
        blocks = [f"_transformer_layers/{i}" for i in range(layers)]
        pooler = "_pooler_layer"
    found = {
        f"{top[i]}/embeddings": w[f"encoder/embeddings/{name}_embeddings"]
        for i, name in enumerate(("word", "position", "token_type"))
    }
    for part in ("gamma", "beta"):
        found[f"{top[3]}/{part}"] = w[f"encoder/embeddings/norm/{part}"]
    for part in ("kernel", "bias"):
        found[f"{pooler}/{part}"] = w[f"encoder/pooler/{part}"]
    for index, block in enumerate(blocks):
        for part, (kernel, bias) in attention_parts(model, index).items():
            found[f"{block}/_attention_layer/_{part}_dense/kernel"] = by_heads("", kernel)
            found[f"{block}/_attention_layer/_{part}_dense/bias"] = by_heads("", bias)
        for ours, theirs, _ in BLOCK:
            for part in ("gamma", "beta") if "norm" in ours else ("kernel", "bias"):
                name = f"{theirs}/{part}"
                found[f"{block}/{name}"] = by_heads_of(
                    name, w[f"encoder/block_{index}/{ours}/{part}"]
                )
    return {f"{root}/{name}": value for name, value in found.items()}


def by_heads_of(name, value):
    return by_heads(name, value) if "attention_layer/_output" in name else value


@pytest.mark.parametrize("functional", [True, False])
@pytest.mark.parametrize("root", ["encoder", "model", "encoder/encoder_network"])
def test_encoders_of_model_garden(tmp_path, model, functional, root):
    arrays = garden_arrays(model, functional, root) | {"save_counter": np.array(1, np.int64)}
    save(tmp_path / "garden", arrays)
    settings = {"lower_case": True, "strip_accents": False}
    (tmp_path / "garden/tokenizer_config.json").write_text(json.dumps(settings))
    assert formats.detect(f"{tmp_path}/garden") is formats.Format.MODEL_GARDEN
    found = weights.read(f"{tmp_path}/garden")
    assert found.tokenizer_settings == settings
    assert found.vocabulary.tokens == TOKENS
    encoder = {k: v for k, v in model.weights.items() if k.startswith("encoder/")}
    assert_same_weights(found.weights, encoder)


def test_the_pretrainer_of_model_garden(tmp_path, model):
    """Word embeddings stand with the masked LM head, the pooler that counts with the NSP head."""
    w = model.weights
    arrays = garden_arrays(model, True, "encoder")
    del arrays["encoder/layer_with_weights-0/embeddings"]
    pooler = f"encoder/layer_with_weights-{CONFIG.num_hidden_layers + 4}"
    for part in ("kernel", "bias"):
        arrays[f"{pooler}/{part}"] = np.zeros_like(arrays[f"{pooler}/{part}"])
        arrays[f"next_sentence..pooler_dense/{part}"] = w[f"encoder/pooler/{part}"]
        arrays[f"masked_lm/dense/{part}"] = w[f"masked_lm/transform/{part}"]
        arrays[f"model/classification_heads/0/out_proj/{part}"] = w[f"next_sentence/{part}"]
    for part in ("gamma", "beta"):
        arrays[f"masked_lm/layer_norm/{part}"] = w[f"masked_lm/norm/{part}"]
    arrays["masked_lm/output_bias.Sbias"] = w["masked_lm/output_bias"]
    arrays["masked_lm/embedding_table"] = w["encoder/embeddings/word_embeddings"]
    arrays |= {f"{name}{SLOT}": value for name, value in arrays.items()}
    arrays |= {"optimizer/iter": np.array(3, np.int64), "global_step": np.array(3, np.int64)}
    save(tmp_path / "garden", arrays)
    assert_same_weights(weights.read(f"{tmp_path}/garden").weights, w)


class Named(tf.__internal__.tracking.AutoTrackable):
    """A SavedModel with variables of given names, as TF Hub's encoders have them."""

    def __init__(self, arrays, vocab):
        self.variables = [tf.Variable(value, name=name) for name, value in arrays.items()]
        self.do_lower_case = tf.Variable(False, trainable=False, name="Variable")
        self.vocab_file = tf.saved_model.Asset(vocab)


def hub_arrays(model):
    """The variables of an encoder, by the names that TF Hub's have."""
    w = model.weights
    arrays = {
        "word_embeddings/embeddings": w["encoder/embeddings/word_embeddings"],
        "position_embedding/embeddings": w["encoder/embeddings/position_embeddings"],
        "type_embeddings/embeddings": w["encoder/embeddings/token_type_embeddings"],
        "pooler_transform/kernel": w["encoder/pooler/kernel"],
        "pooler_transform/bias": w["encoder/pooler/bias"],
    }
    for part in ("gamma", "beta"):
        arrays[f"embeddings/layer_norm/{part}"] = w[f"encoder/embeddings/norm/{part}"]
    for index in range(CONFIG.num_hidden_layers):
        block = f"transformer/layer_{index}"
        for part, (kernel, bias) in attention_parts(model, index).items():
            arrays[f"{block}/self_attention/{part}/kernel"] = by_heads("", kernel)
            arrays[f"{block}/self_attention/{part}/bias"] = by_heads("", bias)
        for ours, _, theirs in BLOCK:
            for part in ("gamma", "beta") if "norm" in ours else ("kernel", "bias"):
                value = w[f"encoder/block_{index}/{ours}/{part}"]
                if "attention_output" in theirs:
                    value = by_heads(theirs, value)
                arrays[f"{block}/{theirs}/{part}"] = value
    return arrays


@pytest.mark.parametrize("prefix", ["", "bert_encoder_v2_1/"])
def test_encoders_of_tf_hub(tmp_path, model, prefix):
    w, arrays = model.weights, hub_arrays(model)
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{token}\n" for token in TOKENS))
    module = Named({f"{prefix}{name}": value for name, value in arrays.items()}, str(vocab))
    tf.saved_model.save(module, f"{tmp_path}/hub")
    found = weights.read(f"{tmp_path}/hub")
    assert found.vocabulary.tokens == TOKENS
    assert found.tokenizer_settings == {"lower_case": False, "strip_accents": False}
    assert found.config == CONFIG
    encoder = {k: v for k, v in w.items() if k.startswith("encoder/")}
    assert_same_weights(found.weights, encoder)


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A preset that KerasHub itself writes."""
    folder = tmp_path_factory.mktemp("keras_hub")
    _backbone(np.random.default_rng(0)).save_to_preset(f"{folder}/preset")
    return folder / "preset"


def _backbone(rng):
    backbone = keras_nlp.models.BertBackbone(
        vocabulary_size=CONFIG.vocab_size,
        num_layers=CONFIG.num_hidden_layers,
        num_heads=CONFIG.num_attention_heads,
        hidden_dim=CONFIG.hidden_size,
        intermediate_dim=CONFIG.intermediate_size,
        max_sequence_length=CONFIG.max_position_embeddings,
    )
    for variable in backbone.weights:
        centre = 1.0 if variable.path.endswith("gamma") else 0.0
        variable.assign(centre + 0.2 * rng.standard_normal(variable.shape))
    return backbone


def test_presets_of_keras_hub(tmp_path):
    """Written by KerasHub itself, which also gives the outputs to compare with."""
    rng = np.random.default_rng(0)
    backbone = _backbone(rng)
    backbone.save_to_preset(f"{tmp_path}/preset")
    tokens = keras_nlp.models.BertTokenizer(vocabulary=list(TOKENS), lowercase=True)
    tokens.save_to_preset(f"{tmp_path}/preset")
    found = weights.read(f"{tmp_path}/preset")
    assert found.vocabulary.tokens == TOKENS and not found.has(MASKED_LM)
    encoder = found.encoder()
    ids = rng.integers(0, CONFIG.vocab_size, (2, 9)).astype("i4")
    mask = (np.arange(9) < np.array([[9], [6]])).astype("i4")
    types = (np.arange(9) > 4).astype("i4") * mask
    theirs = backbone({"token_ids": ids, "segment_ids": types, "padding_mask": mask})
    ours = encoder(
        {
            "input_word_ids": tf.constant(ids),
            "input_mask": tf.constant(mask),
            "input_type_ids": tf.constant(types),
        }
    )
    seen = mask.astype(bool)
    difference = ours["sequence_output"].numpy() - np.asarray(theirs["sequence_output"])
    assert np.abs(difference[seen]).max() < 1e-5
    difference = ours["pooled_output"].numpy() - np.asarray(theirs["pooled_output"])
    assert np.abs(difference).max() < 1e-5


class Writing(Named):
    """An encoder whose initializer writes a file when it is loaded."""

    def __init__(self, arrays, vocab, path):
        super().__init__(arrays, vocab)
        text = tf.constant(str(path))

        class Table(tf.saved_model.experimental.TrackableResource):
            def _create_resource(self):
                return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

            def _initialize(self):
                tf.io.write_file(text, "written")

        self.table = Table()
        self.table.resource_handle  # noqa: B018 (made now, so that it is traced)


def test_a_saved_model_is_read_and_never_run(tmp_path, model):
    vocab, written = tmp_path / "vocab.txt", tmp_path / "written"
    vocab.write_text("".join(f"{token}\n" for token in TOKENS))
    module = Writing({"word_embeddings/embeddings": np.ones((9, 4), "f4")}, str(vocab), written)
    tf.saved_model.save(module, f"{tmp_path}/hub")
    written.unlink(missing_ok=True)
    tf.saved_model.load(f"{tmp_path}/hub")
    assert written.exists(), "the trap does not work"
    written.unlink()
    with pytest.raises(InputError, match="is not an encoder of BERT: it lacks the variable"):
        weights.read(f"{tmp_path}/hub")
    assert not written.exists()


def test_damaged_saved_models_are_named(tmp_path, model):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{token}\n" for token in TOKENS))
    tf.saved_model.save(Named(hub_arrays(model), str(vocab)), f"{tmp_path}/hub")
    for name in ("saved_model.pb", "variables/variables.index"):
        path = tmp_path / "hub" / name
        data = path.read_bytes()
        for spoilt in (b"", data[: len(data) // 2], b"\xff" * len(data)):
            path.write_bytes(spoilt)
            with pytest.raises(InputError, match=r"damaged|not a SavedModel of TensorFlow 2|lacks"):
                weights.read(f"{tmp_path}/hub")
        path.write_bytes(data)
    proto = saved_model_pb2.SavedModel.FromString((tmp_path / "hub/saved_model.pb").read_bytes())
    proto.meta_graphs[0].asset_file_def[0].filename = "../../vocab.txt"
    (tmp_path / "hub/saved_model.pb").write_bytes(proto.SerializeToString())
    with pytest.raises(
        InputError, match=r"'../../vocab.txt' is not the path of a file in its folder"
    ):
        weights.read(f"{tmp_path}/hub")
    for child in proto.meta_graphs[0].object_graph_def.nodes[0].children:
        child.node_id = 999
    (tmp_path / "hub/saved_model.pb").write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="is damaged|lacks the variable"):
        weights.read(f"{tmp_path}/hub")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"external": [("/etc/hostname", 0, 4)]}, "is kept in another file"),
        ({"chunks": (1 << 20,)}, r"has \d+ weights of [\d,]+ bytes"),
    ],
)
def test_weights_of_presets_are_those_of_the_file_and_the_model(preset, tmp_path, options, message):
    copy = shutil.copytree(preset, tmp_path / "preset")
    with h5py.File(copy / "model.weights.h5", "a") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if hasattr(item, "dtype") else None)
        del file[names[0]]
        size = 1 if "external" in options else 1 << 28
        file.create_dataset(names[0], (size,), "f4", **options)
    with pytest.raises(InputError, match=message):
        weights.read(str(copy))


def test_a_checkpoint_that_claims_more_than_its_files_is_damaged(tmp_path):
    prefix = f"{tmp_path}/bert_model.ckpt"
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=["x"], shape_and_slices=[""], tensors=[np.zeros(10_000)]
    )
    assert tf_checkpoint.read(prefix, lambda name: True)["x"].shape == (10_000,)
    os.truncate(f"{prefix}.data-00000-of-00001", 100)
    with pytest.raises(InputError, match="its variables are larger than its files"):
        tf_checkpoint.read(prefix, lambda name: True)
    os.remove(f"{prefix}.index")
    os.mkfifo(f"{prefix}.index")
    with pytest.raises(InputError, match="index: is not a regular file"):
        tf_checkpoint.read(prefix, lambda name: True)


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"vocabulary_size": "x"}}, "at vocabulary_size: expected a whole number"),
        ({"config": {"hidden_dim": 10**12}}, "hidden_size is too large"),
        ({"config": {"num_layers": 10**30}}, "num_hidden_layers is too large"),
        ({"registered_name": None}, "is a preset of None, not of a BertBackbone"),
        ({"config": {"hidden_dim": 2 * CONFIG.hidden_size}}, "cannot be read|has the shape"),
        ({"config": {"num_layers": CONFIG.num_hidden_layers - 1}},
         r"has \d+ weights .*, the model that its config.json describes"),
        ({"config": {"num_layers": CONFIG.num_hidden_layers + 1}},
         r"cannot be read|has \d+ weights"),
    ],
)  # fmt: skip
def test_presets_are_numbers_and_no_classes(preset, tmp_path, changes, message):
    copy = shutil.copytree(preset, tmp_path / "preset")
    described = json.loads((copy / "config.json").read_text())
    described["module"] = "antigravity"  # which would be imported, if its name counted
    (copy / "config.json").write_text(json.dumps(described))
    weights.read(str(copy))
    assert "antigravity" not in sys.modules
    changed = described | changes | {"config": described["config"] | changes.get("config", {})}
    (copy / "config.json").write_text(json.dumps(changed))
    with pytest.raises(InputError, match=message):
        weights.read(str(copy))
    (copy / "config.json").write_text(json.dumps(described))
    (copy / "model.weights.h5").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"model\.weights\.h5: is damaged"):
        weights.read(str(copy))
    (copy / "model.weights.json").write_text('{"weight_map": {"/a": "../../x.h5"}}')
    with pytest.raises(InputError, match="is not the path of a file in its folder"):
        weights.read(str(copy))


@pytest.mark.parametrize(
    ("stated", "tokens", "expected"),
    [
        ({"lowercase": True}, TOKENS, (True, True)),  # whose vocabulary has no accents
        ({"lowercase": True}, (*TOKENS[:-1], "\u00e9"), (True, False)),
        ({"lowercase": False, "strip_accents": True}, TOKENS, (False, True)),
        ({"lowercase": False, "split": False}, TOKENS, "split False is not supported; True is"),
        ({"suffix_indicator": "@@"}, TOKENS, "suffix_indicator '@@' is not supported; '##' is"),
    ],
)
def test_settings_of_presets_are_followed_or_refused(preset, tmp_path, stated, tokens, expected):
    copy = shutil.copytree(preset, tmp_path / "preset")
    (copy / "task.json").write_text("{}")
    (copy / "assets/tokenizer").mkdir(parents=True)
    (copy / "assets/tokenizer/vocabulary.txt").write_text("".join(f"{t}\n" for t in tokens))
    (copy / "tokenizer.json").write_text(json.dumps({"config": stated}))
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            weights.read(str(copy))
        return
    settings = weights.read(str(copy)).resolved_settings()
    assert (settings["lower_case"], settings["strip_accents"]) == expected
