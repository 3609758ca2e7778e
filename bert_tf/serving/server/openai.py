"""The interface `/v1/embeddings` of OpenAI: to the texts of a request, and from vectors."""

import abc
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar

import msgspec
import numpy as np

from bert_tf import tasks
from bert_tf.export import saved_model
from bert_tf.export.saved_model import Manifest
from bert_tf.serving.server import rest_values
from bert_tf.serving.server.answers import EncodedRequest, ModelResponse, ModelSpec, RequestLimits
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.tasks import signatures

# The output with the vectors, by the signatures that have it, the best first.
_OUTPUTS = ("embedding", "mean_output")

FindModel = Callable[[str], tuple[str, Manifest]]


class _NamesModel(Protocol):
    @property
    def model(self) -> str: ...


BodyT = TypeVar("BodyT", bound=_NamesModel)


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """What a client sends."""

    input: str | list[str | int | list[int]]
    model: str = ""
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    prompt_name: str | None = None  # as `encode` of sentence-transformers calls it
    user: str | None = None  # has no effect


class NamedModelRequest(EncodedRequest, Generic[BodyT]):
    """A request in JSON that names the model in its body: of a single model, by any name.

    Args:
      encoded: JSON.
      limits: those of the server.
      find: finds the model for the name in the body: its own name, and the manifest of its newest
        version, which answers: a newer one, if that has come until then.

    Attributes:
      body_type: the type of the body.
      body: what the client sent.
      name, manifest: those of the model.
    """

    body_type: ClassVar[type]

    def __init__(self, encoded: bytes, limits: RequestLimits, find: FindModel):
        super().__init__(encoded, limits)
        self._find = find

    def parse(self) -> ModelSpec:
        self.body: BodyT = rest_values.decoded(self.take(), self.body_type)
        self.name, self.manifest = self._find(self.body.model)
        return ModelSpec(self.name, signature=self.choose())

    @abc.abstractmethod
    def choose(self) -> str:
        """Checks the body, and chooses the signature that answers it."""


class EmbeddingsRequest(NamedModelRequest[_Body]):
    """A request for the vectors of texts."""

    body_type = _Body

    def choose(self) -> str:
        given = self.body.input
        rows = [given] if isinstance(given, str) else given
        self._texts = [row for row in rows if isinstance(row, str)]
        if len(self._texts) < len(rows):
            raise RefusalError(
                Fault.INVALID,
                '"input" has token ids, which are those of another tokenizer; send texts (LangChain'
                " does with OpenAIEmbeddings(check_embedding_ctx_length=False)).",
            )
        if not rows:
            raise RefusalError(Fault.INVALID, '"input" must be a text, or a list of texts.')
        self.limits.check_rows(len(rows))
        for self._output in _OUTPUTS:
            for name, signature in self.manifest["signatures"].items():
                if self._output in signature["outputs"] and list(signature["inputs"]) == ["text"]:
                    self._task = saved_model.tasks_of(self.manifest).get(name, {})
                    return self._prompted(name)
        raise RefusalError(Fault.NOT_FOUND, "This model has no embeddings of texts.")

    def _prompted(self, name: str) -> str:
        """Adds the prompt that is named; returns the signature that does not add another one."""
        chosen, prompts = self.body.prompt_name, self._task.get("prompts", {})
        if chosen is None:
            return name
        if chosen not in prompts:
            known = ", ".join(prompts) or "none"
            raise RefusalError(
                Fault.INVALID,
                f'"prompt_name" is {chosen!r}; the prompts of this model are {known}.',
            )
        self._texts = [prompts[chosen] + text for text in self._texts]
        return tasks.load(self._task).request_signature

    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        return {"text": self._texts}

    def encode(self, answer: ModelResponse) -> bytes:
        vectors = np.asarray(answer.outputs[self._output], np.float32)
        width, size = vectors.shape[-1], self.body.dimensions
        if size is not None and size > width:
            raise RefusalError(Fault.INVALID, f'"dimensions" must be at most {width}.')
        vectors = vectors[:, :size]
        # Vectors of others are compared by their dot product, to which their length matters.
        if self._task.get("normalize", True) or self._task.get("similarity") != "dot":
            vectors = signatures.normalized(vectors)
        data = [
            {"object": "embedding", "index": index, "embedding": self._written(vector)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}
        return msgspec.json.encode(
            {"object": "list", "data": data, "model": self.name, "usage": usage}
        )

    def _written(self, vector: np.ndarray) -> str | list[float]:
        if self.body.encoding_format == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return vector.tolist()
