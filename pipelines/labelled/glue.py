"""Reads the data sets of GLUE (Wang et al. 2018) in their original files."""

import dataclasses

from pipelines.common.errors import InputError
from pipelines.labelled import labels, table_rows, tables, text_lines
from pipelines.labelled.schema import TextExample
from pipelines.labelled.source import Source

_COLA_COLUMNS = ("source", "label", "star", "sentence")


@dataclasses.dataclass(frozen=True)
class GlueSet:
    """The files of a data set."""

    folder: str  # usual name
    text_a: str  # column of the first text
    text_b: str | None  # column of the second text
    label: str  # column of the label
    labels: tuple[str, ...]  # in the order of ids; empty for regression
    submission: dict[str, str]  # file names by split
    words: bool = False  # whether a submission has labels instead of their numbers
    dev: tuple[str, ...] = ("dev",)  # splits to score, the main one first
    test: tuple[str, ...] = ("test",)  # splits to predict
    columns: tuple[str, ...] | None = None  # of train and dev if they have no header
    broken: bool = False  # whether the published training file has broken rows, to be skipped


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")
_MATCHED = ("matched", "mismatched")
SETS = {
    "cola": GlueSet(
        "CoLA", "sentence", None, "label", ("0", "1"), {"test": "CoLA"}, columns=_COLA_COLUMNS
    ),
    "sst2": GlueSet("SST-2", "sentence", None, "label", ("0", "1"), {"test": "SST-2"}),
    "mrpc": GlueSet("MRPC", "#1 String", "#2 String", "Quality", ("0", "1"), {"test": "MRPC"}),
    "stsb": GlueSet("STS-B", *_PAIR, "score", (), {"test": "STS-B"}),
    "qqp": GlueSet(
        "QQP", "question1", "question2", "is_duplicate", ("0", "1"), {"test": "QQP"}, broken=True
    ),
    "mnli": GlueSet(
        "MNLI",
        *_PAIR,
        "gold_label",
        _NLI,
        {"test_matched": "MNLI-m", "test_mismatched": "MNLI-mm"},
        words=True,
        dev=tuple(f"dev_{name}" for name in _MATCHED),
        test=tuple(f"test_{name}" for name in _MATCHED),
    ),
    "qnli": GlueSet(
        "QNLI", "question", "sentence", "label", _ENTAILMENT, {"test": "QNLI"}, words=True
    ),
    "rte": GlueSet("RTE", *_PAIR, "label", _ENTAILMENT, {"test": "RTE"}, words=True),
    "wnli": GlueSet("WNLI", *_PAIR, "label", ("0", "1"), {"test": "WNLI"}),
    # The diagnostic set has no training data; a model of MNLI predicts it.
    "ax": GlueSet(
        "AX", *_PAIR, "label", _NLI, {"diagnostic": "AX"}, words=True, dev=(), test=("diagnostic",)
    ),
}
# The diagnostic set as published with its analysis, with labels.
_ANALYSED = dataclasses.replace(SETS["ax"], text_a="Premise", text_b="Hypothesis", label="Label")


def read(
    name: str, source: Source, split: str, labelled: bool, skipped: list[str]
) -> list[TextExample]:
    """Reads a file of a data set, a key of SETS.

    Args:
      name: the data set.
      source: the file, whose columns are those of the data set.
      split: its split.
      labelled: whether it has labels, and the columns of training files.
      skipped: receives a message for each skipped row.

    Raises:
      InputError: a row is damaged, or a label is unknown.
    """
    data = SETS[name]
    plain = dataclasses.replace(source, header=True, has_quotes=False)
    lenient = skipped if data.broken and split == "train" else None
    columns = data.columns if labelled or _is_without_header(source, data) else None
    rows = list(tables.read_rows(plain, columns, lenient))
    if name == "ax" and _ANALYSED.text_a in rows[0].values:
        data = _ANALYSED
    examples = [_example(row, index, data, labelled) for index, row in enumerate(rows)]
    examples = labels.without_undecided(examples, skipped)
    for example in examples:
        if example.label is not None and data.labels and example.label not in data.labels:
            raise InputError(
                f"{example.place}: the label {example.label!r} is unknown; expected "
                f"{', '.join(data.labels)}."
            )
    return examples


def _is_without_header(source: Source, data: GlueSet) -> bool:
    """Whether a file has the columns of training files, whose names are not in it."""
    if not data.columns:
        return False
    first = (
        next(iter(text_lines.read_lines(source.path, source.encoding)), "")
        .rstrip("\r\n")
        .split("\t")
    )
    return len(first) == len(data.columns) and data.text_a not in first


def _example(row: table_rows.TableRow, index: int, data: GlueSet, labelled: bool) -> TextExample:
    return TextExample(
        row.values.get("index") or str(index),
        row.place,
        row.verbatim(data.text_a),
        row.verbatim(data.text_b) if data.text_b else None,
        row.text(data.label) if labelled else None,
    )
