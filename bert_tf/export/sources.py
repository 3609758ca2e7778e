"""Models to export: their folders and tasks."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import keras
from absl import logging

from bert_tf import tasks, weights
from bert_tf.generation.settings import GenerationSettings
from bert_tf.tasks import JOINT, Task, embedding
from bert_tf.weights.bundle import (
    MASKED_LM,
    NEXT_SENTENCE,
    POOLER,
    REPLACED_TOKEN,
    SENTENCE_ORDER,
    Bundle,
)
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer

_FINETUNED = "savedmodels/finetuned"
_PRETRAINED = "savedmodels/pretrained"
_REPORT = "report.json"


class _Report(TypedDict):
    """The fields of a report that a model card shows."""

    metrics: NotRequired[dict[str, Any]]
    seed: NotRequired[int]
    data: NotRequired[dict[str, Any]]
    examples: NotRequired[dict[str, dict[str, int]]]


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model in a folder.

    Attributes:
      folder: its path.
      bundle: its configuration, weights and vocabulary.
      task: the task to export, with the name of its signature; None: a pre-trained model.
      head: name of the task's head in the folder.
      scores: on dev, of its weights ("dev") and, with several seeds, the median ("dev_median").
      data: description of the data in the report, by task; "" stands for pre-training.
      guesses_words: whether it can fill in masks.
      generation: how it continues texts; None: it cannot.
      has_pooler: whether it has a trained pooler.
      pretrained: whether its task is one of pre-training, for which nobody has labelled data.
      shared: equal for models that may share an encoder; None: those with the same weights.
    """

    folder: str
    bundle: Bundle
    task: Task | None = None
    head: str = ""
    scores: Mapping[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    data: Mapping[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    guesses_words: bool = False
    generation: GenerationSettings | None = None
    has_pooler: bool = False
    shared: str | None = None
    pretrained: bool = False

    @property
    def max_seq_length(self) -> int:
        """Length of the sequences that it was pre-trained on, if known; else that of the model."""
        known = self.data.get("", {}).get("max_seq_length", self.bundle.config.max_seq_length)
        return min(known, self.bundle.config.max_seq_length)

    def encoder_key(self) -> str:
        """A key that is equal for models that may share an encoder."""
        return self.shared or self.bundle.encoder_sha256()

    def tokenizer_key(self) -> str:
        """A key that is equal for models that may share a tokenizer."""
        settings = [self.bundle.require_vocabulary().sha256, self.bundle.resolved_settings()]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def of_bundle(
    bundle: Bundle,
    folder: str,
    scores: Mapping[str, dict[str, Any]] | None = None,
    data: Mapping[str, dict[str, Any]] | None = None,
) -> ModelSource:
    """A model without its tasks; the arguments are attributes of `ModelSource`."""
    # Only predictions about pairs train the pooler; a left-to-right model predicts the next word.
    of_tokens = bundle.has(MASKED_LM) or bundle.has(REPLACED_TOKEN) or bundle.generates
    untrained = of_tokens and not (bundle.has(NEXT_SENTENCE) or bundle.has(SENTENCE_ORDER))
    source = ModelSource(
        folder,
        bundle,
        scores=scores or {},
        data=data or {},
        guesses_words=bundle.has(MASKED_LM) and not bundle.config.causal,
        has_pooler=bundle.has(POOLER) and not untrained,
    )
    if not bundle.generates:
        return source
    default = GenerationSettings()
    # At least half of a sequence is for the prompt.
    size = min(default.max_new_tokens, source.max_seq_length // 2)
    return dataclasses.replace(source, generation=dataclasses.replace(default, max_new_tokens=size))


def of_model(
    model: keras.Model, tokenizer: Tokenizer, folder: str, data: dict[str, Any]
) -> ModelSource:
    """A pre-trained model in memory.

    Args:
      model: encoder and pre-training heads.
      tokenizer: its tokenizer.
      folder: for messages, and for its name in the manifest.
      data: description of its training data.
    """
    arrays = {variable.path: variable.numpy() for variable in model.variables}
    bundle = Bundle(model.config, arrays, tokenizer.vocabulary, tokenizer.settings)
    return of_bundle(bundle, folder, data={"": data})


def find(entries: Sequence[str]) -> list[ModelSource]:
    """Reads models by name.

    Args:
      entries: `task`, in `savedmodels/finetuned/` (or `pretrained`, in
        `savedmodels/pretrained`), or `task=folder`. The folder of tasks that were
        trained jointly stands for all of them. Empty: all models in these folders.

    Raises:
      InputError: a folder is missing or does not have the task, or two models have one name.
    """
    entries = [entry.strip() for entry in entries if entry.strip()] or _all_entries()
    sources = [source for entry in entries for source in _read(*_parse(entry))]
    names = [source.task.name if source.task else "pretrained" for source in sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        remedy = "one export can have one pre-trained model."
        if twice[0] != "pretrained":
            remedy = f"give one of them another name, such as {twice[0]}2=folder."
        raise InputError(f"{twice[0]} is to be exported twice; {remedy}")
    return sources


def _all_entries() -> list[str]:
    found = []
    if files.gfile.isdir(_FINETUNED):
        names = files.names_in(_FINETUNED)
        found = [n for n in names if files.gfile.exists(f"{_FINETUNED}/{n}/{weights.own.CONFIG}")]
    if files.gfile.exists(f"{_PRETRAINED}/{weights.own.CONFIG}"):
        found.append("pretrained")
    if not found:
        raise InputError(
            "there is nothing to export: fine-tune a task first (bert-tf finetune), or name "
            "folders (TASKS='task=folder')."
        )
    return found


def _parse(entry: str) -> tuple[str, str]:
    """The name and the folder of an entry."""
    name, separator, folder = entry.partition("=")
    if separator and not (name and folder):
        missing = "folder" if name else "task"
        raise InputError(f"{entry!r} does not name a {missing}; write task=folder.")
    for part in name.split(JOINT):
        weights.own.check_task_name(part, f"--tasks={entry}")
    if separator:
        return name, folder.rstrip("/")
    known = f"{_FINETUNED}/{name}"
    if name == "pretrained" and not files.gfile.isdir(known):
        known = _PRETRAINED
    if not files.gfile.isdir(known):
        raise InputError(
            f"{known}: no such folder; fine-tune it (bert-tf finetune --task={name}), or name its "
            f"folder (TASKS='{name}=folder')."
        )
    return name, known


def read(folder: str) -> ModelSource:
    """Reads the model of a folder, without its tasks.

    Raises:
      InputError: it has no vocabulary, or one with more tokens than its embeddings.
    """
    bundle = weights.read(folder)
    bundle.resolved_settings()  # names a missing setting
    report = f"{folder}/{_REPORT}"
    exists = files.gfile.exists(report)
    found = json_files.read(report, _Report, finite=False) if exists else _Report()
    data, sizes = found.get("data", {}), found.get("examples")
    described = {"": data} if data else {}
    if sizes is not None:
        described = {task: {**data, "examples": counts} for task, counts in sizes.items()}
    metrics = found.get("metrics", {})
    by_seed, scores = metrics.get("by_seed", {}), {}
    if (seed := str(found.get("seed"))) in by_seed:
        scores = {"dev": by_seed[seed]}
        if len(by_seed) > 1:
            scores["dev_median"] = metrics["median"]
    return of_bundle(bundle, folder, scores, described)


def of_folder(folder: str) -> list[ModelSource]:
    """The model of a folder once for each of its tasks, or as a pre-trained model.

    Raises:
      InputError: see `find`.
    """
    heads = [task["name"] for task in weights.read(folder).tasks]
    return _read(JOINT.join(heads) if heads else "pretrained", folder)


def _read(name: str, folder: str) -> list[ModelSource]:
    """The model of a folder, once for each of its tasks that the name stands for."""
    source = read(folder)
    heads = [task["name"] for task in source.bundle.tasks]
    # A model of vectors can be exported for its other outputs, too.
    only_vectors = all(task["shape"] == embedding.SHAPE.name for task in source.bundle.tasks)
    if not heads or (name == "pretrained" and only_vectors):
        if name != "pretrained":
            raise InputError(
                f"{folder}: has no task; export it as the pre-trained model: pretrained={folder}."
            )
        pairs = source.bundle.next_sentence()
        if pairs is None:
            return [source]
        of_pairs = dataclasses.replace(
            source, bundle=pairs, guesses_words=False, generation=None, pretrained=True
        )
        return [source, _with_task(of_pairs, "next_sentence", "next_sentence")]
    if name == JOINT.join(heads):
        names = {head: head for head in heads}
    elif name in heads or len(heads) == 1:
        names = {name if name in heads else heads[0]: name}
    else:
        raise InputError(
            f"{folder}: has the tasks {', '.join(heads)}, not {name}; name one of them, such as "
            f"{heads[0]}={folder}."
        )
    return [_with_task(source, head, name) for head, name in names.items()]


def _with_task(source: ModelSource, head: str, name: str) -> ModelSource:
    """The model with one of its tasks, under another name."""
    bundle = source.bundle
    task = tasks.load({**bundle.task(head), "name": name}, bundle.config.max_seq_length)
    pooled = task.reads_pooled and bundle.config.pooler_act is not None
    if pooled and not bundle.has(POOLER):
        raise InputError(f"{source.folder}: has no pooler, which the task {name} needs.")
    if getattr(task, "pair", False) is None:
        logging.warning(
            "%s: it is unknown whether %s is for pairs; single texts are exported. For pairs "
            "convert the model first, with --kind=%s.",
            source.folder,
            name,
            "stsb" if task.shape == "regression" else "pair",
        )
        task = task.restore(task.describe() | {"pair": False})
    types = bundle.require_vocabulary().types(task.segments, bundle.resolved_settings())
    bundle.config.check_segments(types, f"{source.folder}, task {name}")
    scores = source.scores
    if len(bundle.tasks) > 1:
        own = f"{head}/"
        scores = {
            what: {k.removeprefix(own): v for k, v in values.items() if k.startswith(own)}
            for what, values in scores.items()
        }
    return dataclasses.replace(source, task=task, head=head, scores=scores)
