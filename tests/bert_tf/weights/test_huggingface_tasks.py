"""What folders of Hugging Face state of tasks: lengths, labels, poolers, scores, ids of tokens."""

import dataclasses
import json
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.models.config import BertConfig
from bert_tf.tasks.model import HeadShape, TaskModel
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError

from .test_huggingface import change
from .test_roberta import ROBERTA
from .test_roberta import make_bundle as make_roberta
from .test_weights import CONFIG, assert_same_weights, edit, make_bundle


def folder_of(tmp_path, shape="classification", units=3, config=CONFIG, model=None):
    """A folder as other programs leave it."""
    model = model or make_bundle(config, shape=shape, units=units)
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    (tmp_path / "hf/tasks.json").unlink(missing_ok=True)
    return tmp_path / "hf"


@pytest.mark.parametrize(
    ("shape", "stated", "length"),
    [
        ("classification", {"model_max_length": 20}, 20),
        ("tagging", {"model_max_length": 512}, 64),  # the positions
        ("classification", {"model_max_length": 1000000000000000019884624838656}, 64),
        ("choice", {"model_max_length": None}, 64),
        ("span", {"model_max_length": 20}, 64),  # windows of 384 tokens, at most the positions
    ],
)
def test_a_task_has_the_length_of_the_model(tmp_path, shape, stated, length):
    folder = folder_of(tmp_path, shape, {"choice": 1, "span": 2}.get(shape, 3))
    change(folder / "tokenizer_config.json", **stated)
    model = weights.read(str(folder))
    assert tasks.load(model.task(), model.config.max_seq_length).max_seq_length == length
    chosen = model.with_max_length(30)
    weights.write(chosen, f"{tmp_path}/short", Format.HUGGINGFACE)
    written = json.loads((tmp_path / "short/tokenizer_config.json").read_text())
    assert written["model_max_length"] == 30
    assert tasks.load(chosen.task(), model.config.max_seq_length).max_seq_length == 30
    with pytest.raises(InputError, match="65 tokens exceed the 64 positions"):
        model.with_max_length(65)


def test_the_older_name_of_the_length_is_read(tmp_path):
    folder = folder_of(tmp_path)
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text())
    assert values.pop("model_max_length") == 64
    path.write_text(json.dumps(values | {"max_len": 20}))
    assert weights.read(str(folder)).task()["max_seq_length"] == 20


def test_a_model_without_a_task_has_no_length_to_set():
    with pytest.raises(InputError, match="has no task, whose --max_seq_length it is"):
        make_bundle(CONFIG).with_max_length(30)


def test_the_first_positions_of_a_roberta_are_not_for_tokens(tmp_path):
    model = make_roberta(shape="classification")
    folder = folder_of(tmp_path, model=model)
    change(folder / "tokenizer_config.json", model_max_length=512)
    assert weights.read(str(folder)).task()["max_seq_length"] == 18  # of 20 positions
    change(folder / "tokenizer_config.json", model_max_length=3)
    with pytest.raises(InputError, match=r"tokenizer_config.json: cuts texts to 3 tokens"):
        weights.read(str(folder))


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ({"0": 0, "1": 1, "2": 2}, ["0", "1", "2"]),  # as run_glue.py writes them
        ({"0": -1.5, "1": "1", "2": True}, ["-1.5", "1", "True"]),
        ({"0": "a", "1": "b", "2": "a"}, ["a (0)", "b", "a (2)"]),
    ],
)
def test_any_names_of_labels_are_read(tmp_path, caplog, names, labels):
    folder = folder_of(tmp_path)
    change(folder / "config.json", id2label=names)
    model = weights.read(str(folder))
    assert model.task()["labels"] == labels
    assert ("names several units alike (a)" in caplog.text) == ("b" in labels)
    weights.write(model, f"{tmp_path}/back", Format.HUGGINGFACE)
    assert weights.read(f"{tmp_path}/back").tasks == model.tasks


FEATURES = {
    "input_word_ids": tf.constant([[5, 8, 9, 12, 7], [6, 11, 13, 0, 0]]),
    "input_mask": tf.constant([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
    "input_type_ids": tf.zeros([2, 5], tf.int32),
}


@pytest.mark.parametrize("config", [CONFIG, ROBERTA], ids=["bert", "roberta"])
def test_the_pooler_of_a_causal_model_reads_the_first_token(tmp_path, config):
    """As in transformers, where only generation knows of the last one."""
    make = make_roberta if config is ROBERTA else make_bundle
    folder = folder_of(tmp_path, model=make(config, shape="classification"))
    change(folder / "config.json", is_decoder=True)
    model = weights.read(str(folder))
    assert model.config.causal and model.config.pool_first
    net = TaskModel(model.config, [HeadShape("classification", 3, False)])
    assert not weights.assign(net, model.weights, "")
    outputs = net.encoder(FEATURES)
    kernel, bias = (model.weights[f"encoder/pooler/{name}"] for name in ("kernel", "bias"))
    expected = np.tanh(outputs["sequence_output"][:, 0] @ kernel + bias)
    np.testing.assert_allclose(outputs["pooled_output"], expected, atol=1e-5)
    np.testing.assert_allclose(net.encoder.pooled(FEATURES), expected, atol=1e-5)
    # It is written as it was read; our own, which reads the last token, is not.
    weights.write(model, f"{tmp_path}/back", Format.HUGGINGFACE)
    again = weights.read(f"{tmp_path}/back")
    assert again.config == model.config
    assert_same_weights(again.weights, model.weights)
    ours = dataclasses.replace(model, config=dataclasses.replace(model.config, pool_first=False))
    with pytest.raises(InputError, match="reads the last token, as the model is causal"):
        weights.write(ours, f"{tmp_path}/ours", Format.HUGGINGFACE)


IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"
SOFTMAX = "torch.nn.modules.activation.Softmax"
PAIRS = "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("keys", "activation"),
    [
        ({"sbert_ce_default_activation_function": IDENTITY}, "identity"),  # before version 4
        ({"sentence_transformers": {"activation_fn": SIGMOID, "version": "4.1.0"}}, "sigmoid"),
        ({"sentence_transformers": {"activation_fn": SIGMOID},
         "sbert_ce_default_activation_function": IDENTITY}, "sigmoid"),
    ],
)  # fmt: skip
def test_a_reranker_has_the_activation_that_its_folder_states(tmp_path, keys, activation):
    folder = folder_of(tmp_path, "regression", 1)
    change(folder / "config.json", **keys)
    model = weights.read(str(folder))
    assert (model.task()["activation"], model.task()["pair"]) == (activation, True)
    task = tasks.load(model.task())
    assert task.pair
    logits = np.array([[-11.2], [-9.8], [0.0], [2.5]], np.float32)
    expected = logits[:, 0] if activation == "identity" else 1 / (1 + np.exp(-logits[:, 0]))
    np.testing.assert_allclose(task.predict([], {}, list(logits)), expected, rtol=1e-6)
    assert len(set(task.predict([], {}, list(logits)))) == 4  # they do not tie
    weights.write(model, f"{tmp_path}/back", Format.HUGGINGFACE)
    stated = json.loads((tmp_path / "back/config.json").read_text())["sentence_transformers"]
    assert stated == {"activation_fn": IDENTITY if activation == "identity" else SIGMOID}
    problem = json.loads((tmp_path / "back/config.json").read_text()).get("problem_type")
    # Pipelines of transformers show a score of "regression" without its activation.
    assert problem == ("regression" if activation == "identity" else None)
    assert weights.read(f"{tmp_path}/back").tasks == model.tasks


def test_newer_rerankers_state_it_in_another_file(tmp_path):
    folder = folder_of(tmp_path, "regression", 1)
    assert "activation" not in weights.read(str(folder)).task()
    change(folder / PAIRS, model_type="CrossEncoder", activation_fn=SIGMOID)
    assert weights.read(str(folder)).task()["activation"] == "sigmoid"
    change(folder / PAIRS, activation_fn=None)  # that of the library for one label
    assert weights.read(str(folder)).task()["activation"] == "sigmoid"
    change(folder / PAIRS, activation_fn="torch.nn.modules.activation.Tanh")
    with pytest.raises(InputError, match=rf"{PAIRS}: the activation of scores is t.*Tanh; known"):
        weights.read(str(folder))


def test_the_name_of_one_score_is_kept(tmp_path):
    folder = folder_of(tmp_path, "regression", 1)
    assert "label" not in weights.read(str(folder)).task()
    change(folder / "config.json", id2label={"0": "toxicity"})
    weights.write(weights.read(str(folder)), f"{tmp_path}/back", Format.HUGGINGFACE)
    back = json.loads((tmp_path / "back/config.json").read_text())
    assert (back["id2label"], back["label2id"]) == ({"0": "toxicity"}, {"toxicity": 0})


def test_a_cross_encoder_of_several_labels_reads_pairs(tmp_path):
    folder = folder_of(tmp_path)
    assert "pair" not in weights.read(str(folder)).task()
    change(folder / PAIRS, model_type="CrossEncoder")
    assert weights.read(str(folder)).task()["pair"]


@pytest.mark.parametrize(
    ("problem", "activation", "message"),
    [
        (None, SOFTMAX, None),
        (None, IDENTITY, None),
        (None, SIGMOID, 'Sigmoid; set problem_type to "multi_label_classification" in config.json'),
        ("multi_label_classification", SIGMOID, None),
        ("multi_label_classification", SOFTMAX, "Softmax; known are .*Identity, .*Sigmoid"),
        ("regression", SIGMOID, "Sigmoid; known are torch.nn.modules.linear.Identity"),
    ],
)
def test_the_activation_of_several_scores_is_ours_or_refused(
    tmp_path, problem, activation, message
):
    folder = folder_of(tmp_path)
    expected = weights.read(str(folder)).task()
    change(folder / "config.json", problem_type=problem)
    for name, stated in {
        PAIRS: {"activation_fn": activation},
        "config.json": {"sentence_transformers": {"activation_fn": activation}},
    }.items():
        change(folder / name, **stated)
        if message:
            with pytest.raises(InputError, match=f"{name}: the activation of scores .*{message}"):
                weights.read(str(folder))
        else:
            found = weights.read(str(folder)).task()
            assert found["pair"] and (
                problem or found == expected | {"pair": True, "activation": found["activation"]}
            )
            weights.write(weights.read(str(folder)), f"{tmp_path}/{name}", Format.HUGGINGFACE)
            back = json.loads((tmp_path / name / "config.json").read_text())
            assert back["sentence_transformers"] == {"activation_fn": activation}
            assert back.get("problem_type") == problem
        change(folder / name, **dict.fromkeys(stated))


# The files of a CrossEncoder that version 6 of the library writes.
CROSS_ENCODER = {
    PAIRS: {"model_type": "CrossEncoder", "prompts": {"q": "query: "}, "activation_fn": SIGMOID,
            "__version__": {"sentence_transformers": "6.2.0"}},
    "sentence_bert_config.json": {
        "transformer_task": "sequence-classification", "module_output_name": "scores",
        "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (PAIRS, {"default_prompt_name": "q"}, "default_prompt_name is 'q'; models of pairs have"),
        (PAIRS, {"default_prompt_name": "x"}, "default_prompt_name is 'x'; the prompts are q"),
        ("sentence_bert_config.json", {"transformer_task": "x"}, "transformer_task is 'x'; only"),
        ("tokenizer_config.json", {"do_lower_case": False}, "do_lower_case makes texts lower case"),
        ("modules.json", {"type": "sentence_transformers.models.CNN"}, "modules Transformer, CNN;"),
        ("modules.json", {"type": "mine.CNN"}, "mine.CNN is code of the folder's own"),
    ],
)
def test_what_a_cross_encoder_states_is_ours_or_refused(tmp_path, caplog, name, changes, message):
    folder = folder_of(tmp_path, "regression", 1)
    for file, values in CROSS_ENCODER.items():
        change(folder / file, **values)
    module = {"idx": 0, "path": "", "type": "sentence_transformers.base.modules.Transformer"}
    (folder / "modules.json").write_text(json.dumps([module]))
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    assert weights.read(str(folder)).task()["activation"] == "sigmoid"
    assert "unknown" not in caplog.text
    if name == "modules.json":
        (folder / name).write_text(json.dumps([module, {"idx": 1, "path": "1", **changes}]))
    else:
        change(folder / name, **changes)
    with pytest.raises(InputError, match=message):
        weights.read(str(folder))


BART = dataclasses.replace(
    BertConfig.named("bart-debug"), vocab_size=53, hidden_size=24, num_attention_heads=4,
    intermediate_size=40, max_position_embeddings=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "keys", "message"),
    [
        (
            BART,
            {"eos_token_id": 7, "decoder_start_token_id": 7, "pad_token_id": 5},
            "pad_token_id is 5, but without a tokenizer only 1 can be read; copy its files there",
        ),
        (
            BertConfig.named(
                "gpt2-debug", vocab_size=53, hidden_size=24, num_attention_heads=4,
                intermediate_size=96, max_position_embeddings=20, head_dropout=0.1,
            ),
            {"eos_token_id": 93},
            "eos_token_id is 93, but without a tokenizer only 50256 can be read",
        ),
    ],
    ids=["bart", "gpt2"],
)  # fmt: skip
def test_ids_of_tokens_are_kept_or_refused(tmp_path, config, keys, message):
    """Without a tokenizer they would be written back as those of the released models."""
    folder = folder_of(tmp_path, model=make_roberta(config))
    assert weights.read(str(folder)).config == config
    change(folder / "config.json", **keys)
    with pytest.raises(InputError, match=rf"config\.json: {message}"):
        weights.read(str(folder))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 9999}, r"lacks the weight bert.encoder.layer.9998.output.LayerNorm"),
        ({"vocab_size": 10**9}, r"word_embeddings.weight has the shape \[53, 24\]; .*1000000000"),
        ({"hidden_size": 2**20}, r"has the shape \[53, 24\]; the configuration requires \[53, 104"),
    ],
)
def test_sizes_are_compared_with_the_file_first(tmp_path, monkeypatch, changes, message):
    folder = folder_of(tmp_path)
    change(folder / "config.json", **changes)
    monkeypatch.delattr("bert_tf.weights.table.parameter_shapes")  # nothing of these sizes is made
    with pytest.raises(InputError, match=message):
        weights.read(str(folder))


def test_weights_are_read_one_by_one(tmp_path):
    """The memory of a conversion is that of the weights, and not several times the file."""
    config = dataclasses.replace(CONFIG, vocab_size=200_000)
    folder = folder_of(tmp_path, model=make_bundle(config, drop=(bundle.MASKED_LM,)))
    size = (folder / "model.safetensors").stat().st_size
    weights.read(str(folder))  # what is made once
    tracemalloc.start()
    weights.read(str(folder))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < peak < 1.6 * size


def test_many_empty_tensors_are_named_at_once(tmp_path):
    folder = folder_of(tmp_path)
    empty = {f"x.{i}": np.zeros((0,), np.float32) for i in range(20_000)}
    edit(folder, lambda arrays: arrays.update(empty))
    with pytest.raises(InputError, match=r"weights that this model does not have: x\.0"):
        weights.read(str(folder))


def test_a_damaged_file_of_weights_is_named(tmp_path):
    folder = folder_of(tmp_path)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for spoilt in (b"", data[:100], data[:-1], b"\xff" * 200):
        path.write_bytes(spoilt)
        with pytest.raises(InputError, match="model.safetensors: is damaged"):
            weights.read(str(folder))
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(InputError, match="model.safetensors: is a pointer of Git LFS; run"):
        weights.read(str(folder))
    path.write_bytes(safetensors.numpy.save({"x": np.zeros(2, np.int16)}))
    with pytest.raises(InputError, match="x has the type I16, which is not read"):
        weights.read(str(folder))
