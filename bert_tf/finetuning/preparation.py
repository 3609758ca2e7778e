"""What fine-tuning reads and computes before it trains: models, data, and their identity."""

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.finetuning import freezing, task_data, teaching
from bert_tf.finetuning.freezing import Frozen
from bert_tf.finetuning.settings import FineTuningSettings
from bert_tf.finetuning.task_data import TaskData
from bert_tf.finetuning.teaching import Teacher
from bert_tf.models.base_config import EncoderConfig
from bert_tf.training import distribution
from bert_tf.training.settings import StrategyName
from bert_tf.weights import Bundle, formats, named_models, own
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled import tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """What was read and computed before training; it serves any rate, batch size or duration."""

    settings: FineTuningSettings
    config: EncoderConfig
    bundle: Bundle
    data: list[TaskData]
    strategy: tf.distribute.Strategy
    unlabelled: Sequence[TaskData] = ()  # more training data of the task, with a teacher's logits
    taught_by: Bundle | None = None
    teacher: Teacher | None = None  # which has been asked for its logits


def stamp(settings: FineTuningSettings) -> str:
    """A checksum of the settings, and of size and date of all files that are read.

    While it is the same, so is the run, and a finished one need not read its data to know it.

    Raises:
      InputError: a model or data are not there.
    """
    read: list[str] = []
    for model in filter(None, (settings.init, settings.teacher)):
        place = formats.find(model)
        formats.detect(place)  # a model that is not there is noticed before the data are looked for
        folder = place if files.gfile.isdir(place) else os.path.dirname(place) or "."
        above = os.path.dirname(folder) or "."
        if files.gfile.exists(f"{above}/modules.json"):
            folder = above
        found = files.matching(folder, "*")  # and what is in folders of sentence-transformers
        read += [*found, *(file for place in found for file in files.matching(place, "*"))]
    read += [path for request in settings.tasks for path in task_data.files_of(request)]
    read += tables.files_of(settings.unlabelled) if settings.unlabelled else []
    known: list[Any] = [
        (path, *files.size_and_date(path)) for path in read if files.gfile.exists(path)
    ]
    if not all(modified for _, _, modified in known):
        known.append(time.time_ns())  # storage without dates: never the same
    text = json.dumps([json_files.as_json(dataclasses.asdict(settings)), known])
    return hashlib.sha256(text.encode()).hexdigest()


def prepare(
    settings: FineTuningSettings, cache: str, searches: bool = False, only_identity: bool = False
) -> PreparedRun:
    """Reads the models and the data, and computes what training reads of them.

    Args:
      settings: what to train.
      cache: folder for the outputs of a frozen encoder.
      searches: whether trials are compared by their scores on dev.
      only_identity: leaves out what takes long, for a run that may be finished.

    Raises:
      InputError: the model, the data and the settings do not fit.
    """
    name = StrategyName.ONE_DEVICE if only_identity else settings.strategy
    strategy = distribution.make_strategy(name)
    distribution.check_batch(settings.batch_size, settings.accumulation, strategy)
    if isinstance(strategy, tf.distribute.TPUStrategy):
        settings = dataclasses.replace(settings, fixed_length=True)
        if any(tasks.make(request.kind).generation for request in settings.tasks):
            raise InputError("texts are not written on TPUs; fine-tune for them on GPUs or a CPU.")
    settings = dataclasses.replace(settings, init=named_models.pinned(settings.init))
    # Before the weights, which take longer.
    examples = [task_data.read_examples(request, settings) for request in settings.tasks]
    bundle = weights.read(settings.init)
    tokenizer = bundle.tokenizer()
    data = [task_data.convert(each, tokenizer) for each in examples]
    known = list(map(tasks.load, bundle.tasks))
    for index, item in enumerate(data):
        task = item.task.begin_with(known)
        if task != item.task:
            task.check(item.train.examples)  # again: a sigmoid asks for scores from 0 to 1
            data[index] = dataclasses.replace(item, task=task)
    _check_dev(settings, data, searches)
    if settings.batch_size < least_batch(settings, data, strategy):
        raise InputError(
            f"a batch of {settings.batch_size}: one row is computed at once "
            f"({counted(strategy.num_replicas_in_sync, 'device')}, "
            f"--accumulation={settings.accumulation}), but the loss compares rows with each other; "
            "choose a larger batch, or fewer parts."
        )
    config = _config(bundle, settings, data)
    frozen = Frozen.parse(settings.freeze, config).whole
    if config.causal and not frozen:
        data = [_in_both_orders(item) for item in data]
    if frozen:
        if settings.teacher:
            raise InputError("--teacher: is not for a frozen encoder (--freeze=all).")
        if other := next((item.task for item in data if not item.task.own_head), None):
            why = "leaves nothing to train for a head without weights"
            if other.head.dense_width:
                why = f"the dense layer of {other.name} is not trained alone; leave a layer out"
            raise InputError(f"--freeze=all: {why}.")
        if not only_identity:
            data = freezing.with_outputs(data, bundle, cache)
    more: list[TaskData] = []
    if settings.unlabelled:
        source = task_data.source_of(settings.tasks[0], settings.unlabelled, "train")
        more = [teaching.unlabelled(data[0], source, tokenizer)]
    teacher, taught_by = None, weights.read(settings.teacher) if settings.teacher else None
    if taught_by and not only_identity:
        teacher = Teacher(taught_by, data[0], tokenizer, strategy)
        data, more = [teacher.teach(data[0])], list(map(teacher.teach, more))
    return PreparedRun(
        settings=settings,
        config=config,
        bundle=bundle,
        data=data,
        strategy=strategy,
        unlabelled=more,
        taught_by=taught_by,
        teacher=teacher,
    )


def _in_both_orders(data: TaskData) -> TaskData:
    """A model that reads from left to right compares two texts in both orders."""
    task = data.task
    if not getattr(task, "symmetric", False):
        return data
    head = dataclasses.replace(task.head, both_orders=True)
    return dataclasses.replace(data, task=dataclasses.replace(task, head=head))


def _check_dev(settings: FineTuningSettings, data: list[TaskData], searches: bool) -> None:
    """Raises InputError where there is something to choose on dev data, and no such data."""
    if any(item.dev for item in data):
        return
    if searches or len(settings.learning_rates) > 1 or settings.patience:
        raise InputError(
            f"{settings.tasks[0].name}: a learning rate, or when to stop, is chosen on dev data, "
            "and there is none; name some (--dev), or give one --learning_rate and no --patience "
            "or --search_minutes."
        )


def least_batch(
    settings: FineTuningSettings, data: list[TaskData], strategy: tf.distribute.Strategy
) -> int:
    """The smallest batch whose parts, which are computed at once, have the rows of all losses."""
    parts = settings.accumulation * strategy.num_replicas_in_sync
    return parts * max(getattr(item.task, "least_rows", 1) for item in data)


def _config(bundle: Bundle, settings: FineTuningSettings, data: list[TaskData]) -> EncoderConfig:
    """The configuration to train, which must fit the tasks."""
    config = bundle.config
    for item in data:
        types = bundle.require_vocabulary().types(item.task.segments, bundle.resolved_settings())
        config.check_segments(types, item.task.name)
        if item.task.max_seq_length > config.max_seq_length:
            raise InputError(
                f"{item.task.name}: sequences of {item.task.max_seq_length} tokens exceed the "
                f"model's {config.max_seq_length} positions; set --max_seq_length."
            )
        widest = max(getattr(item.task, "dimensions", ()), default=0)
        width = item.task.units or config.hidden_size
        if widest > width:
            raise InputError(f"--dimensions={widest}: vectors have {width}.")
        if item.task.generation and item.task.generation.max_new_tokens >= config.max_seq_length:
            raise InputError(
                f"{item.task.name}: targets of {item.task.generation.max_new_tokens + 1} tokens "
                f"exceed the model's {config.max_seq_length} positions; set --max_target_length."
            )
    config = config if settings.dropout is None else config.with_dropout(settings.dropout)
    rates = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    alone = [item.task.name for item in data if getattr(item.task, "needs_dropout", False)]
    if alone and not any(getattr(config, name, 0) for name in rates):
        raise InputError(
            f"{alone[0]}: texts without a pair are learned from under two dropouts, and the model "
            "has none; set --dropout=0.1, or give pairs."
        )
    return config


def identity(prepared: PreparedRun, settings: FineTuningSettings) -> dict[str, Any]:
    """All that decides the weights; a run can be resumed if it is the same."""
    values = settings.identity()
    for name in ("tasks", "init", "teacher", "unlabelled"):  # their contents are compared
        del values[name]
    teacher, unlabelled = prepared.taught_by, settings.unlabelled
    return {
        "search": False,
        "settings": values,
        "init": own.identity(prepared.bundle),
        "teacher": own.identity(teacher) if teacher else None,
        "unlabelled_sha256": tables.sha256(unlabelled) if unlabelled else None,
        "tasks": [
            {
                "kind": request.kind,
                "name": request.name,
                **request.layout(),
                "inputs": found.inputs,
                "labels": list(found.task.labels),  # a file beside the data may name them
            }
            for request, found in zip(settings.tasks, prepared.data, strict=True)
        ],
    }
