"""The interface `/v1/rerank` of Cohere and Jina: texts in the order of their relevance."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from bert_tf.export import saved_model
from bert_tf.serving import relevance
from bert_tf.serving.server.answers import ModelResponse
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.openai import NamedModelRequest


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """What a client sends."""

    query: str
    documents: list[str | _Document]
    model: str = ""
    top_n: Annotated[int, msgspec.Meta(ge=1)] | None = None
    return_documents: bool | None = None


class RerankRequest(NamedModelRequest[_Body]):
    """A request for the relevance of texts for a query, highest first."""

    body_type = _Body

    def choose(self) -> str:
        texts = [given if isinstance(given, str) else given.text for given in self.body.documents]
        if not texts:
            raise RefusalError(Fault.INVALID, '"documents" must be a list of texts.')
        self._texts = texts
        name = relevance.signature(self.manifest)
        if name is None:
            raise RefusalError(
                Fault.NOT_FOUND, "This model does not rank: it has no task of choices, or of pairs."
            )
        self._task = saved_model.tasks_of(self.manifest)[name]
        return name

    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        return relevance.inputs(names, self.body.query, self._texts)

    def encode(self, answer: ModelResponse) -> bytes:
        scores = relevance.scores(answer.outputs, self._task)
        order = np.argsort(-scores, kind="stable")[: self.body.top_n].tolist()
        results: list[dict[str, Any]] = [
            {"index": index, "relevance_score": float(scores[index])} for index in order
        ]
        if self.body.return_documents:
            for result in results:
                result["document"] = {"text": self._texts[result["index"]]}
        usage = {"total_tokens": answer.tokens}
        return msgspec.json.encode({"model": self.name, "results": results, "usage": usage})
