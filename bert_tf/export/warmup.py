"""Warm-up requests, which TensorFlow Serving runs before a version answers clients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.tasks.signatures import Method, Signature
from pipelines.common import files, optional
from pipelines.common.errors import InputError

if TYPE_CHECKING:
    from tensorflow_serving.apis import prediction_log_pb2

FILE = "tf_serving_warmup_requests"


class WarmupRequest(NamedTuple):
    """A warm-up request."""

    method: Method
    signature: str  # "": the first one of this interface
    inputs: dict[str, np.ndarray]


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


def read(folder: str) -> list[WarmupRequest]:
    """Reads the requests in a folder; none if the file is missing.

    Raises:
      InputError: the file is damaged, or has something else.
    """
    path = f"{folder}/{FILE}"
    if not files.gfile.exists(path):
        return []
    files.check_regular(path)
    from google.protobuf.message import DecodeError

    try:
        return [_parse(record) for record in tf.data.TFRecordDataset(path).as_numpy_iterator()]
    except (tf.errors.DataLossError, DecodeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is damaged, or has no requests ({str(error).splitlines()[0]}); write it "
            "again, or remove it: the first requests are slower then."
        ) from error


def _parse(record: bytes) -> WarmupRequest:
    from tensorflow_serving.apis import prediction_log_pb2

    log = prediction_log_pb2.PredictionLog.FromString(record)
    if log.HasField("predict_log"):
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        return WarmupRequest(Method.PREDICT, request.model_spec.signature_name, inputs)
    classifies = log.HasField("classify_log")
    request = (log.classify_log if classifies else log.regress_log).request
    examples = [example.SerializeToString() for example in request.input.example_list.examples]
    return WarmupRequest(
        Method.CLASSIFY if classifies else Method.REGRESS,
        request.model_spec.signature_name,
        {"inputs": np.array(examples, object)},
    )
