"""The answers of an export's signatures, and bad requests."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.finetuning import batches
from bert_tf.tasks.model import TaskModel, TaskObjective
from bert_tf.vectors.extractor import Embedder
from pipelines.common.errors import InputError
from tests.bert_tf import exported

NAMES = ("mood", "tags", "same", "score", "qa", "qa1", "pick", "topics", "vector")
DEEP = functools.reduce(lambda value, _: [value], range(5000), "a")
IDS = {"input_word_ids": [[2, 9, 3]], "input_mask": [[1, 1, 1]], "input_type_ids": [[0, 0, 0]]}


def _in_memory(folder, name):
    """What the task predicts at the end of training."""
    bundle = weights.read(folder)
    task = tasks.load(bundle.task(name))
    model = TaskModel.for_tasks(bundle.config, [task])
    weights.assign(model, bundle.weights, folder)
    predict = batches.make_logits_function(TaskObjective(model, task), tf.distribute.get_strategy())
    examples = exported.make_examples(name)
    features = task.features(examples, bundle.tokenizer())
    return task, examples, task.predict(examples, features, predict(features))


@pytest.mark.parametrize("name", NAMES)
def test_raw_text_gives_the_predictions_of_training(name, folders, predictor):
    task, examples, wanted = _in_memory(folders[name], name)
    found = predictor.predict(predictor.task(name), examples)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if task.shape == "span":
            assert task.answer(a) == task.answer(b)
            assert [c[0] for c in a.candidates] == [c[0] for c in b.candidates]
            np.testing.assert_allclose(
                [c.score - a.candidates[0].score for c in a.candidates],
                [c.score - b.candidates[0].score for c in b.candidates],
                atol=1e-3,
            )
            if task.allow_null:
                np.testing.assert_allclose(a.null_odds, b.null_odds, atol=1e-3)
        elif task.shape in ("multilabel", "embedding"):
            np.testing.assert_allclose(a[0], b[0], atol=1e-5)
        elif task.shape == "regression":
            np.testing.assert_allclose(a, b, atol=1e-5)
        else:
            assert a[0] == b[0]
            np.testing.assert_allclose(a[1], b[1], atol=1e-5)


def test_ids_give_what_text_gives(folders, predictor):
    tokens = weights.read(folders["mood"]).tokenizer()
    text = exported.TEXTS[0]
    pieces = tokens.tokenize([text]).to_list()[0]
    ids = [tokens.start_id, *pieces, tokens.separator_id]
    padding = [0, 0, 0]
    inputs = {
        "input_word_ids": [ids + padding],
        "input_mask": [[1] * len(ids) + padding],
        "input_type_ids": [[0] * len(ids) + padding],
    }
    by_text, by_ids = predictor("mood", text=[text]), predictor("mood_ids", **inputs)
    for name, value in by_text.items():
        if name == "label":
            assert value == by_ids[name]
        else:
            np.testing.assert_allclose(value, by_ids[name], atol=1e-5)
    first = predictor("tags_ids", **inputs)
    tagged = predictor("tags", text=[text])
    is_first = [i + 1 for i, piece in enumerate(pieces) if tokens.begins_word[piece]]
    assert first["tags"][0, is_first].tolist() == tagged["tags"][0].tolist()


def test_the_first_task_is_the_default(predictor):
    assert predictor(text=["a layer"]).keys() == predictor("tags", text=["a layer"]).keys()


def test_spans_stand_where_they_say(predictor):
    context = "naïve Zürich: the 中国 layer reads. " * 5
    found = predictor("qa1", question=["what?"], context=[context])
    data = context.encode()
    start, end = found["start"][0], found["end"][0]
    assert data[start:end] == found["answer"][0]
    assert (
        context[found["start_character"][0] : found["end_character"][0]].encode() == data[start:end]
    )
    for text, a, b in zip(
        *(found[f"n_best_{part}"][0] for part in ("answer", "start", "end")), strict=True
    ):
        assert data[a:b] == text
    assert 0 < found["score"][0] <= 1
    np.testing.assert_allclose(
        found["n_best_score"].sum() + found["no_answer_probability"], 1, 1e-5
    )


def test_tags_stand_where_they_say(predictor):
    text = "Zürich 中国 isn't far. " * 20
    found = predictor("tags", text=[text, "one two"])
    data = text.encode()
    words = [word for word in found["tokens"][0] if word]
    assert words[:5] == ["Zürich".encode(), "中".encode(), "国".encode(), b"isn", b"'"]
    for index, word in enumerate(words):
        assert data[found["starts"][0, index] : found["ends"][0, index]] == word
        a, b = found["start_characters"][0, index], found["end_characters"][0, index]
        assert text[a:b].encode() == word
    assert found["tokens"][1].tolist()[:3] == [b"one", b"two", b""]
    assert set(found["tags"][0, : len(words)]) <= {b"A", b"B", b"C", b"O"}


def test_masks_are_filled_and_texts_embedded(predictor, folders):
    found = predictor("fill_mask", text=["the [MASK] reads [MASK].", "no mask"])
    assert found["tokens"].shape == found["probabilities"].shape == (2, 2, 5)
    assert found["tokens"][1].ravel().tolist() == [b""] * 10
    assert (np.diff(found["probabilities"][0], axis=-1) <= 0).all()
    # Elsewhere a mask in a text is a word like others.
    texts = ["the [MASK] reads", "na\u00efve [MASK] x[MASK]"]
    embedded = Embedder(folders["pretrained"])(texts)
    found = predictor("embed", text=texts)["mean_output"]
    np.testing.assert_allclose(found, embedded, atol=1e-5)
    one = predictor("embed", text=["the layer"])
    several = predictor("embed", text=["the layer", "the much longer text of a layer"])
    for name in ("mean_output", "pooled_output"):
        np.testing.assert_allclose(one[name][0], several[name][0], atol=1e-5)
    layers = predictor("embed_layers", text=["the layer"])["layers"]
    assert layers.shape == (1, 2, 32)
    np.testing.assert_allclose(layers[:, -1], one["mean_output"], atol=1e-6)


@pytest.mark.more
def test_classify_and_regress_take_examples(export):
    module = tf.saved_model.load(export)

    def example(**texts):
        features = {
            key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
            for key, text in texts.items()
        }
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

    found = module.signatures["mood_classify"](inputs=tf.constant([example(text="a layer")]))
    assert found["classes"].numpy().tolist() == [[b"bad", b"good", b"so-so"]]
    np.testing.assert_allclose(tf.reduce_sum(found["scores"], -1), 1, atol=1e-6)
    found = module.signatures["score_regress"](
        inputs=tf.constant([example(text_a="a", text_b="b")] * 2)
    )
    assert found["outputs"].shape == (2,)
    graph = exported.read_proto(export).meta_graphs[0]
    methods = {name: s.method_name for name, s in graph.signature_def.items()}
    assert methods["mood_classify"] == "tensorflow/serving/classify"
    assert methods["score_regress"] == "tensorflow/serving/regress"
    assert methods["mood"] == "tensorflow/serving/predict"


STRANGE = [
    "",
    b"\xff\xfe broken \xc3",
    b"a \xed\xa0\x80 b",  # half of a surrogate pair
    b"\xf4\x90\x80\x80 x \xe0\x80\x80\xf8\x88",  # beyond Unicode, and written too long
    "☃ 👩‍👩‍👧 \U0001f600",
    " \t\n ",
    "a" * 5000,
    "[MASK] [CLS] \0",
]


def _finite(outputs):
    return all(np.isfinite(v).all() for v in outputs.values() if v.dtype != object)


def test_strange_texts_are_answered(predictor):
    count = len(STRANGE)
    requests = {
        "mood": {"text": STRANGE},
        "same": {"text_a": STRANGE, "text_b": STRANGE[::-1]},
        "score": {"text_a": STRANGE, "text_b": STRANGE},
        "qa": {"question": STRANGE, "context": STRANGE[::-1]},
        "qa1": {"question": STRANGE, "context": STRANGE},
        "tags": {"text": STRANGE},
        "tags_words": {"words": [[text, ""] for text in STRANGE]},
        "pick": {"context": STRANGE, "choices": [[text, "b"] for text in STRANGE]},
        "topics": {"text": STRANGE},
        "vector": {"text": STRANGE},
        "fill_mask": {"text": STRANGE},
        "embed": {"text": STRANGE},
    }
    for name, inputs in requests.items():
        outputs = predictor(name, **inputs)
        assert _finite(outputs), name
        assert all(len(value) == count for value in outputs.values()), name
        for key, value in outputs.items():  # offsets are within the text
            if key in ("end", "ends"):
                sizes = [len(t.encode() if isinstance(t, str) else t) for t in _texts(inputs)]
                assert (value.reshape(count, -1).max(1) <= sizes).all(), name
        alone = predictor(name, **{key: value[:1] for key, value in inputs.items()})
        for key, value in alone.items():
            if value.dtype != object and value.ndim == 1:
                np.testing.assert_allclose(value[0], outputs[key][0], atol=1e-4)


def _texts(inputs):
    return inputs.get("context", inputs.get("text"))


@pytest.mark.more
def test_a_text_of_a_megabyte_is_answered(predictor):
    text = "the layer reads every token of the shard. " * 24_000
    assert len(text) > 1_000_000
    found = predictor("qa1", question=["what?"], context=[text])
    assert text.encode()[found["start"][0] : found["end"][0]] == found["answer"][0]
    assert _finite(predictor("mood", text=[text]))
    assert _finite(predictor("mood", text=[f"{'long' * 60} {text}"]))
    assert _finite(predictor("embed", text=["a" * 1_000_000]))
    tags = predictor("tags", text=[text])
    assert tags["ends"][0, -1] == len(text.rstrip())


def test_large_batches_are_computed_in_parts(predictor):
    texts = [f"{'deep ' * (n % 50)}the [MASK] reads {'[MASK]' * (n % 3)}" for n in range(700)]
    some = [0, 349, 699]
    for name in ("fill_mask", "embed", "embed_layers", "mood"):
        whole = predictor(name, text=texts)
        alone = predictor(name, text=[texts[row] for row in some])
        for key, value in alone.items():
            found = whole[key][some]
            found = found[:, : value.shape[1]] if value.ndim > 1 else found
            if value.dtype == object:
                np.testing.assert_array_equal(found, value)
            else:
                np.testing.assert_allclose(found, value, atol=1e-5)


def test_empty_batches_are_answered(predictor):
    for name, inputs in predictor.signatures.items():
        if "inputs" in inputs:
            continue
        rank = {"choices": 2, "words": 2}
        empty = {}
        for key, dtype in inputs.items():
            ids = key.startswith("input_")
            depth = (3 if name == "pick_ids" else 2) if ids else rank.get(key, 1)
            kind = object if dtype is tf.string else np.int32
            empty[key] = np.zeros([0] + [2] * (depth - 1), kind)
        outputs = predictor(name, **empty)
        assert all(len(value) == 0 for value in outputs.values()), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_word_ids": [[2, 10**6, 3]]}, "input_word_ids must be from 0 to"),
        ({"input_word_ids": [[2, -1, 3]]}, "input_word_ids must be from 0 to"),
        ({"input_type_ids": [[0, 5, 0]]}, "input_type_ids must be from 0 to 1"),
        ({"input_mask": [[1, 7, 0]]}, "input_mask must be 0 or 1"),
        ({"input_mask": [[0, 0, 0]]}, "input_mask must be 1 for a token of each sequence"),
        ({"input_mask": [[1, 1]]}, "must have one shape"),
        ({"input_word_ids": [2, 9, 3]}, "array of int32 with 2 dimensions"),
        ({"input_word_ids": [["a", "b", "c"]]}, "array of int32"),
        ({"input_word_ids": [[2.5, 9.0, 3.0]]}, "all strings or all integers"),
        ({"input_word_ids": [[2, 1 << 32, 3]]}, "4294967296 is beyond int32"),
        ({"input_word_ids": [[2, 9, 3], [2]]}, "rows of unequal lengths"),
    ],
)
def test_bad_ids_are_refused(changes, message, predictor):
    with pytest.raises(InputError, match=message):
        predictor("mood_ids", **(IDS | changes))


def test_sequences_beyond_the_positions_are_refused(predictor):
    long = {name: [[1] * 49] for name in IDS}
    with pytest.raises(InputError, match="from 1 to 48 tokens"):
        predictor("mood_ids", **long)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("modo", {"text": ["a"]}, "no signature 'modo'; it has .*mood"),
        ("mood", {"texts": ["a"]}, "mood: takes text, not texts"),
        ("mood", {"text": "a"}, "text: is one text; give a batch"),
        ("mood", {"text": [["a"]]}, "array of string with 1 dimension, the batch first"),
        ("mood", {"text": [1]}, "array of string"),
        ("mood", {"text": ["a", None]}, "all strings or all integers"),
        ("mood", {"text": ["\ud800"]}, "half of a surrogate pair"),
        ("same", {"text_a": ["a"], "text_b": ["b", "c"]}, "same batch size"),
        ("mood", {"text": DEEP}, "text: is nested too deeply"),
        ("pick", {"context": ["a"], "choices": [[]]}, "every row must have a choice"),
        ("pick", {"context": ["a"] * 2, "choices": [["b"], [""]]}, "every row must have a choice"),
        ("pick_ids", {key: [[[0, 0]]] for key in IDS}, "every row must have a choice"),
        ("mood_classify", {"inputs": [b"\xff\xfe"]}, "inputs are not serialized tf.Examples"),
        ("mood_classify", {"inputs": [b""]}, "inputs are not serialized tf.Examples"),
        ("score_regress", {"inputs": ["text"]}, "inputs are not serialized tf.Examples"),
    ],
)
def test_bad_requests_are_refused(name, inputs, message, predictor):
    with pytest.raises(InputError, match=message):
        predictor(name, **inputs)
