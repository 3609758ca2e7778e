"""Studies of how a model is pre-trained: its objective, and what replaces masked tokens."""

from typing import Any

from bert_tf.experiments.jobs import ModelJob, UntrainedJob
from bert_tf.experiments.plan import ExperimentPlan, ExperimentTask
from bert_tf.experiments.scores import Finding, finding, no_worse
from bert_tf.experiments.studies.base import (
    Cell,
    PaperTable,
    Rows,
    ScoreTable,
    Study,
    pretrained,
    tuned,
    tuned_row,
)
from bert_tf.models.head_config import HeadConfig, HeadLayers
from pipelines.pretraining.settings import Objective

_BERT, _NO_NSP = "BERT", "no NSP"
_LTR, _LTR_BILSTM = "left-to-right, no NSP (as GPT)", "left-to-right, no NSP, + BiLSTM"
_UNTRAINED, _STATIC = "not pre-trained", "static embeddings under a BiLSTM"
# Percentages of the mask token, of the token itself, and of a random one.
_SPLITS = ((80, 10, 10), (100, 0, 0), (80, 0, 20), (80, 20, 0), (0, 20, 80), (0, 0, 100))
_FEATURES = ", features"


class PretrainingStudy(Study):
    """BERT without some of its parts (section 5.1)."""

    name = "pretraining"
    title = "What pre-training brings (Table 5, Figure 3)"
    question = (
        "Does it help to read both ways, and to predict the next sentence? Every model has seen "
        "the same text, for as many steps."
    )
    paper = PaperTable(
        "Table 5, dev: BERT-Base",
        ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD F1"),
        {
            "BERT": (84.4, 88.4, 86.7, 92.7, 88.5),
            "no NSP": (83.9, 84.9, 86.5, 92.6, 87.9),
            "LTR & no NSP": (82.1, 84.3, 77.5, 92.1, 77.8),
            "+ BiLSTM": (82.1, 84.1, 75.7, 91.6, 84.9),
        },
    )

    claims = (
        ("Next-sentence prediction helps", _BERT, _NO_NSP),
        ("Reading both ways helps", _NO_NSP, _LTR),
        ("A BiLSTM on top of a left-to-right model does not make up for it", _NO_NSP, _LTR_BILSTM),
        ("Pre-training helps", _BERT, _UNTRAINED),
        ("Vectors that depend on their context are better than static ones", _BERT, _STATIC),
    )

    def rows(self, plan: ExperimentPlan) -> Rows:
        """A model in each row, a task in each column; a cell has a job for each model seed."""
        models = [_models(plan, seed) for seed in plan.model_seeds]

        def cell(label: str, task: ExperimentTask) -> Cell:
            inits = (each[label] for each in models)
            return Cell(tuple(tuned(plan, task, init, **options) for init, options in inits))

        return {label: {task.name: cell(label, task) for task in plan.tasks} for label in models[0]}


def _models(plan: ExperimentPlan, seed: int) -> dict[str, tuple[ModelJob, dict[str, Any]]]:
    """The model of each row, and how it is fine-tuned."""
    bert = pretrained(plan, seed=seed)
    right = pretrained(plan, Objective.LEFT_TO_RIGHT, seed=seed)
    width = plan.size.width
    return {
        _BERT: (bert, {}),
        _NO_NSP: (pretrained(plan, Objective.MLM, seed=seed), {}),
        _LTR: (right, {}),
        _LTR_BILSTM: (right, {"head": HeadConfig(HeadLayers.LAST, 1, width)}),
        _UNTRAINED: (UntrainedJob(plan.size, seed), {}),
        _STATIC: (bert, {"head": HeadConfig(HeadLayers.EMBEDDINGS, 2, width), "frozen": True}),
    }


class MaskingStudy(Study):
    """Six ways to replace the tokens that are predicted (appendix C.2)."""

    name = "masking"
    title = "Mask, same or random (Table 8)"
    question = (
        "Fine-tuning never sees a mask: does it matter what stands for the tokens that "
        "pre-training predicts?"
    )
    paper = PaperTable(
        "Table 8, dev: BERT-Base (mask/same/random)",
        ("MNLI fine-tuned", "NER fine-tuned", "NER features"),
        {
            "80/10/10": (84.2, 95.4, 94.9),
            "100/0/0": (84.3, 94.9, 94.0),
            "80/0/20": (84.1, 95.2, 94.6),
            "80/20/0": (84.4, 95.2, 94.7),
            "0/20/80": (83.7, 94.8, 94.6),
            "0/0/100": (83.6, 94.9, 94.6),
        },
    )

    def rows(self, plan: ExperimentPlan) -> Rows:
        """A split in each row: two tasks fine-tuned, and one of tags also with features."""
        head = HeadConfig(HeadLayers.CONCAT_LAST_4, 2, plan.size.width)
        tagged = [task for task in plan.tasks if task.per_token][:1]
        others = [task for task in plan.tasks if not task.per_token][:1]
        found: dict[str, dict[str, Cell]] = {}
        for mask, same, random in _SPLITS:
            model = pretrained(plan, masks=(mask / 100, random / 100))
            features = tuned_row(plan, tagged, model, head=head, frozen=True)
            found[f"{mask}/{same}/{random}"] = {
                **tuned_row(plan, [*others, *tagged], model),
                **{f"{name}{_FEATURES}": cell for name, cell in features.items()},
            }
        return found

    def findings(self, scores: ScoreTable) -> list[Finding]:
        usual, *others = scores
        columns = list(scores[usual])
        tuned_columns = [name for name in columns if not name.endswith(_FEATURES)]
        features = [name for name in columns if name.endswith(_FEATURES)]
        alike = [(scores[usual][c], scores[o][c]) for o in others for c in tuned_columns]
        only_masks = [(scores[usual][c], scores["100/0/0"][c]) for c in features]
        only_random = [(scores[usual][c], scores["0/0/100"][c]) for c in columns]
        return [
            no_worse("Fine-tuning is robust to the split", alike),
            finding("Masks alone are a problem for the feature-based approach", only_masks),
            finding("Random tokens alone are worse than the paper's split", only_random),
        ]
