"""A reranker: a model of pairs (a cross-encoder) that orders texts for a query."""

from collections.abc import Sequence

from bert_tf.serving import file_prediction, relevance
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample


class Reranker:
    """Scores texts for a query.

    Args:
      model: a model or an export with a task of pairs: of two labels, of which the second says
        that they belong together, or of a score.

    Raises:
      InputError: it has no such task.
    """

    def __init__(self, model: str):
        self._task, self._predict = file_prediction.open_task(model)
        described = self._task.describe()
        if not (relevance.ranks(described) and described.get("pair") is not False):
            raise InputError(
                f"{model}: its task {self._task.name} does not rank pairs; fine-tune a model for "
                "pairs of two labels (--task=pair), or of a score (--task=regression)."
            )

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """The relevance of each text."""
        pairs = [TextExample(str(n), "--rerank", query, text) for n, text in enumerate(texts)]
        return list(map(relevance.of_prediction, self._predict(pairs)))
