"""How much labelled data fine-tuning needs: section 1 and 5.2 speak of small data."""

from bert_tf.experiments.finetuning_jobs import TaskSource
from bert_tf.experiments.pretraining_jobs import Untrained
from bert_tf.experiments.scale import Inputs, Scale, tuned
from bert_tf.experiments.scores import Finding, finding
from bert_tf.experiments.studies.base import (
    Axes,
    Cell,
    PaperTable,
    Rows,
    Scores,
    Study,
    pretrained,
)
from bert_tf.experiments.studies.pretraining_tasks import KEPT

_SHARES = (0.03, 0.1, 0.3, 1.0)
_BERT, _NOTHING = "BERT", "not pre-trained"
_FEWEST = 16  # examples


class LearningCurves(Study):
    """Scores by the size of the training set, with and without pre-training."""

    name = "curves"
    title = "Learning curves of fine-tuning"
    question = "How many labelled examples does fine-tuning need, and how many more without BERT?"
    paper = PaperTable(
        "no table: the paper says that pre-training makes small tasks profit most", (), {}
    )

    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """A number of examples of a model in each row."""
        bert = pretrained(inputs, scale, keep_at=KEPT)
        models = {_BERT: bert, _NOTHING: Untrained(inputs.vocabulary, scale.main)}
        task = inputs.tasks[0]
        return {
            f"{model}, {count:,}": {task.name: Cell.of(tuned(scale, task, init, rows=count))}
            for model, init in models.items()
            for count in _counts(task, scale)
        }

    def findings(self, scores: Scores) -> list[Finding]:
        """Both models at each number, and all examples against the fewest."""
        rows = list(scores.values())
        half = len(rows) // 2
        (task,) = rows[0]
        with_bert, without = rows[:half], rows[half:]
        pairs = [(a[task], b[task]) for a, b in zip(with_bert, without, strict=True)]
        return [
            finding("Pre-training helps at every number of examples", pairs),
            finding("More examples help", [(with_bert[-1][task], with_bert[0][task])]),
        ]

    def axes(self, inputs: Inputs, scale: Scale) -> Axes:
        """Scores over examples."""
        counts = _counts(inputs.tasks[0], scale)
        points = {
            model: [(count, f"{model}, {count:,}") for count in counts]
            for model in (_BERT, _NOTHING)
        }
        return Axes("training examples", points, logarithmic=True)


def _counts(task: TaskSource, scale: Scale) -> list[int]:
    """Numbers of examples, ascending, no two alike."""
    most = min(task.rows[0], scale.cap or task.rows[0])
    return sorted({max(min(_FEWEST, most), round(share * most)) for share in _SHARES})
