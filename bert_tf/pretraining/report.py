"""The report of a pre-training run: figures, curves, and what the model guesses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from bert_tf.objectives.base import PretrainingObjective
from bert_tf.training import figures
from bert_tf.training.progress import Point
from pipelines.tokenizers.base import Vocabulary

if TYPE_CHECKING:
    import matplotlib.figure

_SENTENCES = 6
_GUESSES = 5
_CONTEXT = 12  # tokens shown on each side of a masked one
# What a report has beside metrics and what they are compared with.
_OF_THE_RUN = frozenset(
    (
        "steps",
        "sequences_per_second",
        "seconds",
        "held_out_examples",
        "parameters",
        "precision",
        "objective",
        "data",
        "weights_sha256",
        "masked_sentences",
    )
)
# Figures of names that end so are shares of what was asked.
_SHARES = ("_accuracy", "_majority")


def guess_masked(
    model: PretrainingObjective, batch: dict[str, tf.Tensor], vocabulary: Vocabulary
) -> list[dict[str, Any]]:
    """Guesses one [MASK] in each of a few examples.

    Args:
      model: one that guesses masked tokens.
      batch: held-out examples, prepared.
      vocabulary: its tokens.

    Returns:
      For each: the text round the mask, the original token, and the top
      guesses with their probabilities.
    """
    logits = model(batch)["masked_lm"]
    top = tf.math.top_k(tf.nn.softmax(logits), _GUESSES)
    tokens = vocabulary.tokens
    mask_id, pad_id = vocabulary.id_of("mask"), vocabulary.id_of("pad")
    results = []
    for row, ids in enumerate(batch["input_word_ids"].numpy()):
        positions = batch["masked_lm_positions"][row].numpy()
        slots = [slot for slot, position in enumerate(positions) if ids[position] == mask_id]
        if not slots:
            continue
        slot = slots[len(slots) // 2]
        first = max(0, positions[slot] - _CONTEXT)
        window = ids[first : positions[slot] + _CONTEXT + 1]
        words = [tokens[index] for index in window if index != pad_id]
        results.append(
            {
                "text": _join(vocabulary, words, int(positions[slot] - first)),
                "original": tokens[batch["masked_lm_ids"][row, slot].numpy()],
                "guesses": {
                    tokens[index]: round(float(probability), 4)
                    for index, probability in zip(
                        top.indices[row, slot].numpy(), top.values[row, slot].numpy(), strict=True
                    )
                },
            }
        )
        if len(results) == _SENTENCES:
            break
    return results


def _join(vocabulary: Vocabulary, words: list[str], asked: int) -> str:
    """Joins pieces to text; the mask that is asked for is shown as [?]."""
    return vocabulary.plain([*words[:asked], "[?]", *words[asked + 1 :]])


def draw_curves(points: Sequence[Point], path: str) -> None:
    """Draws losses, accuracies, learning rate and speed over the steps, as a PNG."""
    figures.draw(path, (11, 7), lambda figure: _paint_curves(figure, points))


def _paint_curves(figure: "matplotlib.figure.Figure", points: Sequence[Point]) -> None:
    steps = [point.step for point in points]
    columns: dict[str, list[float]] = {}
    for name in points[0].curves() if points else ():
        columns[name] = [point.curves()[name] for point in points]
    panels = (
        ("loss (nats)", "loss"),
        ("accuracy", "_accuracy"),
        ("learning rate", "learning_rate"),
        ("sequences / s", "sequences_per_second"),
    )
    for axes, (title, ending) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        curves = {k.removesuffix(ending): v for k, v in columns.items() if k.endswith(ending)}
        for label, values in curves.items():
            axes.plot(steps, values, label=label.replace("_", " "), linewidth=1.2)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if len(curves) > 1:
            axes.legend()


def summary(report: dict[str, Any]) -> str:
    """The report, as JSON has it, as a few lines of text."""
    figures = {k: v for k, v in report.items() if k not in _OF_THE_RUN and v is not None}
    width = max(map(len, figures), default=0)
    lines = ["held out:"] if figures else ["There were no held-out examples to score with."]
    for name, value in figures.items():
        text = f"{value:.1%}" if name.endswith(_SHARES) else f"{value:.4g}"
        lines.append(f"  {name.replace('_', ' '):{width}}  {text}")
    rate = report["sequences_per_second"]
    speed = "" if rate is None else f"{rate:.0f} sequences/s, "
    lines.append(f"{report['steps']:,} steps, {speed}{report['seconds']:.0f} s")
    for sentence in report.get("masked_sentences", ()):
        guesses = ", ".join(f"{token} {p:.0%}" for token, p in sentence["guesses"].items())
        lines.append(
            f"\n  {sentence['text']}\n  [?] was {sentence['original']!r}; guesses: {guesses}"
        )
    return "\n".join(lines)
