"""Fine-tuning for one task before another: section 4.2 (TriviaQA before SQuAD), and since."""

from bert_tf.experiments.finetuning_jobs import TaskSource
from bert_tf.experiments.scale import Inputs, Scale, tuned
from bert_tf.experiments.scores import Finding, finding
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
from bert_tf.tasks import make

_DIRECT = "directly"


class Intermediate(Study):
    """The task with most data before the others."""

    name = "intermediate"
    title = "Fine-tuning for another task before"
    question = "Does a task with more data before it help a task that has little?"
    paper = PaperTable(
        "Table 2: SQuAD 1.1 dev, BERT-Large, single model",
        ("EM", "F1"),
        {_DIRECT: (84.1, 90.9), "TriviaQA before": (84.2, 91.1)},
    )

    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """Without another task before, and after the largest of each kind."""
        model = pretrained(inputs, scale, keep_at=KEPT)
        first = _largest(inputs.tasks)
        others = [task for task in inputs.tasks if task != first and _related(task, first)]
        if not others:
            return {}
        before = tuned(scale, first, model)
        return {
            _DIRECT: {task.name: Cell.of(tuned(scale, task, model)) for task in others},
            f"{first.name} before": {
                task.name: Cell.of(tuned(scale, task, before)) for task in others
            },
        }

    def findings(self, scores: Scores) -> list[Finding]:
        """After it against without it."""
        if not scores:
            return [Finding("There are no two tasks whose texts are of one form: nothing to see.")]
        _, after = scores
        return [finding("Another task before helps", pairs_of(scores, after, _DIRECT))]


def _largest(tasks: tuple[TaskSource, ...]) -> TaskSource:
    """The task with most examples that some other could gain from."""
    fit = [t for t in tasks if any(o != t and _related(o, t) for o in tasks)]
    return max(fit or tasks, key=lambda task: task.rows[0])


def _related(one: TaskSource, other: TaskSource) -> bool:
    """Whether both are of whole texts, or both of tokens."""
    return make(one.kind).per_token == make(other.kind).per_token
