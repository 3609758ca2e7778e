"""The tasks that can be named: those of the paper, and the user's own by shape."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.tasks.base import Task, TaskFiles
from bert_tf.tasks.choice.task import Choice
from bert_tf.tasks.classification.task import Classification, Regression
from bert_tf.tasks.span.task import Spans
from bert_tf.tasks.tagging.task import Tagging
from pipelines.common.errors import InputError
from pipelines.labelled import conll, glue, multiple_choice, squad, tables, user_files
from pipelines.labelled.user_files import ColumnNames

_TABLES = (".jsonl", ".csv", ".tsv", ".json", ".txt")
_SPLIT_NAMES = {
    "train": ("train",),
    "dev": ("dev", "valid", "validation", "val"),
    "test": ("test",),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user may choose of a task; None: the task's own."""

    max_length: int | None = None
    balanced: bool = False  # weigh labels by the inverse of their frequency
    document_context: bool = False  # for tagging
    fixed_length: bool = False  # pad every batch to max_length


# Those that some kinds of tasks have only.
SPECIAL_OPTIONS = ("balanced", "document_context")


def make(kind: str, name: str | None = None, options: Options | None = None) -> Task:
    """Makes an untrained task.

    Args:
      kind: a key of KINDS.
      name: of the task; None: as its kind.
      options: see there.

    Raises:
      InputError: the kind is unknown, or an option does not suit it.
    """
    if kind not in KINDS:
        raise InputError(f"the task {kind!r} is unknown; there are {', '.join(KINDS)}.")
    options = options or Options()
    task = KINDS[kind](name or kind, kind)
    changes: dict[str, Any] = {"fixed_length": options.fixed_length}
    if options.max_length:
        changes["max_length"] = options.max_length
    for field in SPECIAL_OPTIONS:
        if not getattr(options, field):
            continue
        if not suits(kind, field):
            raise InputError(f"--{field} does not apply to the task {kind}.")
        changes[field] = True
    return dataclasses.replace(task, **changes)


def suits(kind: str, option: str) -> bool:
    """Whether tasks of a kind have an option, by its name in `Options`."""
    return kind in KINDS and hasattr(KINDS[kind](kind, kind), option)


def load(description: Mapping[str, Any], longest: int | None = None) -> Task:
    """Makes the trained task that `Task.describe` described.

    Args:
      description: where it has no kind, because another program trained it, the
        name decides (such as "mrpc") if it is of the same shape, else the shape.
      longest: the longest sequence that the model takes.

    Raises:
      InputError: its kind is unknown.
    """
    if "kind" not in description:
        name, shape = description["name"], description["shape"]
        known = name in KINDS and make(name).shape == shape
        description = _with_kind(description, make(name if known else shape))
    task = make(description["kind"], description["name"])
    length = description.get("max_length", task.max_length)
    return task.restore({**description, "max_length": min(length, longest or length)})


def of_kind(description: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The description of a task, with a kind where it has none because another program trained it.

    Raises:
      InputError: it has another kind, or another shape or other labels.
    """
    described = _with_kind(description, make(kind))
    if described["kind"] != kind:
        raise InputError(f"the task {described['name']} is {described['kind']}, not {kind}.")
    alike(kind, described)
    return described


def alike(kind: str, description: Mapping[str, Any]) -> Task:
    """The untrained task of a kind, of the same shape and labels as a described one.

    Raises:
      InputError: it is not.
    """
    task = make(kind)
    shape, labels = description["shape"], description["labels"]
    if task.shape != shape or (task.labels and set(task.labels) != set(labels)):
        raise InputError(
            f"the task {description['name']} is {shape} with the labels "
            f"{', '.join(labels) or 'none'}; {kind} is {task.shape} with "
            f"{', '.join(task.labels) or 'any'}."
        )
    return task


def _with_kind(description: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """A description with the kind of a task, if it has none.

    Labels without names, numbers or transformers' LABEL_0, ..., get those of the
    kind: numbers are in the order of google-research/bert, as ours are; LABEL_0
    too, but for MNLI, where programs differ. Tasks of the user's own may be of
    single texts or of pairs; only files tell.
    """
    if "kind" in description:
        return dict(description)
    labels, known = list(description["labels"]), list(task.labels)
    numbers = [str(index) for index in range(len(known))]
    unnamed = [f"LABEL_{number}" for number in numbers]
    if labels == numbers or (labels == unnamed and len(known) == 2):
        labels = known
    open_pair = {"pair": None} if task.kind == task.shape else {}
    return {"kind": task.kind, **open_pair, **description, "labels": labels}


def _glue(kind: str) -> Callable[[str, str], Task]:
    data = glue.SETS[kind]

    def read(
        path: str, split: str, labelled: bool, _: ColumnNames, skipped: list[str]
    ) -> list[Any]:
        return glue.read(kind, path, split, labelled, skipped)

    names = ("train", *data.dev, *data.test) if data.dev else data.test
    patterns = {name: (f"{name}.tsv",) for name in names}
    source = TaskFiles(patterns, read, data.folder, named_columns=False, test_labelled=False)
    submission = tuple(data.submission.items())

    def make_task(name: str, kind: str) -> Task:
        if kind == "stsb":
            return Regression(
                name, kind, source, pair=True, bounds=(0.0, 5.0), submission=submission
            )
        return Classification(
            name,
            kind,
            source,
            pair=data.text_b is not None,
            labels=data.labels,
            metric_names=_GLUE_METRICS.get(kind, ("accuracy",)),
            submission=submission,
            submit_labels=data.words,
        )

    return make_task


_GLUE_METRICS = {
    "ax": ("matthews", "accuracy"),
    "cola": ("matthews", "accuracy"),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
}


def _table_source(read: Callable[[str, ColumnNames, bool], list[Any]], *more: str) -> TaskFiles:
    """Of the user's own files: train.*, dev.* and test.* with one of the known endings."""

    def read_split(
        path: str, split: str, labelled: bool, names: ColumnNames, _: list[str]
    ) -> list[Any]:
        return read(path, names, labelled)

    return TaskFiles(_file_names((*more, *_TABLES)), read_split)


def _file_names(endings: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {
        split: tuple(f"{name}{ending}" for name in names for ending in endings)
        for split, names in _SPLIT_NAMES.items()
    }


def _pairs(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    return user_files.read_texts(path, names, pair=True, labelled=labelled)


def _texts_or_pairs(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    return user_files.read_texts(path, names, pair=None, labelled=labelled)


def _words(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    if tables.ending(path) in (".jsonl", ".json", ".tsv", ".csv"):
        return user_files.read_words(path, names, labelled)
    return conll.read(path, labelled)


def _spans(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    if squad.is_squad(path):
        return squad.read(path)
    return user_files.read_spans(path, names, labelled)


def _squad(version: int, allow_null: bool) -> Callable[[str, str], Task]:
    # Files of other names count too, but none of the other version: none with "-v".
    endings = (f"-v{version}*.json", ".json", "[!-]*.json", "-[!v]*.json")
    source = TaskFiles(
        {
            split: tuple(f"{split}{ending}" for ending in endings)
            for split in ("train", "dev", "test")
        },
        lambda path, split, labelled, names, skipped: squad.read(path),
        named_columns=False,
    )
    return lambda name, kind: Spans(name, kind, source, max_length=384, allow_null=allow_null)


def _read_choices(
    path: str, split: str, labelled: bool, names: ColumnNames, skipped: list[str]
) -> list[Any]:
    if tables.ending(path) == ".csv" and multiple_choice.is_swag(path):
        return multiple_choice.read_swag(path)
    if tables.ending(path) == ".csv" and not names.chosen and multiple_choice.is_keyed(path):
        return multiple_choice.read_keyed(path, skipped)
    return user_files.read_choices(path, names, labelled)


_NER = TaskFiles(
    {
        "train": ("train.txt", "*train*.conll", "*train*.conllu", "eng.train"),
        "dev": ("valid.txt", "dev.txt", "*dev*.conll", "*dev*.conllu", "eng.testa"),
        "test": ("test.txt", "*test*.conll", "*test*.conllu", "eng.testb"),
    },
    lambda path, split, labelled, names, skipped: _words(path, names, labelled),
)
_TAGGED = _table_source(_words, ".conllu", ".conll")
_CHOICES = TaskFiles(
    {
        split: tuple(
            f"{prefix}{name}{end}" for prefix in ("", "*") for name in names for end in _TABLES
        )
        for split, names in _SPLIT_NAMES.items()
    },
    _read_choices,
)

KINDS: dict[str, Callable[[str, str], Task]] = {
    **{kind: _glue(kind) for kind in glue.SETS},
    "squad1": _squad(1, allow_null=False),
    "squad2": _squad(2, allow_null=True),
    "ner": lambda name, kind: Tagging(name, kind, _NER),
    "pos": lambda name, kind: Tagging(name, kind, _NER, tag_set=conll.UPOS),
    "swag": lambda name, kind: Choice(name, kind, _CHOICES),
    "classification": lambda name, kind: Classification(name, kind, _table_source(_texts_or_pairs)),
    "pair": lambda name, kind: Classification(name, kind, _table_source(_pairs), pair=True),
    "regression": lambda name, kind: Regression(name, kind, _table_source(_texts_or_pairs)),
    "tagging": lambda name, kind: Tagging(name, kind, _TAGGED),
    "span": lambda name, kind: Spans(name, kind, _table_source(_spans), max_length=384),
    "choice": lambda name, kind: Choice(name, kind, _CHOICES),
}
