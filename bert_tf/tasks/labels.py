"""Tasks that give each text or word one of several labels."""

import abc
import collections
import dataclasses
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import sklearn.metrics
from absl import logging

from bert_tf.tasks import plots
from bert_tf.tasks.base import Examples, LabelScores, Predictions, Task
from bert_tf.tasks.reports import file_of
from pipelines.common.errors import InputError
from pipelines.common.texts import listed, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEW_LABELS = 20
_FEW_EXAMPLES = 3  # per label, on average
_RARE = 0.1  # fraction of the examples of a label
_MANY_LABELS = 200
_MOST_COMPARED = 2_000  # in a confusion matrix, which takes the square of that


@dataclasses.dataclass(frozen=True)
class LabelTask(Task):
    """What classification of texts and tagging of words share.

    Attributes:
      balanced: whether the loss weighs labels by the inverse of their frequency.
      label_weights: these weights, computed from the training data.
      first_bias: bias of the head before training; empty: zeros.
      role: the column of the labels, "label" or "tags".
    """

    role: ClassVar[str] = "label"

    balanced: bool = False
    label_weights: tuple[float, ...] = ()
    first_bias: tuple[float, ...] = ()

    @property
    def units(self) -> int:
        """One per label."""
        return len(self.labels)

    @abc.abstractmethod
    def given(self, example: Any) -> Sequence[str]:
        """The labels of an example; empty if unknown."""

    def classes(self, example: Any) -> set[str]:
        """All labels of an example."""
        return set(self.given(example))

    def counted(self, examples: Examples) -> collections.Counter[str]:
        """The number of occurrences of each label."""
        return collections.Counter(label for example in examples for label in self.given(example))

    def label_values(self, examples: Examples) -> np.ndarray:
        """The ids of all labels of examples, int64; -1 for those that training lacks."""
        ids = {label: number for number, label in enumerate(self.labels)}
        return np.array([ids.get(label, -1) for e in examples for label in self.given(e)], np.int64)

    def weights(self, counts: Mapping[str, int], labels: Sequence[str]) -> tuple[float, ...]:
        """Weights of labels by the inverse of their counts, 1 if all are equal; empty if unused."""
        if not self.balanced:
            return ()
        found = np.array([counts[label] for label in labels])
        return tuple((found.sum() / (np.maximum(found, 1) * len(found))).tolist())

    def check(self, examples: Examples) -> None:
        """Checks that some labels occur in the training data; others count as wrong.

        Raises:
          InputError: none does. If either is a number, the message explains how to name labels.
        """
        super().check(examples)
        first = next((example for example in examples if self.given(example)), None)
        if first is None or not self.labels or self.counted(examples).keys() & set(self.labels):
            return
        label = self.given(first)[0]
        remedy = "Fix the file, or add such examples to the training data."
        names = [label, *self.labels]
        numbers = [name for name in names if _folded(name).isdecimal()]
        if numbers and (len(numbers) < len(names) or len({n.isdecimal() for n in numbers}) > 1):
            pairs = ",".join(f"{number}=NAME" for number in numbers[:3])
            remedy = (
                f"Fine-tune with names for numbers: --label_map={pairs},... or --label_map=FILE."
            )
        raise InputError(
            f"{first.place}: the {self.role.removesuffix('s')} {label!r} does not occur in the "
            f"training data, which has {listed(list(map(repr, self.labels)), 20)}, nor does any "
            f"other of the file. {remedy}"
        )

    def pairs(self, examples: Examples, predictions: Predictions) -> tuple[list[str], list[str]]:
        """All true labels, and the predicted ones."""
        truth = [label for example in examples for label in self.given(example)]
        return truth, [label for guess in predictions for label in self.answers(guess)]

    def by_label(self, examples: Examples, predictions: Predictions) -> dict[str, LabelScores]:
        """Scores of each label."""
        columns = sklearn.metrics.precision_recall_fscore_support(
            *self.pairs(examples, predictions), labels=list(self.labels), zero_division=0
        )
        return label_scores(self.labels, columns)

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """The confusion matrix of the labels; of thousands, of those that are confused most."""
        truth, guesses = self.pairs(examples, predictions)
        labels = [*self.labels, *sorted(set(truth) - set(self.labels))]
        if len(labels) > _MOST_COMPARED:
            pairs = zip(truth, guesses, strict=True)
            wrong = collections.Counter(name for pair in pairs if len({*pair}) > 1 for name in pair)
            most = wrong.most_common(_MOST_COMPARED) or collections.Counter(truth).most_common(1)
            labels = sorted(name for name, _ in most)
        matrix = sklearn.metrics.confusion_matrix(truth, guesses, labels=labels)
        plots.draw_confusion(figure, matrix, labels)


def label_scores(
    names: Sequence[str], columns: Sequence[Sequence[float] | np.ndarray]
) -> dict[str, LabelScores]:
    """Scores by label, from columns of precision, recall, F1 and count."""
    return {
        name: {"precision": float(p), "recall": float(r), "f1": float(f1), "count": int(count)}
        for name, p, r, f1, count in zip(names, *columns, strict=True)
    }


def check_case(counts: Mapping[str, int], place: str, role: str) -> None:
    """Checks that labels differ in more than case or encoding; warns if they do not.

    Raises:
      InputError: one of few labels is rare next to its other form: a slip, whose examples would
        count as wrong ever after. Two frequent forms may be meant, and large sets of tags have both
        cases on purpose.
    """
    usual: dict[str, str] = {}
    for label in sorted(counts, key=lambda label: -counts[label]):
        usual.setdefault(_folded(label), label)
    forms = {label: usual[_folded(label)] for label in counts}
    pairs = [(other, label) for label, other in forms.items() if label != other]
    if not pairs:
        return
    shown = [f"{a!r} ({counts[a]:,}) and {b!r} ({counts[b]:,})" for a, b in pairs]
    message = (
        f"{file_of(place)}: the {role.removesuffix('s')}s {listed(shown, 3)} differ only in case, "
        "in .0, or in how their characters are encoded. "
        "To make them one, name all labels: --label_map="
        f"{','.join(f'{label}={other}' for label, other in list(forms.items())[:_FEW_LABELS])}"
    )
    if len(counts) <= _FEW_LABELS and any(counts[b] < _RARE * counts[a] for a, b in pairs):
        raise InputError(f"{message} (the same name twice keeps a label).")
    logging.warning("%s", message)


def _folded(label: str) -> str:
    """A label without case, forms of characters (NFKC), invisible ones, and ".0" of numbers."""
    visible = (char for char in label if unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFKC", "".join(visible)).casefold()
    return re.sub(r"^(-?[0-9]+)\.0$", r"\1", folded)


def check_labels(counts: Mapping[str, int], place: str, role: str, named: bool = False) -> None:
    """Checks that labels are labels, and not the texts or numbers of another column.

    Args:
      counts: the number of occurrences of each label in the training data.
      place: place of the first example.
      role: the column of the labels, "label" or "tags".
      named: whether the user named that column, so that few examples of each label are intended.

    Raises:
      InputError: most of many labels occur once, or have few examples each, or are fractions.
    """
    path, single = file_of(place), role.removesuffix("s")
    once = [label for label, count in counts.items() if count == 1]
    if len(counts) > _FEW_LABELS and len(once) > len(counts) / 2:
        remedy = "Leave out the rare ones, or name another column" if named else "Name it"
        raise InputError(
            f"{path}: of {len(counts)} different {single}s {len(once)} occur once, such as "
            f"{shorten(once[0], 60)!r}: is that the column of the {role}? {remedy} with "
            f"--columns={role}=COLUMN; a column of numbers to predict is --task=regression."
        )
    if named or len(counts) <= _FEW_LABELS:
        return
    few = sum(counts.values()) < _FEW_EXAMPLES * len(counts)
    numbers = all(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", label) for label in counts)
    if few or (numbers and any("." in label for label in counts)):
        raise InputError(
            f"{path}: {sum(counts.values())} examples have {len(counts)} different {single}s, such "
            f"as {shorten(min(counts), 60)!r}. To learn them all the same, name the column with "
            f"--columns={role}=COLUMN; a column of numbers to predict is --task=regression."
        )
    if len(counts) >= _MANY_LABELS:
        logging.warning(
            "%s: has %d different %ss; if this is the wrong column, name the right one with "
            "--columns=%s=COLUMN.",
            path,
            len(counts),
            single,
            role,
        )
