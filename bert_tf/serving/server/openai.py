"""The interface `/v1/embeddings` of OpenAI: to the texts of a request, and from vectors."""

import abc
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import numpy as np

from bert_tf.export.saved_model import Manifest
from bert_tf.serving.server.answers import EncodedRequest, ModelResponse, ModelSpec, RequestLimits
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.tasks import signatures

# The output with the vectors, by the signatures that have it, the best first.
_OUTPUTS = ("embedding", "mean_output")

BodyT = TypeVar("BodyT")


class _Body(msgspec.Struct):
    """What a client sends; other fields have no effect."""

    model: str
    input: str | list[str]
    encoding_format: str = "float"
    dimensions: int | None = None


class NamedModelRequest(EncodedRequest, Generic[BodyT]):
    """A request in JSON that names the model in its body.

    Args:
      encoded: JSON.
      limits: those of the server.
      manifest: of the newest version, which answers: a newer one, if that has come until then.
      check_name: refuses the names of other models.

    Attributes:
      body_type: the type of the body.
      body: what the client sent.
    """

    body_type: ClassVar[type]

    def __init__(
        self,
        encoded: bytes,
        limits: RequestLimits,
        manifest: Manifest,
        check_name: Callable[[str], None],
    ):
        super().__init__(encoded, limits)
        self.manifest = manifest
        self._check_name = check_name

    def parse(self) -> ModelSpec:
        try:
            self.body: BodyT = msgspec.json.decode(self.take(), type=self.body_type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RefusalError(Fault.INVALID, f"The request is invalid: {error}") from error
        self._check_name(self.body.model)
        return self.choose()

    @abc.abstractmethod
    def choose(self) -> ModelSpec:
        """Checks the body, and chooses the signature that answers it."""


class EmbeddingsRequest(NamedModelRequest[_Body]):
    """A request for the vectors of texts, each of length 1."""

    body_type = _Body

    def choose(self) -> ModelSpec:
        given = self.body.input
        self._texts = [given] if isinstance(given, str) else given
        if not self._texts:
            raise RefusalError(Fault.INVALID, '"input" must be a text, or a list of texts.')
        if self.body.encoding_format not in ("float", "base64"):
            raise RefusalError(Fault.INVALID, '"encoding_format" must be "float" or "base64".')
        if self.body.dimensions is not None and self.body.dimensions < 1:
            raise RefusalError(Fault.INVALID, '"dimensions" must be 1 or more.')
        self.limits.check_rows(len(self._texts))
        for self._output in _OUTPUTS:
            for name, signature in self.manifest["signatures"].items():
                if self._output in signature["outputs"] and list(signature["inputs"]) == ["text"]:
                    return ModelSpec(self.body.model, signature=name)
        raise RefusalError(Fault.NOT_FOUND, "This model has no embeddings of texts.")

    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        return {"text": self._texts}

    def encode(self, answer: ModelResponse) -> bytes:
        vectors = np.asarray(answer.outputs[self._output], np.float32)
        width, size = vectors.shape[-1], self.body.dimensions
        if size is not None and size > width:
            raise RefusalError(Fault.INVALID, f'"dimensions" must be at most {width}.')
        vectors = signatures.normalized(vectors[:, :size])
        data = [
            {"object": "embedding", "index": index, "embedding": self._written(vector)}
            for index, vector in enumerate(vectors)
        ]
        return msgspec.json.encode({"object": "list", "data": data, "model": self.body.model})

    def _written(self, vector: np.ndarray) -> str | list[float]:
        if self.body.encoding_format == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return vector.tolist()
