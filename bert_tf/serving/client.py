"""A client of TensorFlow Serving, over gRPC or REST.

>>> client = connect("grpc://localhost:8500")
>>> client.predict("mrpc", text_a=["It rained."], text_b=["Rain fell."])["label"]
array([b'1'], dtype=object)
"""

import abc
import base64
import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import tensorflow as tf

from bert_tf.serving import inputs as values_of_requests
from bert_tf.serving.credentials import Access
from pipelines.common import json_files, optional
from pipelines.common.errors import InputError

_MAX_BYTES = 1 << 30  # of a message
_UNREACHABLE = "no server can be reached; start one with bert-tf serve, or check the address"
_NO_ACCESS = Access()
_PORTS = {"grpc": 8500, "grpcs": 8500, "http": 8501, "https": 443}
Outputs = dict[str, np.ndarray]
# TensorFlow's name of the dtype, and the sizes of the axes, -1 if unknown; by output.
_OutputSpecs = dict[str, tuple[str, list[int]]]


class Client(abc.ABC):
    """Sends requests to one model of a server."""

    @abc.abstractmethod
    def predict(self, signature: str | None = None, /, **inputs: Any) -> Outputs:
        """Answers one request, as `Predictor` does.

        Raises:
          InputError: the server cannot be reached, does not answer in time, or refuses the request
            with the reason in the message.
        """


def connect(
    address: str,
    model: str = "bert",
    version: int | None = None,
    timeout: float = 60.0,
    access: Access = _NO_ACCESS,
) -> Client:
    """A client for an address.

    Args:
      address: grpc://host:8500 or http://host:8501; with TLS grpcs://host:8500 or https://host.
      model: its name on the server.
      version: of the model; None: the newest.
      timeout: seconds for one request.
      access: token and certificates.

    Raises:
      InputError: the address has another form, or the certificates cannot be read, or have no use
        without TLS.
    """
    try:
        parts = urlsplit(address)
        usual, secure = _PORTS[parts.scheme], parts.scheme in ("grpcs", "https")
        port = usual if parts.port is None else parts.port
        over_grpc = parts.scheme.startswith("grpc")
        more = "@" in parts.netloc or parts.query or parts.fragment
        if not port or not parts.hostname or more or (over_grpc and parts.path.strip("/")):
            raise ValueError(address)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{address}: not an address of a server; use grpc://host:8500 or http://host:8501."
        ) from error
    if access.authority and not secure:
        raise InputError(
            f"--authority={access.authority}: {address} is without TLS; use grpcs:// or https://, "
            "or leave it out."
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if over_grpc:
        return GrpcClient(f"{host}:{port}", model, version, timeout, access, secure)
    base = f"{parts.scheme}://{host}:{port}{parts.path}"
    return RestClient(base.rstrip("/"), model, version, timeout, access)


class GrpcClient(Client):
    """Over gRPC, with the stubs of tensorflow-serving-api; the arguments are those of `connect`."""

    def __init__(
        self,
        target: str,
        model: str,
        version: int | None,
        timeout: float,
        access: Access,
        secure: bool,
    ):
        self._address = f"grpc{'s' if secure else ''}://{target}"
        self._model, self._version = model, version
        self._timeout, self._metadata = timeout, list(access.headers.items())
        self._grpc = optional.load("grpc", "serving")
        self._messages = optional.load("tensorflow_serving.apis.predict_pb2", "serving")
        service = optional.load("tensorflow_serving.apis.prediction_service_pb2_grpc", "serving")
        sizes = ("grpc.max_send_message_length", "grpc.max_receive_message_length")
        options = [(name, _MAX_BYTES) for name in sizes]
        if secure:
            credentials = self._grpc.ssl_channel_credentials(access.certificates())
            channel = self._grpc.secure_channel(target, credentials, options)
        else:
            channel = self._grpc.insecure_channel(target, options)
        self._stub = service.PredictionServiceStub(channel)

    def predict(self, signature: str | None = None, /, **inputs: Any) -> Outputs:
        request = self._messages.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.signature_name = signature or "serving_default"
        if self._version is not None:
            request.model_spec.version.value = self._version
        for name, value in inputs.items():
            array = values_of_requests.as_array(name, value)
            request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
        try:
            response = self._stub.Predict(request, self._timeout, self._metadata)
        except self._grpc.RpcError as error:
            raise InputError(f"{self._address}: {self._reason(error)}") from error
        return {name: tf.make_ndarray(value) for name, value in response.outputs.items()}

    def _reason(self, error: Any) -> str:
        if error.code() is self._grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no answer within {self._timeout:g} s."
        details = _first_line(error.details() or error.code().name)
        # A server with a full queue is UNAVAILABLE, too.
        if error.code() is self._grpc.StatusCode.UNAVAILABLE and "connect" in details.lower():
            return f"{_UNREACHABLE} ({details})"
        return details


class RestClient(Client):
    """Over HTTP with JSON; the arguments are those of `connect`."""

    def __init__(self, base: str, model: str, version: int | None, timeout: float, access: Access):
        self._base, self._timeout = base, timeout
        self._url = f"{base}/v1/models/{quote(model)}"
        if version is not None:
            self._url += f"/versions/{version}"
        self._headers = {"Content-Type": "application/json", **access.headers}
        self._context = access.ssl_context() if base.startswith("https:") else None
        self._outputs: dict[str, _OutputSpecs] = {}  # by signature

    def predict(self, signature: str | None = None, /, **inputs: Any) -> Outputs:
        signature = signature or "serving_default"
        columns = {
            name: _as_json(values_of_requests.as_array(name, value).tolist())
            for name, value in inputs.items()
        }
        answer = self._ask(":predict", {"signature_name": signature, "inputs": columns})
        for _ in range(2):
            with contextlib.suppress(KeyError, TypeError, ValueError):
                return _outputs(answer, self._specs(signature))
            self._outputs = {}  # perhaps of an older version
        raise InputError(f"{self._base}: the answer is not one of TensorFlow Serving's.")

    def _specs(self, signature: str) -> _OutputSpecs:
        """The dtypes and sizes of a signature's outputs, which JSON lacks."""
        if signature not in self._outputs:  # also if a newer version added it
            answer = self._ask("/metadata")
            try:
                signatures = answer["metadata"]["signature_def"]["signature_def"]
                self._outputs = {
                    name: {
                        key: (info["dtype"], [int(x["size"]) for x in info["tensor_shape"]["dim"]])
                        for key, info in found["outputs"].items()
                    }
                    for name, found in signatures.items()
                }
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise InputError(f"{self._base}: has no metadata of the model.") from error
        if signature not in self._outputs:
            raise InputError(f"{self._base}: has no metadata of the signature {signature}.")
        return self._outputs[signature]

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to a request, with a body by POST."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, self._headers)
        try:
            with urllib.request.urlopen(
                request, timeout=self._timeout, context=self._context
            ) as response:
                text = response.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            raise InputError(f"{self._base}: {_http_reason(error)}") from error
        except http.client.HTTPException as error:
            reason = "does not speak HTTP; is this the port for REST?"
            raise InputError(f"{self._base}: {reason}") from error
        except OSError as error:  # URLError is one
            cause = getattr(error, "reason", error)
            reason = f"{_UNREACHABLE} ({cause})"
            if data and isinstance(cause, BrokenPipeError | ConnectionResetError):
                reason = f"{cause}; the request may be larger than --max_bytes of the server."
            if isinstance(error, TimeoutError) or isinstance(cause, TimeoutError):
                reason = f"no answer within {self._timeout:g} s."
            raise InputError(f"{self._base}: {reason}") from error
        return json_files.parse(text, f"{self._base}: the answer")


def _outputs(answer: Any, specs: _OutputSpecs) -> Outputs:
    """The outputs of an answer."""
    found = answer["outputs"]
    if len(specs) == 1:  # a single output has no name
        found = {next(iter(specs)): found}
    return {key: _from_json(found[key], *spec) for key, spec in specs.items()}


def _as_json(value: Any) -> Any:
    """Nested lists for JSON; strings in base64, because they may not be UTF-8."""
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_json(value: Any, dtype: str, sizes: Sequence[int]) -> np.ndarray:
    """A column of an answer; lists of JSON have no axes after the first empty one."""
    kind = tf.as_dtype(dtype.removeprefix("DT_").lower())
    array = np.array(value, kind.as_numpy_dtype)
    if not array.size:
        array = array.reshape(*array.shape, *(max(0, size) for size in sizes[array.ndim :]))
    if kind != tf.string:
        return array
    flat = np.empty(array.size, object)
    flat[:] = [
        base64.b64decode(item["b64"], validate=True) if isinstance(item, dict) else item.encode()
        for item in array.ravel()
    ]
    return flat.reshape(array.shape)


def _http_reason(error: urllib.error.HTTPError) -> str:
    text = error.read().decode("utf-8", "replace")
    try:
        return _first_line(json_files.parse(text, "")["error"])
    except (InputError, KeyError, TypeError, AttributeError):
        return f"HTTP {error.code} {error.reason}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "refused without a reason"
