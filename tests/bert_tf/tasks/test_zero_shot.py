"""Labels that a request names, by a model of textual entailment."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.special

from bert_tf import tasks, weights
from bert_tf.export import saved_model, sources
from bert_tf.serving import file_prediction
from bert_tf.serving.predictor import Predictor
from bert_tf.tasks.classification import entailment
from bert_tf.tasks.classification.zero_shot import ZeroShot
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.labelled.source import Source
from tests import peers
from tests.bert_tf import exported

LABELS = ("layer", "kernel", "The token is masked.")


@pytest.fixture(scope="module")
def folder(vocab_path, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("mnli") / "nli")
    task = dataclasses.replace(tasks.make("mnli", "nli"), max_seq_length=exported.MAX_LENGTH)
    weights.write(exported.make_bundle(vocab_path, [task], 0), folder, Format.BERT_TF)
    return folder


@pytest.fixture(scope="module")
def predictor(folder):
    return Predictor(saved_model.export(sources.find([f"nli={folder}"]), f"{folder}-export"))


def _entailment_logits(predictor, texts):
    """Those of each text with each hypothesis, by the ordinary signature of pairs."""
    hypotheses = ["This example is layer.", "This example is kernel.", "The token is masked."]
    pairs = [(text, hypothesis) for text in texts for hypothesis in hypotheses]
    first, second = map(list, zip(*pairs, strict=True))
    logits = predictor("nli", text_a=first, text_b=second)["logits"].reshape(len(texts), 3, 3)
    yes, no = (tasks.make("mnli").labels.index(x) for x in ("entailment", "contradiction"))
    return logits[..., [yes, no]]


@pytest.mark.more
def test_each_label_is_a_hypothesis(predictor):
    texts = exported.TEXTS[:5]
    logits = _entailment_logits(predictor, texts)
    found = predictor("nli_zero_shot", text=texts, labels=[list(LABELS)] * 5)
    expected = scipy.special.softmax(logits[..., 0], -1)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    np.testing.assert_allclose(
        found["entailment"], scipy.special.softmax(logits, -1)[..., 0], atol=1e-6
    )
    best = [LABELS[number].encode() for number in expected.argmax(-1)]
    assert found["label"].tolist() == best and len(set(best)) > 1


def test_rows_may_have_fewer_labels(predictor):
    text = exported.TEXTS[0]
    alone = predictor("nli_zero_shot", text=[text], labels=[["layer", "kernel"]])
    both = predictor(
        "nli_zero_shot", text=[text, text], labels=[["layer", "kernel", ""], list(LABELS)]
    )
    for name in ("probabilities", "entailment"):
        np.testing.assert_allclose(both[name][0, :2], alone[name][0], atol=1e-6)
        assert both[name][0, 2] == 0
    assert both["label"][0] == alone["label"][0]
    with pytest.raises(InputError, match="every row must have a label that is not empty"):
        predictor("nli_zero_shot", text=[text], labels=[["", ""]])
    empty = np.zeros([0, 0], object)
    assert predictor("nli_zero_shot", text=empty[:, 0:0].ravel(), labels=empty)["label"].size == 0


@pytest.mark.more
def test_a_file_has_the_same_answers_from_model_and_export(folder, predictor, tmp_path):
    path = tmp_path / "texts.jsonl"
    texts = [text for text in exported.TEXTS if text.strip()]
    rows = [{"text": text, "label": LABELS[n % 2]} for n, text in enumerate(texts)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = []
    for model in (folder, predictor.path):
        (written,), metrics = file_prediction.predict_file(
            model, Source(str(path)), f"{tmp_path}/out", labels=LABELS, labelled=True
        )
        table = [line.split("\t") for line in open(written).read().splitlines()]
        assert table[0][:2] == ["id", "label"] and "p(kernel)" in table[0]
        found.append([row[1] for row in table[1:]])
        right = np.mean([row["label"] == a for row, a in zip(rows, found[-1], strict=True)])
        assert metrics["accuracy"] == pytest.approx(right)
    answers = predictor("nli_zero_shot", text=texts, labels=[list(LABELS)] * len(texts))
    assert found[0] == found[1] == [label.decode() for label in answers["label"]]


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (("contradiction", "entailment", "neutral"), (1, 0)),
        (("ENTAILMENT", "NEUTRAL", "CONTRADICTION"), (0, 2)),
        (("entailment", "not_entailment"), (0, 1)),
        (("no", "yes"), None),
        (("entailment", "neutral"), None),
    ],
)
def test_names_of_labels_show_what_entails(labels, numbers):
    assert entailment.numbers(labels) == numbers


def test_other_models_cannot_choose_new_labels():
    for kind in ("qnli", "mrpc", "classification", "squad1"):
        with pytest.raises(InputError, match="--labels: are for a model of textual entailment"):
            ZeroShot.of(tasks.make(kind), LABELS)
    with pytest.raises(InputError, match="two labels or more that differ"):
        ZeroShot.of(tasks.make("rte"), ["a", "a"])


_PEER = """
import json, sys
from transformers import pipeline

folder, texts, labels = sys.argv[1], *map(json.loads, sys.argv[2:4])
ask = pipeline("zero-shot-classification", model=folder)
found = []
for text in texts:
    alone, several = (ask(text, labels, multi_label=each) for each in (False, True))
    found.append([dict(zip(each["labels"], each["scores"])) for each in (alone, several)])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_answers_are_those_of_transformers(folder, predictor, tmp_path):
    python = peers.python("transformers")
    theirs, texts, labels = f"{tmp_path}/hf", exported.TEXTS[:3], list(LABELS[:2])
    weights.write(weights.read(folder), theirs, Format.HUGGINGFACE)
    done = peers.output(python, "-c", _PEER, theirs, json.dumps(texts), json.dumps(labels))
    found = predictor("nli_zero_shot", text=texts, labels=[labels] * 3)
    for row, (alone, several) in enumerate(json.loads(done.splitlines()[-1])):
        for number, label in enumerate(labels):
            assert found["probabilities"][row, number] == pytest.approx(alone[label], abs=1e-5)
            assert found["entailment"][row, number] == pytest.approx(several[label], abs=1e-5)
