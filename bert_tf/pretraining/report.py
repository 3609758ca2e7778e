"""The report of a pre-training run: figures and curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.pretraining import masked_sentences, outlook
from bert_tf.training import figures
from bert_tf.training.progress import Point
from pipelines.common.texts import counted

if TYPE_CHECKING:
    import matplotlib.figure

# What a report has beside metrics and what they are compared with.
_OF_THE_RUN = frozenset(
    (
        "steps",
        "sequences_per_second",
        "input_wait_share",
        "seconds",
        "held_out_examples",
        "parameters",
        "precision",
        "objective",
        "data",
        "weights_sha256",
        "masked_sentences",
        "expected_gain",
    )
)
# Figures of names that end so are shares of what was asked.
_SHARES = ("_accuracy", "_majority")


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
    waited = report.get("input_wait_share")  # reports of older versions lack it
    speed += "" if waited is None else f"{waited:.1%} of the time waiting for input, "
    lines.append(f"{counted(report['steps'], 'step')}, {speed}{report['seconds']:.0f} s")
    lines += map(_shown, report.get("masked_sentences", ()))
    told = outlook.sentences(report)
    return "\n".join([*lines, *(["", *told] if told else [])])


def _shown(sentence: dict[str, Any]) -> str:
    """A masked sentence with its guesses; the right one is marked."""
    original = sentence["original"]
    guesses = ", ".join(
        f"{'✓ ' if token == original else ''}{token} {share:.0%}"
        for token, share in sentence["guesses"].items()
    )
    return (
        f"\n  {sentence['text']}\n  {masked_sentences.ASKED} was {original!r}; guesses: {guesses}"
    )
