"""The steps of pre-training: appendix C.1, Figure 5."""

from bert_tf.experiments.scale import Inputs, Scale, tuned
from bert_tf.experiments.scores import Finding, finding
from bert_tf.experiments.studies.base import (
    Axes,
    Cell,
    PaperTable,
    Rows,
    Scores,
    Study,
    pairs_of,
    pretrained,
)
from bert_tf.experiments.studies.pretraining_tasks import KEPT
from pipelines.pretraining.settings import Objective

_MODELS = {"masked LM": Objective.MLM_NSP, "left-to-right": Objective.LEFT_TO_RIGHT}
_SHARES = (*KEPT, 1.0)


class Steps(Study):
    """Checkpoints on the way, fine-tuned."""

    name = "steps"
    title = "Steps of pre-training (appendix C.1)"
    question = (
        "Does more pre-training help, and is masked LM slower to learn than left-to-right, as it "
        "predicts 15 % of the tokens only?"
    )
    paper = PaperTable(
        "Figure 5 is a plot; its text says: BERT-Base gains almost 1.0 % on MNLI from 500,000 to "
        "1,000,000 steps, and masked LM passes left-to-right almost at once",
        (),
        {},
    )

    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """A share of the steps of a model in each row."""
        return {
            _label(model, share): {
                task.name: Cell.of(
                    tuned(
                        scale,
                        task,
                        pretrained(inputs, scale, objective, keep_at=KEPT),
                        share=None if share == 1 else share,
                    )
                )
                for task in inputs.tasks[:1]
            }
            for model, objective in _MODELS.items()
            for share in _SHARES
        }

    def findings(self, scores: Scores) -> list[Finding]:
        """The end against the beginning, and the models against each other."""
        bidirectional, right = _MODELS
        begin, end = _SHARES[0], _SHARES[-1]
        return [
            finding(
                "More steps help masked LM",
                pairs_of(scores, _label(bidirectional, end), _label(bidirectional, begin)),
            ),
            finding(
                "Masked LM is ahead of left-to-right at the end",
                pairs_of(scores, _label(bidirectional, end), _label(right, end)),
            ),
            finding(
                "Masked LM is ahead of left-to-right almost from the beginning",
                pairs_of(scores, _label(bidirectional, begin), _label(right, begin)),
            ),
        ]

    def axes(self, inputs: Inputs, scale: Scale) -> Axes:
        """Scores over steps."""
        points = {
            model: [(round(share * scale.steps), _label(model, share)) for share in _SHARES]
            for model in _MODELS
        }
        return Axes("steps of pre-training", points)


def _label(model: str, share: float) -> str:
    return f"{model}, {share:.0%}"
