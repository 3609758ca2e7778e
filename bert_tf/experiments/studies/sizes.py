"""The size of the model: section 5.2, Table 6."""

from bert_tf.experiments.scale import Inputs, Scale, tuned
from bert_tf.experiments.scores import Finding, Score, finding
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

_PERPLEXITY = "held-out perplexity"


class Sizes(Study):
    """Four sizes, with the same data and steps."""

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

    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """A size in each row; the perplexity of held-out masked tokens, and the tasks."""
        found: dict[str, dict[str, Cell]] = {}
        for size in scale.sizes:
            # The main one is that of the other studies.
            kept = KEPT if size == scale.main else ()
            model = pretrained(inputs, scale, size=size, keep_at=kept)
            found[f"{size.layers} x {size.width}"] = {
                _PERPLEXITY: Cell.of(model, "perplexity"),
                **{task.name: Cell.of(tuned(scale, task, model)) for task in inputs.tasks},
            }
        return found

    def findings(self, scores: Scores) -> list[Finding]:
        """The largest against the smallest."""
        *_, largest = scores.values()
        smallest = next(iter(scores.values()))
        tasks = [name for name in largest if name != _PERPLEXITY]
        found = [finding("Larger is better", [(largest[t], smallest[t]) for t in tasks])]
        perplexities = [row[_PERPLEXITY] for row in scores.values()]
        return [*found, _perplexity_finding(perplexities)]

    def axes(self, inputs: Inputs, scale: Scale) -> Axes:
        """Scores over the parameters of a block's products."""
        points = [
            (12 * size.layers * size.width**2, f"{size.layers} x {size.width}")
            for size in scale.sizes
        ]
        return Axes("weights of all blocks", {"": points}, logarithmic=True)


def _perplexity_finding(perplexities: list[Score]) -> Finding:
    """One run each: told without a spread, by whether all of them are in order."""
    known = [score.mean for score in perplexities if score.values]
    falls = known == sorted(known, reverse=True)
    state = "falls from each size to the next" if falls else "does not fall from each to the next"
    shown = ", ".join(f"{value:.1f}" for value in known)
    return Finding(f"Perplexity {state} ({shown}; one run each).")
