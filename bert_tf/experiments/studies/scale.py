"""Studies of scale: the size of the model, and the steps of pre-training."""

from bert_tf.experiments.jobs import KEPT
from bert_tf.experiments.plan import ExperimentPlan
from bert_tf.experiments.scores import Finding, finding
from bert_tf.experiments.studies.base import (
    Cell,
    PaperTable,
    PlotAxes,
    Rows,
    ScoreTable,
    Study,
    pretrained,
    tuned_row,
)
from pipelines.pretraining.settings import Objective

_PERPLEXITY = "held-out perplexity"
_MODELS = {"masked LM": Objective.MLM_NSP, "left-to-right": Objective.LEFT_TO_RIGHT}
_FRACTIONS = (*KEPT, 1.0)
_MASKED, _RIGHT = _MODELS


class SizeStudy(Study):
    """Four sizes, with the same data and steps (section 5.2)."""

    name = "size"
    title = "The size of the model (Table 6)"
    question = "Are larger models better, also at tasks with little data?"
    plain_columns = frozenset([_PERPLEXITY])
    paper = PaperTable(
        "Table 6, dev (layers x width, heads)",
        ("LM perplexity", "MNLI-m", "MRPC", "SST-2"),
        {
            "3x768, 12": (5.84, 77.9, 79.8, 88.4),
            "6x768, 3": (5.24, 80.6, 82.2, 90.7),
            "6x768, 12": (4.68, 81.9, 84.8, 91.3),
            "12x768, 12": (3.99, 84.4, 86.7, 92.9),
            "12x1024, 16": (3.54, 85.7, 86.9, 93.3),
            "24x1024, 16": (3.23, 86.6, 87.8, 93.7),
        },
    )

    def rows(self, plan: ExperimentPlan) -> Rows:
        """A size in each row; columns are held-out perplexity and the tasks."""
        found: dict[str, dict[str, Cell]] = {}
        for size in plan.sizes:
            model = pretrained(plan, size=size)
            found[f"{size.layers} x {size.width}"] = {
                _PERPLEXITY: Cell((model,), "perplexity"),
                **tuned_row(plan, plan.tasks, model),
            }
        return found

    def findings(self, scores: ScoreTable) -> list[Finding]:
        smallest, *_, largest = scores.values()
        tasks = [name for name in largest if name != _PERPLEXITY]
        # One run each, so there is no spread.
        known = [row[_PERPLEXITY].mean for row in scores.values() if row[_PERPLEXITY].values]
        falls = known == sorted(known, reverse=True)
        state = (
            "falls from each size to the next" if falls else "does not fall from each to the next"
        )
        if len(known) < len(scores):
            state = "cannot be compared from each to the next, as not all sizes are done"
        shown = ", ".join(f"{value:.1f}" for value in known) or "none is known"
        return [
            finding("Larger is better", [(largest[task], smallest[task]) for task in tasks]),
            Finding(f"Perplexity {state} ({shown}; one run each)."),
        ]

    def axes(self, plan: ExperimentPlan) -> PlotAxes:
        points = [
            (12 * size.layers * size.width**2, f"{size.layers} x {size.width}")
            for size in plan.sizes
        ]
        return PlotAxes("weights of all blocks", {"": points}, logarithmic=True)


class StepStudy(Study):
    """Intermediate checkpoints, fine-tuned (appendix C.1)."""

    name = "steps"
    title = "Steps of pre-training (appendix C.1)"
    question = (
        "Does more pre-training help, and is masked LM slower to learn than left-to-right, as it "
        "predicts 15 % of the tokens only?"
    )
    paper = PaperTable(
        "Figure 5 is a plot; its text says: BERT-Base gains almost 1.0 % on MNLI from 500,000 to "
        "1,000,000 steps, and masked LM passes left-to-right almost at once"
    )
    claims = (
        ("More steps help masked LM", f"{_MASKED}, 100%", f"{_MASKED}, 10%"),
        (
            "Masked LM is ahead of left-to-right at the end",
            *(f"{_MASKED}, 100%", f"{_RIGHT}, 100%"),
        ),
        (
            "Masked LM is ahead of left-to-right almost from the beginning",
            *(f"{_MASKED}, 10%", f"{_RIGHT}, 10%"),
        ),
    )

    def rows(self, plan: ExperimentPlan) -> Rows:
        """A model after a fraction of its steps in each row."""
        return {
            f"{model}, {fraction:.0%}": tuned_row(
                plan,
                plan.tasks[:1],
                pretrained(plan, objective),
                fraction=None if fraction == 1 else fraction,
            )
            for model, objective in _MODELS.items()
            for fraction in _FRACTIONS
        }

    def axes(self, plan: ExperimentPlan) -> PlotAxes:
        points = {
            model: [(round(each * plan.steps), f"{model}, {each:.0%}") for each in _FRACTIONS]
            for model in _MODELS
        }
        return PlotAxes("steps of pre-training", points)
