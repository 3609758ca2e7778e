"""Warm-up requests: TF Serving runs them before a version takes traffic."""

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
    """A request to warm up with.

    Attributes:
      method: the interface that it is for.
      signature: its name; "": the first one of this interface.
      inputs: by name.
    """

    method: Method
    signature: str
    inputs: dict[str, np.ndarray]


def write(signatures: Sequence[Signature], folder: str) -> None:
    """Writes one request for each signature, where TensorFlow Serving's API is installed."""
    if not optional.is_there("tensorflow_serving"):
        logging.info("no warm-up requests are written: pip install 'bert-tf[serving]'")
        return
    files.gfile.makedirs(folder)
    with tf.io.TFRecordWriter(f"{folder}/{FILE}") as writer:
        for signature in signatures:
            writer.write(_request(signature).SerializeToString())


def read(folder: str) -> list[WarmupRequest]:
    """The requests in a folder; none where there is no file of them.

    Raises:
      InputError: the file is damaged, or holds something else.
    """
    path = f"{folder}/{FILE}"
    if not files.gfile.exists(path):
        return []
    files.check_regular(path)
    from google.protobuf.message import DecodeError

    try:
        return [_parsed(record) for record in tf.data.TFRecordDataset(path).as_numpy_iterator()]
    except (tf.errors.DataLossError, DecodeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is damaged, or holds no requests ({str(error).splitlines()[0]}); write it "
            "again, or remove it: the first requests are slower then."
        ) from error


def _parsed(record: bytes) -> WarmupRequest:
    from tensorflow_serving.apis import prediction_log_pb2

    log = prediction_log_pb2.PredictionLog.FromString(record)
    if log.HasField("predict_log"):
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        return WarmupRequest(Method.PREDICT, request.model_spec.signature_name, inputs)
    classifies = log.HasField("classify_log")
    part = log.classify_log if classifies else log.regress_log
    examples = part.request.input.example_list.examples
    serialized = [example.SerializeToString() for example in examples]
    return WarmupRequest(
        Method.CLASSIFY if classifies else Method.REGRESS,
        part.request.model_spec.signature_name,
        {"inputs": np.array(serialized, object)},
    )


def _request(signature: Signature) -> "prediction_log_pb2.PredictionLog":
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
