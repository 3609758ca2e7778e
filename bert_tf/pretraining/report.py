"""The report of a pre-training run: figures, curves, and what the model has learned."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.pretraining import masked_sentences
from bert_tf.training import figures
from bert_tf.training.progress import Point
from pipelines.common.texts import counted

if TYPE_CHECKING:
    import matplotlib.figure

MORE_MINUTES = 10  # that the expected gain is for
_MIN_POINTS = 10  # of a curve, to extrapolate it
_MIN_DIFFERENCE = 0.01  # of two accuracies
# Keys of a report other than metrics and their baselines.
_OF_THE_RUN = frozenset(
    (
        *("steps", "sequences_per_second", "input_wait_fraction", "seconds", "held_out_examples"),
        *("parameters", "precision", "objective", "data", "weights_sha256", "masked_sentences"),
        "samples",
        "expected_gain",
    )
)
# Parts of a loss that are decisions between two answers, and what is decided.
_DECISIONS = {
    "next_sentence": "distinguishes the next sentence from a random one",
    "sentence_order": "tells the order of two segments",
    "replaced_token": "tells whether a token was replaced",
}
# Endings of names whose values are fractions.
_FRACTIONS = ("_accuracy", "_majority", "_found")


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
    """A report, as JSON values, as a few lines of text."""
    metrics = {k: v for k, v in report.items() if k not in _OF_THE_RUN and v is not None}
    width = max(map(len, metrics), default=0)
    lines = ["held out:"] if metrics else ["There were no held-out examples to score with."]
    for name, value in metrics.items():
        text = f"{value:.1%}" if name.endswith(_FRACTIONS) else f"{value:.4g}"
        lines.append(f"  {name.replace('_', ' '):{width}}  {text}")
    rate, waited = report["sequences_per_second"], report["input_wait_fraction"]
    speed = "" if rate is None else f"{rate:.0f} sequences/s, "
    speed += "" if waited is None else f"{waited:.1%} of the time waiting for input, "
    lines.append(f"{counted(report['steps'], 'step')}, {speed}{report['seconds']:.0f} s")
    lines += map(_shown, report.get("masked_sentences", ()))
    for each in report.get("samples", ()):
        lines.append(f"\n  {each['prompt']} [...]{each['text']}")
    found = sentences(report)
    return "\n".join([*lines, *(["", *found] if found else [])])


def _shown(sentence: dict[str, Any]) -> str:
    """A masked sentence with its guesses; the correct one is marked."""
    original = sentence["original"]
    guesses = ", ".join(
        f"{'✓ ' if token == original else ''}{token} {probability:.0%}"
        for token, probability in sentence["guesses"].items()
    )
    return (
        f"\n  {sentence['text']}\n  {masked_sentences.ASKED} was {original!r}; guesses: {guesses}"
    )


def expected_gain(points: Sequence[Point], seconds: float) -> float:
    """The gain in masked-token accuracy that MORE_MINUTES more of training would bring.

    While the learning rate is at its peak, the accuracy grows about linearly with the logarithm of
    the steps; a longer run would only stay there longer.

    Args:
      points: the history.
      seconds: of training in total.

    Returns:
      The gain; NaN where the rate was not at its peak long enough.
    """
    peak = max((point.learning_rate for point in points), default=0.0)
    level = [p for p in points if p.learning_rate == peak and "masked_lm_accuracy" in p.metrics]
    level = [p for p in level if p.step >= level[-1].step / 4]
    if len(level) < _MIN_POINTS or not seconds:
        return math.nan
    steps = np.log([point.step for point in level])
    slope, _ = np.polyfit(steps, [point.metrics["masked_lm_accuracy"] for point in level], 1)
    return max(0.0, float(slope)) * math.log1p(60 * MORE_MINUTES / seconds)


def sentences(report: dict[str, Any]) -> list[str]:
    """Sentences about masked tokens and sentence pairs, where the report has these metrics."""
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
    unigrams, perplexity = report.get("unigram_perplexity"), report.get("perplexity")
    if unigrams is not None and perplexity is not None:
        found.append(
            f"It restores noised texts with a perplexity of {perplexity:.4g} for each token; by "
            f"the frequency of tokens alone it would be {unigrams:.4g}."
        )
    for part, what in _DECISIONS.items():
        right, majority = report.get(f"{part}_accuracy"), report.get(f"{part}_majority")
        if right is not None and majority is not None:
            found.append(
                f"It {what} in {right:.1%} of the cases ({majority:.1%} by always giving the same "
                "answer)."
            )
    return found


def _masked(masked: float, guess: float) -> str:
    how = f"the best guess from a neighbouring word is right for {guess:.1%}"
    if masked > guess + _MIN_DIFFERENCE:
        return (
            f"Better than guessing: the model is right for {masked:.1%} of the masked words, where "
            f"{how}."
        )
    return (
        f"Not better than guessing yet: the model is right for {masked:.1%} of the masked words, "
        f"and {how}. Give it more time (--minutes, MINUTES=)."
    )
