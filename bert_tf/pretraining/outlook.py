"""What a run has learned, in a sentence, and what more time would bring."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.training.progress import Point
from pipelines.common.texts import counted

MORE_MINUTES = 10
_FEWEST = 10  # points of a curve, to go by it
_SURE = 0.01  # a difference of accuracies that is none of chance


def expected_gain(points: Sequence[Point], seconds: float) -> float:
    """What MORE_MINUTES more would add to the accuracy for masked tokens.

    As long as the learning rate is at its peak, the accuracy grows about linearly with the
    logarithm of the steps; a longer run would only stay there longer.

    Args:
      points: of the history.
      seconds: of training in all.

    Returns:
      The gain; NaN where the rate did not stay at its peak for long enough to tell.
    """
    peak = max((point.learning_rate for point in points), default=0.0)
    level = [p for p in points if p.learning_rate == peak and "masked_lm_accuracy" in p.metrics]
    level = [p for p in level if p.step >= level[-1].step / 4]
    if len(level) < _FEWEST or not seconds:
        return math.nan
    steps = np.log([point.step for point in level])
    slope, _ = np.polyfit(steps, [point.metrics["masked_lm_accuracy"] for point in level], 1)
    return max(0.0, float(slope)) * math.log1p(60 * MORE_MINUTES / seconds)


def sentences(report: dict[str, Any]) -> list[str]:
    """What a report says of masked tokens and pairs; none where it has neither."""
    found = []
    masked = report.get("masked_lm_accuracy")
    guesses = [report.get(name) for name in ("unigram_accuracy", "bigram_accuracy")]
    known = [guess for guess in guesses if guess is not None]
    if masked is not None and known:
        found.append(_masked(masked, max(known)))
        gain = report.get("expected_gain")
        if gain is not None:
            found.append(
                f"By the curve so far, {counted(MORE_MINUTES, 'minute')} more would bring about "
                f"{masked + gain:.0%}."
            )
    pairs, majority = report.get("next_sentence_accuracy"), report.get("next_sentence_majority")
    if pairs is not None and majority is not None:
        found.append(
            f"It tells the next sentence from a random one in {pairs:.0%} of the cases "
            f"({majority:.0%} by always saying the same)."
        )
    return found


def _masked(masked: float, guess: float) -> str:
    how = f"the best guess from the word before or behind is right for {guess:.1%}"
    if masked > guess + _SURE:
        return (
            f"Better than guessing: the model is right for {masked:.1%} of the masked words, where "
            f"{how}."
        )
    return (
        f"Not better than guessing yet: the model is right for {masked:.1%} of the masked words, "
        f"and {how}. Give it more time (--minutes, MINUTES=)."
    )
