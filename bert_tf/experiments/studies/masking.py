"""What stands for a token to predict: appendix C.2, Table 8."""

from bert_tf.experiments.scale import Inputs, Scale, tuned
from bert_tf.experiments.scores import Finding, finding, no_worse
from bert_tf.experiments.studies.base import (
    Cell,
    PaperTable,
    Rows,
    Scores,
    Study,
    pretrained,
)
from bert_tf.experiments.studies.pretraining_tasks import KEPT
from bert_tf.models.head_config import HeadConfig, HeadLayers

# Shares of the mask token, of the token itself, and of a random one.
_SPLITS = ((80, 10, 10), (100, 0, 0), (80, 0, 20), (80, 20, 0), (0, 20, 80), (0, 0, 100))
_FEATURES = ", features"


class Masking(Study):
    """Six ways to replace the tokens that are predicted."""

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

    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """A split in each row; tasks fine-tuned, and tags also of features."""
        head = HeadConfig(HeadLayers.CONCAT_LAST_4, 2, scale.bilstm_width)
        tagged = [task for task in inputs.tasks if task.per_token][:1]
        others = [task for task in inputs.tasks if not task.per_token][:1]
        found: dict[str, dict[str, Cell]] = {}
        for mask, same, random in _SPLITS:
            usual = (mask, same, random) == _SPLITS[0]
            model = pretrained(
                inputs,
                scale,
                shares=(mask / 100, random / 100),
                keep_at=KEPT if usual else (),
            )
            cells = {task.name: Cell.of(tuned(scale, task, model)) for task in (*others, *tagged)}
            for task in tagged:
                job = tuned(scale, task, model, head=head, frozen=True)
                cells[f"{task.name}{_FEATURES}"] = Cell.of(job)
            found[f"{mask}/{same}/{random}"] = cells
        return found

    def findings(self, scores: Scores) -> list[Finding]:
        """Each split against the paper's."""
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
