"""Classification, with one or several labels, and regression of texts and pairs."""

from bert_tf.tasks.shape import TaskShape, TransformersHead

_HEAD = TransformersHead("SequenceClassification")
_GLUE = ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli", "ax")
SHAPES = (
    TaskShape("classification", (*_GLUE, "classification", "pair"), f"{__name__}.task", _HEAD),
    TaskShape("multilabel", ("multilabel",), f"{__name__}.multilabel", _HEAD),
    TaskShape("regression", ("stsb", "regression"), f"{__name__}.regression", _HEAD),
)
