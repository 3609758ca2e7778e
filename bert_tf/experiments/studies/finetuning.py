"""Studies of how a pre-trained model is used: features, intermediate tasks, learning curves."""

from collections.abc import Sequence

from bert_tf.experiments.jobs import ModelJob, UntrainedJob
from bert_tf.experiments.plan import ExperimentPlan, ExperimentTask
from bert_tf.experiments.scores import Finding, finding, no_worse
from bert_tf.experiments.studies.base import (
    Cell,
    PaperTable,
    PlotAxes,
    Rows,
    ScoreTable,
    Study,
    pairs_of,
    pretrained,
    tuned,
    tuned_row,
)
from bert_tf.models.head_config import HeadConfig, HeadLayers
from pipelines.pretraining.settings import Objective

_TUNED, _ELMO = "fine-tuned", "ELMo, weighted sum of all layers"
_LABELS = {
    HeadLayers.EMBEDDINGS: "embeddings",
    HeadLayers.SECOND_TO_LAST: "second-to-last layer",
    HeadLayers.LAST: "last layer",
    HeadLayers.WEIGHTED_LAST_4: "weighted sum of the last four",
    HeadLayers.CONCAT_LAST_4: "concatenation of the last four",
    HeadLayers.WEIGHTED_ALL: "weighted sum of all layers",
}
_DIRECT = "directly"
_FRACTIONS = (0.03, 0.1, 0.3, 1.0)  # of the training examples
_BERT, _UNTRAINED = "BERT", "not pre-trained"
_MIN_EXAMPLES = 16


class FeatureStudy(Study):
    """Frozen features of BERT and of an ELMo, compared with fine-tuning (section 5.3)."""

    name = "features"
    title = "The feature-based approach (Table 7)"
    question = (
        "How far do features get, which are computed once, of which layers are they best, and are "
        "they better than those of an ELMo?"
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
            "ELMo (Peters et al., 2018)": (95.7,),
        },
    )

    def rows(self, plan: ExperimentPlan) -> Rows:
        """The layers that a two-layer BiLSTM reads in each row; columns are the tagging tasks."""
        model, elmo = pretrained(plan), pretrained(plan, Objective.BIDIRECTIONAL_LM)
        # Without a tagging task, the first one takes its place: the BiLSTM reads all tokens.
        tasks = [task for task in plan.tasks if task.per_token] or plan.tasks[:1]

        def features(init: ModelJob, layers: HeadLayers) -> dict[str, Cell]:
            head = HeadConfig(layers, 2, plan.size.width)
            return tuned_row(plan, tasks, init, head=head, frozen=True)

        return {
            _TUNED: tuned_row(plan, tasks, model),
            **{label: features(model, layers) for layers, label in _LABELS.items()},
            _ELMO: features(elmo, HeadLayers.WEIGHTED_EACH),
        }

    def findings(self, scores: ScoreTable) -> list[Finding]:
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
            finding("They are better than those of an ELMo", pairs_of(scores, best, _ELMO)),
            finding("Fine-tuning is better than an ELMo", pairs_of(scores, _TUNED, _ELMO)),
        ]


class IntermediateStudy(Study):
    """Fine-tuning for the task with most data before the others (section 4.2)."""

    name = "intermediate"
    title = "Fine-tuning for another task before"
    question = "Does a task with more data before it help a task that has little?"
    paper = PaperTable(
        "Table 2: SQuAD 1.1 dev, BERT-Large, single model",
        ("EM", "F1"),
        {_DIRECT: (84.1, 90.9), "TriviaQA before": (84.2, 91.1)},
    )

    def rows(self, plan: ExperimentPlan) -> Rows:
        """Without an intermediate task, and after the largest of those of the same form."""
        model = pretrained(plan)
        related = [task for task in plan.tasks if _related(task, plan.tasks)]
        if not related:
            return {}
        first = max(related, key=lambda task: task.train_examples)
        others = _related(first, plan.tasks)
        return {
            _DIRECT: tuned_row(plan, others, model),
            f"{first.name} before": tuned_row(plan, others, tuned(plan, first, model)),
        }

    def findings(self, scores: ScoreTable) -> list[Finding]:
        if not scores:
            return [Finding("No two tasks have texts of the same form: nothing to see.")]
        _, after = scores
        return [finding("Another task before helps", pairs_of(scores, after, _DIRECT))]


def _related(task: ExperimentTask, tasks: Sequence[ExperimentTask]) -> list[ExperimentTask]:
    """The other tasks that label the same: whole texts, or tokens."""
    return [other for other in tasks if other != task and other.per_token == task.per_token]


class CurveStudy(Study):
    """Scores by the size of the training set, with and without pre-training."""

    name = "curves"
    title = "Learning curves of fine-tuning"
    question = "How many labelled examples does fine-tuning need, and how many more without BERT?"
    paper = PaperTable("no table: the paper says that pre-training makes small tasks profit most")

    def rows(self, plan: ExperimentPlan) -> Rows:
        """A model and a number of examples in each row."""
        models = {_BERT: pretrained(plan), _UNTRAINED: UntrainedJob(plan.size)}
        return {
            f"{model}, {count:,}": tuned_row(plan, plan.tasks[:1], init, examples=count)
            for model, init in models.items()
            for count in _counts(plan)
        }

    def findings(self, scores: ScoreTable) -> list[Finding]:
        rows = list(scores.values())
        half = len(rows) // 2
        (task,) = rows[0]
        with_bert, without = rows[:half], rows[half:]
        pairs = [(a[task], b[task]) for a, b in zip(with_bert, without, strict=True)]
        return [
            finding("Pre-training helps at every number of examples", pairs),
            finding("More examples help", [(with_bert[-1][task], with_bert[0][task])]),
        ]

    def axes(self, plan: ExperimentPlan) -> PlotAxes:
        points = {
            model: [(count, f"{model}, {count:,}") for count in _counts(plan)]
            for model in (_BERT, _UNTRAINED)
        }
        return PlotAxes("training examples", points, logarithmic=True)


def _counts(plan: ExperimentPlan) -> list[int]:
    """Different numbers of examples of the first task, ascending."""
    limit = plan.examples_of(plan.tasks[0])
    return sorted({max(min(_MIN_EXAMPLES, limit), round(each * limit)) for each in _FRACTIONS})
