"""Warm-up requests of others' making, and files that hold none."""

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from bert_tf.export import warmup
from bert_tf.serving.server import run
from bert_tf.tasks.signatures import Method
from pipelines.common.errors import InputError


def _write(folder, *records):
    with tf.io.TFRecordWriter(f"{folder}/{warmup.FILE}") as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else record.SerializeToString())


def _asking(text, signature=""):
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    log.predict_log.request.inputs["text"].CopyFrom(tf.make_tensor_proto([text]))
    return log


class _Predictor:
    path = "bert"
    manifest = {  # noqa: RUF012
        "signatures": {
            "mood_classify": {"method": Method.CLASSIFY},
            "mood": {"method": Method.PREDICT},
        }
    }

    def __init__(self):
        self.asked = []

    def __call__(self, signature, **inputs):
        self.asked.append((signature, {name: value.tolist() for name, value in inputs.items()}))


def test_a_request_that_names_no_signature_is_for_the_first_of_its_kind(tmp_path):
    _write(tmp_path, _asking("a"), _asking("b", "mood"))
    predictor = _Predictor()
    run._warm_up(predictor, str(tmp_path))
    assert sorted(predictor.asked, key=str) == [
        ("mood", {"text": [b"a"]}), ("mood", {"text": [b"b"]}),
    ]  # fmt: skip


def test_a_request_for_another_signature_is_told_with_the_file(tmp_path):
    _write(tmp_path, _asking("a", "tags"))
    with pytest.raises(InputError, match=f"{warmup.FILE}: Unknown signature 'tags'"):
        run._warm_up(_Predictor(), str(tmp_path))


@pytest.mark.parametrize("how", ["cut", "foreign"])
def test_a_file_that_holds_no_requests_is_named(tmp_path, how):
    _write(tmp_path, _asking("a") if how == "cut" else b"\xff no message")
    path = tmp_path / warmup.FILE
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match=f"{warmup.FILE}: is damaged, or has no requests"):
        warmup.read(str(tmp_path))


def test_there_need_be_none(tmp_path):
    assert warmup.read(str(tmp_path)) == []
