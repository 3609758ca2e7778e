"""Warm-up requests, which TensorFlow Serving runs before a version answers clients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf
from absl import logging

from bert_tf.tasks.signatures import Method, Signature
from pipelines.common import files, optional

if TYPE_CHECKING:
    from tensorflow_serving.apis import prediction_log_pb2

FILE = "tf_serving_warmup_requests"


def write(signatures: Sequence[Signature], folder: str) -> None:
    """Writes one request for each signature, if TensorFlow Serving's API is installed."""
    if not optional.is_there("tensorflow_serving"):
        logging.info("no warm-up requests are written: pip install 'bert-tf[serving]'")
        return
    files.gfile.makedirs(folder)
    with tf.io.TFRecordWriter(f"{folder}/{FILE}") as writer:
        for signature in signatures:
            writer.write(_log(signature).SerializeToString())


def _log(signature: Signature) -> "prediction_log_pb2.PredictionLog":
    from tensorflow_serving.apis import prediction_log_pb2

    log = prediction_log_pb2.PredictionLog()
    if signature.method is Method.PREDICT:
        request = log.predict_log.request
        for name, value in signature.sample.items():
            dtype = signature.inputs[name].dtype
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value, dtype))
    else:
        part = log.classify_log if signature.method is Method.CLASSIFY else log.regress_log
        request = part.request
        for example in signature.sample["inputs"]:
            request.input.example_list.examples.add().ParseFromString(example)
    request.model_spec.name = "bert"
    request.model_spec.signature_name = signature.name
    return log
