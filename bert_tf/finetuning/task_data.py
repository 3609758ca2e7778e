"""The data of a task: files to examples to features."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf.finetuning import dev_split
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from bert_tf.tasks import Task, has_option, make
from bert_tf.tasks.labels import LabelTask
from bert_tf.tasks.reports import file_of
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.common.texts import listed
from pipelines.labelled import columnar, labelled_lines, labels, splits, tables
from pipelines.labelled.features import Features
from pipelines.labelled.schema import have_labels, label_of, text_of
from pipelines.labelled.source import Source
from pipelines.tokenizers import coverage
from pipelines.tokenizers.base import Tokenizer

_OPTIONS = tuple(
    "balanced metric windows keep document_context max_target_length dimensions".split()
)
_COVERED = 1_000  # examples whose words and tokens are counted
_SHOWN = 3  # messages about skipped records


@dataclasses.dataclass(frozen=True)
class Split:
    """Examples of one file, or of a part of one, and their features."""

    name: str
    examples: list[Any]
    features: Features

    @property
    def labelled(self) -> bool:
        """Whether all examples have labels, so that predictions can be scored."""
        return have_labels(self.examples)


@dataclasses.dataclass(frozen=True)
class TaskExamples:
    """A task with its labels, and the examples of its files by split; see `TaskData`."""

    task: Task
    parts: dict[str, list[Any]]
    inputs: dict[str, str]
    notes: dict[str, int]


@dataclasses.dataclass(frozen=True)
class TaskData:
    """A task with its labels, and its data.

    Attributes:
      task: the task.
      train: the training data.
      dev: data that is scored; the first split decides.
      test: data that is predicted and, if it has labels, scored once at the end.
      inputs: checksums of the files by split.
      notes: numbers of examples that were cut, skipped and so on, by reason.
      teacher: a teacher's logits for each row of the training data, float32; empty: no teacher.
    """

    task: Task
    train: Split
    dev: tuple[Split, ...]
    test: tuple[Split, ...]
    inputs: dict[str, str]
    notes: dict[str, int]
    teacher: tuple[np.ndarray, ...] = ()

    def scored(self, several: bool) -> Iterator[tuple[Split, str]]:
        """Yields the dev splits and the prefixes of their metrics' names.

        Args:
          several: whether the run has several tasks.
        """
        task = f"{self.task.name}/" if several else ""
        for index, split in enumerate(self.dev):
            yield split, f"{task}{split.name}/" if index else task

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return {split.name: len(split.examples) for split in (self.train, *self.dev, *self.test)}

    @property
    def longest(self) -> int:
        """The largest number of tokens in an example of the training data, in all its sequences."""
        return int(self.train.features["input_word_ids"].lengths.max(initial=0))


def load(request: TaskRequest, settings: FineTuningSettings, tokenizer: Tokenizer) -> TaskData:
    """Reads all files of a task and makes their features; see `read_examples` and `convert`."""
    return convert(read_examples(request, settings), tokenizer)


def read_examples(request: TaskRequest, settings: FineTuningSettings) -> TaskExamples:
    """Reads all files of a task.

    Raises:
      InputError: a file is missing or bad, or has labels unknown to training.
    """
    task = make(request.kind, request.name, **_options(request, settings))
    task = dataclasses.replace(task, columns=request.columns)
    paths = _paths(request, task)
    if {"all", "train"} <= paths.keys():
        logging.warning("%s is not read: --train names the training data.", paths.pop("all"))
    whole, by_column = paths.get("all") or paths.get("train"), list[str]()
    if whole and task.source.named_columns:
        others = {split: path for split, path in paths.items() if split not in ("all", "train")}
        found = splits.in_column(Source(whole, encoding=request.encoding))
        by_column = [split for split in found if split not in others]
        paths = dict.fromkeys(by_column, whole) | others if by_column else paths
    # All tasks share the named columns, except those whose files have fixed ones.
    named = len(settings.tasks) == 1 or task.source.named_columns
    several = len(settings.tasks) > 1
    sources = {
        split: dataclasses.replace(
            source_of(request, path, split if named else None),
            shared=several,
            part=split if split in by_column else None,
        )
        for split, path in paths.items()
    }
    task = _with_label_form(task, sources)
    notes: dict[str, int] = {}
    parts = {
        split: read(task, source, split, notes, labelled=True)
        for split, source in sources.items()
        if not _is_test(split)
    }
    task, parts = _with_label_names(task, request, parts, paths)
    parts = dev_split.with_dev(task, parts, settings.dev_fraction, settings.fold)
    if "train" not in parts:
        raise InputError(
            f"{request.data or 'the files named'}: no training data for {request.kind}. To predict "
            "with a trained model (for ax, one of mnli), use bert-tf predict "
            "(--kind=ax)."
        )
    parts["train"] = learnable(task, parts["train"], notes)
    task = task.fit(parts["train"])  # of all examples: a part may lack a label that dev has
    parts["train"] = dev_split.drawn(parts["train"], settings.train_examples)
    for split in filter(_is_test, () if settings.fold else sources):
        parts[split] = _read_test(task, sources[split], split, notes)
    for name, examples in parts.items():
        task.check(examples)
        if name != "train":  # scored all the same, as the official scripts do
            count_problems(task, examples, name, notes)
    inputs = {split: tables.sha256(path) for split, path in paths.items()}
    beside = map(files.sha256, _beside(request, paths))  # without paths: folders may move
    inputs |= {f"beside_{number}": checksum for number, checksum in enumerate(beside)}
    return TaskExamples(task, parts, inputs, notes)


def source_of(request: TaskRequest, path: str, split: str | None) -> Source:
    """A file of a split, as the user says that it is read; None: its columns are fixed."""
    return Source(
        path,
        request.columns_of(split) if split else {},
        request.header,
        request.encoding,
        label_names=request.label_names or _in_order(request.label_map),
    )


def _with_label_form(task: Task, sources: dict[str, Source]) -> Task:
    """The task with the form of the labels of its files, if there are several forms.

    The training data decides; where it fits several forms, dev and test data do.
    """
    if not task.source.label_forms:
        return task
    forms: Sequence[str] = ()
    for split in sorted(sources, key=lambda split: (split != "train", _is_test(split))):
        try:
            forms = task.source.label_forms(sources[split], forms)
        except InputError:
            if not _is_test(split):  # which may have no labels
                raise
    return dataclasses.replace(task, label_form=next(iter(forms), ""))


def _in_order(label_map: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The names of labels that count from 0 or 1, in their order; of others, none."""
    names = dict(label_map)
    first = 0 if "0" in names else 1
    return tuple(names.get(str(first + number), "") for number in range(len(names)))


def convert(read: TaskExamples, tokenizer: Tokenizer) -> TaskData:
    """Makes the features of all examples."""
    notes, training = dict(read.notes), read.parts["train"]
    train = Split("train", training, make_features(read.task, training, tokenizer))
    task = read.task.fit_features(train.features)
    made = {"train": train} | {
        name: Split(name, examples, make_features(task, examples, tokenizer))
        for name, examples in read.parts.items()
        if name != "train"
    }
    warn_of_unknown(made["train"].examples, made["train"].features, tokenizer)
    for part in made.values():
        for what, count in part.features.counts.items():
            notes[what] = notes.get(what, 0) + count
    return TaskData(
        task,
        made["train"],
        tuple(split for name, split in made.items() if name.startswith("dev")),
        tuple(split for name, split in made.items() if _is_test(name)),
        read.inputs,
        {what: count for what, count in notes.items() if count},
    )


def _options(request: TaskRequest, settings: FineTuningSettings) -> dict[str, Any]:
    """The options of a task. Of several tasks, each gets those that its kind has."""
    names = ["max_seq_length", "fixed_length", "head"]
    for name in _OPTIONS:
        others = any(_takes(other.kind, name) for other in settings.tasks)
        if _takes(request.kind, name) or not others:
            names.append(name)
    options = {name: getattr(settings, name) for name in names}
    if any(make(other.kind).has_chain for other in settings.tasks):
        crf = settings.crf and make(request.kind).has_chain
        options["head"] = dataclasses.replace(settings.head, crf=crf)
    return options


def _takes(kind: str, option: str) -> bool:
    """Whether a kind of task has an option; --keep is for single texts."""
    is_pair = option == "keep" and getattr(make(kind), "pair", False)
    return has_option(kind, option) and not is_pair


def _is_test(split: str) -> bool:
    return split not in ("train", "all") and not split.startswith("dev")


def _paths(request: TaskRequest, task: Task) -> dict[str, str]:
    """The file of each split: those that the user named, and of the others those of `data`."""
    named = {split: _file_in(path, split) for split, path in request.files}
    if not request.data or task.source.splits.keys() <= named.keys():
        return named
    source = task.source
    return named | splits.find(request.data, source.splits, source.folder, named, request.encoding)


def files_of(request: TaskRequest) -> list[str]:
    """All files that a task reads, with those beside its data that may name labels."""
    paths = _paths(request, make(request.kind, request.name))
    found = [file for path in paths.values() for file in tables.files_of(path)]
    return found + _beside(request, paths)


def _beside(request: TaskRequest, paths: dict[str, str]) -> list[str]:
    """The files beside the data that may name labels."""
    maps = (labels.beside(path, request.encoding) for path in paths.values())
    read = (file for path in paths.values() for file in tables.files_of(path))
    infos = filter(files.gfile.exists, map(columnar.info_beside, read))
    return sorted({*(found[0] for found in maps if found), *infos})


def _file_in(path: str, split: str) -> str:
    """A file that the user named, or that of texts in a folder that has one per column."""
    if not files.gfile.isdir(path):
        return path
    words = f"{path.rstrip('/')}/{labelled_lines.WORDS}"
    if files.gfile.exists(words):
        return words
    raise InputError(f"{path}: is a folder; name a file with --{split}, or the folder with --data.")


def _with_label_names(
    task: Task, request: TaskRequest, parts: dict[str, list[Any]], paths: dict[str, str]
) -> tuple[Task, dict[str, list[Any]]]:
    """The task, and examples, with the names for labels of the user, or of a file by the data."""
    names, source = dict(request.label_map), "--label_map"
    every = [example for examples in parts.values() for example in examples]
    if request.label_names:
        names = labels.number(request.label_names, every)
    elif not names and isinstance(task, LabelTask) and task.source.named_columns:
        path = paths.get("train") or next(iter(paths.values()))
        source, found = labels.beside(path, request.encoding) or ("", {})
        if labels.are_named(every, found):
            names = found
            logging.info("%s: names the labels.", source)
    if not names:
        return task, parts
    renamed = {split: labels.rename(examples, names, source) for split, examples in parts.items()}
    return dataclasses.replace(task, label_map=tuple(names.items())), renamed


def read(
    task: Task, source: Source, split: str, notes: dict[str, int], labelled: bool
) -> list[Any]:
    """Reads the examples of a file; skipped records are counted in `notes`.

    Raises:
      InputError: the file is bad, or columns are named although its kind has fixed ones.
    """
    if source.chosen and not task.source.named_columns:
        raise InputError(f"--columns: the files of {task.kind} have columns of their own.")
    skipped: list[str] = []
    names = source.label_names or _in_order(task.label_map)
    source = dataclasses.replace(source, label_names=names, label_form=task.label_form)
    examples = task.source.read(source, split, labelled, skipped)
    if not examples:
        raise InputError(f"{source.path}: has no examples.")
    if labelled:
        for example in examples:
            if label_of(example) is None:
                raise InputError(f"{example.place}: has no label.")
        examples = list(task.clean(examples, skipped))
        if task.label_map:
            examples = labels.rename(examples, dict(task.label_map))
    _count(notes, "rows skipped", skipped)
    return examples


def _read_test(task: Task, source: Source, split: str, notes: dict[str, int]) -> list[Any]:
    """Reads a test file, with its labels if all its examples have one that training knows."""
    if task.source.test_labelled:
        try:
            found = dict(notes)
            examples = read(task, source, split, found, labelled=True)
            task.check(examples)
            notes.update(found)
            return examples
        except InputError as error:
            logging.warning("%s is predicted, but not scored: %s", source.path, error)
    return read(task, source, split, notes, labelled=False)


def count_problems(task: Task, examples: Sequence[Any], split: str, notes: dict[str, int]) -> None:
    """Counts in `notes` the examples that could not be learned from, and logs the first ones."""
    _count(notes, f"{split} examples with a problem", _problems(task, examples))
    lacking: Counter[str] = Counter()
    if task.labels:
        lacking = Counter(x for e in examples for x in task.classes(e) - set(task.labels))
    if lacking:
        what = f"{split} labels that training lacks, which count as wrong"
        notes[what] = lacking.total()
        shown = [f"{label!r} ({count:,})" for label, count in lacking.most_common()]
        logging.warning("%s: %s", what, listed(shown, _SHOWN))


def _count(notes: dict[str, int], what: str, messages: list[str]) -> None:
    if not messages:
        return
    notes[what] = notes.get(what, 0) + len(messages)
    for message in messages[:_SHOWN]:
        logging.warning("%s: %s", what, message)
    if len(messages) > _SHOWN:
        logging.warning("%s: %d more", what, len(messages) - _SHOWN)


def learnable(task: Task, examples: list[Any], notes: dict[str, int]) -> list[Any]:
    messages = _problems(task, examples)
    _count(notes, "training examples skipped", messages)
    kept = [example for example in examples if not task.problem(example)]
    if not kept:
        raise InputError(f"{messages[0]}; no training example is left.")
    return kept


def _problems(task: Task, examples: Sequence[Any]) -> list[str]:
    """Why examples cannot be learned from, with their places."""
    found = ((example.place, task.problem(example)) for example in examples)
    return [f"{place}: {problem}" for place, problem in found if problem]


def make_features(task: Task, examples: list[Any], tokenizer: Tokenizer) -> Features:
    """Features of examples, with the tokenizer's padding."""
    return dataclasses.replace(task.features(examples, tokenizer), pad_id=tokenizer.pad_id)


def warn_of_unknown(examples: Sequence[Any], found: Features, tokenizer: Tokenizer) -> None:
    """Logs how the vocabulary covers the texts of examples, and warns where it does not."""
    texts = list(map(text_of, examples[:_COVERED]))  # whole, as features are cut
    pieces = tokenizer.tokenize(texts).flat_values.numpy()
    words = sum(len(text.split()) for text in texts)
    unknown = float((pieces == tokenizer.unknown_id).mean()) if len(pieces) else 0.0
    logging.info(
        "%s: %.2f tokens per word, %.2f %% of them unknown.",
        *(file_of(examples[0].place), len(pieces) / max(words, 1), 100 * unknown),
    )
    ids = found["input_word_ids"].values
    coverage.warn_of_unknown(
        tokenizer,
        *(int((ids == tokenizer.unknown_id).sum()), len(ids)),
        map(text_of, examples),
        file_of(examples[0].place),
    )
