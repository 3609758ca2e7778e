"""Rerankers: models of pairs or of choices (cross-encoders) that order texts for a query."""

from collections.abc import Callable, Sequence

import numpy as np

from bert_tf import weights
from bert_tf.export import saved_model
from bert_tf.serving import file_prediction, relevance
from pipelines.common.errors import InputError
from pipelines.labelled.schema import ChoiceExample, TextExample


def load(model: str) -> Callable[[str, Sequence[str]], list[float]]:
    """A function from a query and texts to the relevance of each text.

    Args:
      model: a model or an export with a task of choices; or else with one of pairs: of a score, or
        of two labels, of which "entailment" or else the second says that they belong together.

    Raises:
      InputError: it has no such task.
    """
    known = (
        list(saved_model.tasks_of(saved_model.read_manifest(saved_model.newest(model))).values())
        if saved_model.is_export(model)
        else weights.read(model).tasks
    )
    ranking = [each for each in known if relevance.ranks(each) and each.get("pair") is not False]
    if known and not ranking:
        raise InputError(
            f"{model}: of its tasks ({', '.join(each['name'] for each in known)}), none ranks "
            "texts; fine-tune a model for choices (--task=choice), pairs of two labels (pair), or "
            "of a score (regression)."
        )
    ranking.sort(key=lambda each: each["shape"] != "choice")  # as `relevance.signature`
    task, predict = file_prediction.open_task(model, ranking[0]["name"] if ranking else None)
    described = task.describe()

    def score(query: str, texts: Sequence[str]) -> list[float]:
        if described["shape"] == "choice":
            (chosen,) = predict([ChoiceExample("0", "--rerank", query, tuple(texts))])
            return chosen.probabilities.tolist()
        pairs = [TextExample(str(n), "--rerank", query, text) for n, text in enumerate(texts)]
        found = list(predict(pairs))
        if described["labels"]:
            column = relevance.label(described)
            return [float(each.probabilities[column]) for each in found]
        return relevance.scores({"score": np.array(found)}, described).tolist()

    return score
