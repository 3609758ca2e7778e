"""The feature-based approach: section 5.3, Table 7."""

from bert_tf.experiments.scale import Inputs, Scale, tuned
from bert_tf.experiments.scores import Finding, finding, no_worse
from bert_tf.experiments.studies.base import (
    Cell,
    PaperTable,
    Rows,
    Scores,
    Study,
    pairs_of,
    pretrained,
)
from bert_tf.experiments.studies.pretraining_tasks import KEPT
from bert_tf.models.head_config import HeadConfig, HeadLayers

_TUNED = "fine-tuned"
_LABELS = {
    HeadLayers.EMBEDDINGS: "embeddings",
    HeadLayers.SECOND_TO_LAST: "second-to-last layer",
    HeadLayers.LAST: "last layer",
    HeadLayers.WEIGHTED_LAST_4: "weighted sum of the last four",
    HeadLayers.CONCAT_LAST_4: "concatenation of the last four",
    HeadLayers.WEIGHTED_ALL: "weighted sum of all layers",
}


class Features(Study):
    """Frozen features of tokens under a BiLSTM of two layers, beside fine-tuning."""

    name = "features"
    title = "The feature-based approach (Table 7)"
    question = (
        "How far do features get, which are computed once, and of which layers are they best?"
    )
    paper = PaperTable(
        "Table 7: CoNLL-2003 dev F1, BERT-Base",
        ("NER",),
        {
            _TUNED: (96.4,),
            "embeddings": (91.0,),
            "second-to-last layer": (95.6,),
            "last layer": (94.9,),
            "weighted sum of the last four": (95.9,),
            "concatenation of the last four": (96.1,),
            "weighted sum of all layers": (95.5,),
        },
    )

    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """What is read of the encoder in each row, tasks of tags in the columns."""
        model = pretrained(inputs, scale, keep_at=KEPT)
        # Where no task tags tokens, the first one stands for it: the BiLSTM reads them all.
        tasks = [task for task in inputs.tasks if task.per_token] or list(inputs.tasks[:1])
        found = {_TUNED: {task.name: Cell.of(tuned(scale, task, model)) for task in tasks}}
        for layers, label in _LABELS.items():
            head = HeadConfig(layers, 2, scale.bilstm_width)
            found[label] = {
                task.name: Cell.of(tuned(scale, task, model, head=head, frozen=True))
                for task in tasks
            }
        return found

    def findings(self, scores: Scores) -> list[Finding]:
        """Fine-tuning and the best features against the others."""
        best = _LABELS[HeadLayers.CONCAT_LAST_4]
        return [
            no_worse(
                "The last four layers side by side are about as good as fine-tuning",
                pairs_of(scores, _TUNED, best),
            ),
            finding(
                "They are better than the last layer alone",
                pairs_of(scores, best, _LABELS[HeadLayers.LAST]),
            ),
            finding(
                "They are better than the embeddings, which know no context",
                pairs_of(scores, best, _LABELS[HeadLayers.EMBEDDINGS]),
            ),
        ]
