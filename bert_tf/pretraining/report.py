"""The report of a pre-training run: figures, curves, and what the model guesses."""

from collections.abc import Sequence
from typing import Any

import matplotlib.figure
import tensorflow as tf

from bert_tf.objectives.bert import PretrainingModel
from bert_tf.training import run_folder
from bert_tf.training.progress import Point
from pipelines.tokenizers.base import Vocabulary

_SENTENCES = 6
_GUESSES = 5
_CONTEXT = 12  # tokens shown on each side of a masked one


def guess_masked(
    model: PretrainingModel, batch: dict[str, tf.Tensor], vocabulary: Vocabulary
) -> list[dict[str, Any]]:
    """Guesses one [MASK] in each of a few examples.

    Args:
      model: the model.
      batch: held-out examples.
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
    """Draws loss, accuracies, learning rate and speed over the steps, as a PNG."""
    figure = matplotlib.figure.Figure(figsize=(11, 7), layout="constrained")
    steps = [point.step for point in points]
    panels = (
        ("loss (nats)", {"training": [point.loss for point in points]}),
        (
            "accuracy",
            {
                "masked LM": [point.masked_lm_accuracy for point in points],
                "next sentence": [point.next_sentence_accuracy for point in points],
            },
        ),
        ("learning rate", {"": [point.learning_rate for point in points]}),
        ("sequences / s", {"": [point.sequences_per_second for point in points]}),
    )
    for axes, (title, curves) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for label, values in curves.items():
            axes.plot(steps, values, label=label, linewidth=1.2)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if all(curves):
            axes.legend()
    run_folder.save_figure(figure, path)


def summary(report: dict[str, Any]) -> str:
    """The report, as JSON has it, as a few lines of text."""

    def percent(name: str) -> str:
        value = report.get(name)
        return "-" if value is None else f"{value:.1%}"

    lines = [
        f"held-out masked LM accuracy  {percent('masked_lm_accuracy')}   "
        f"(most frequent token {percent('unigram_accuracy')}, "
        f"best guess from a neighbour {percent('bigram_accuracy')})",
        f"next-sentence accuracy       {percent('next_sentence_accuracy')}   "
        f"(the more frequent answer {percent('next_sentence_majority')})",
    ]
    if report.get("perplexity"):
        lines.append(f"perplexity of masked tokens  {report['perplexity']:.1f}")
    rate = report["sequences_per_second"]
    speed = "" if rate is None else f"{rate:.0f} sequences/s, "
    lines.append(f"{report['steps']:,} steps, {speed}{report['seconds']:.0f} s")
    for sentence in report.get("masked_sentences", ()):
        guesses = ", ".join(f"{token} {p:.0%}" for token, p in sentence["guesses"].items())
        lines.append(
            f"\n  {sentence['text']}\n  [?] was {sentence['original']!r}; guesses: {guesses}"
        )
    return "\n".join(lines)
