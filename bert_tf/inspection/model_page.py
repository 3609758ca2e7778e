"""The data of a page about a model that reads a text."""

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from absl import logging

from bert_tf import tasks
from bert_tf.export import saved_model, sources
from bert_tf.export.sources import ModelSource
from bert_tf.inspection import attention, tokens
from bert_tf.inspection.attribution import Attribution, Attributor
from bert_tf.inspection.masked_guesses import MaskedGuess, MaskedGuesser
from bert_tf.inspection.pages import PageData, rounded
from bert_tf.inspection.settings import InspectionSettings
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.tasks.base import Task
from bert_tf.tasks.inspection import InspectedAnswer, Reader, cut_notes
from bert_tf.tasks.model import TaskModel, TaskObjective
from bert_tf.tasks.numbered import NumberedTokenizer, TokenSequence
from pipelines.common.errors import InputError
from pipelines.common.texts import label
from pipelines.tokenizers.base import Tokenizer

Progress = Callable[[Iterable[Any]], Iterable[Any]]


def inspect(
    model: str,
    texts: Sequence[str],
    settings: InspectionSettings,
    task_name: str | None = None,
    progress: Progress = iter,
) -> PageData:
    """Inspects how a model reads a text, a pair, or the inputs of its task.

    Args:
      model: path of the model, in any format that `bert_tf.load` reads.
      texts: the first text, and those that belong to it: the second text of a pair, the context of
        a question, or choices.
      settings: the settings.
      task_name: name of the task; None: the only task of the model.
      progress: wraps long loops, to show progress.

    Raises:
      InputError: the model cannot be read, has no such task, or takes other texts.
    """
    if saved_model.is_export(model):
        raise InputError(
            f"{model}: is an export, which does not show its layers. Name the folder of the model "
            "that it was made of."
        )
    source = sources.read(model)
    config = source.bundle.config
    if not isinstance(config, BertConfig):
        raise InputError(f"{model}: is an {config.title}, which has no attention to inspect.")
    tokenizer = source.bundle.tokenizer()
    inspected = _with_task(source, tokenizer, texts, task_name, settings)
    if inspected is None:
        inspected = _without_task(source, tokenizer, texts)
    encoder, sequence, texts, answer = inspected
    found = attention.of_encoder(encoder, sequence)
    packed = attention.packed(found)
    values = {
        "model": {
            "name": label(source.folder.rstrip("/").rsplit("/", 1)[-1]),
            "layers": config.num_hidden_layers,
            "heads": config.num_attention_heads,
            "width": config.hidden_size,
            "vocabulary": len(tokenizer.vocabulary),
            "family": config.model_type,
            "causal": config.causal,
        },
        "texts": [{"text": t, "rtl": tokens.is_right_to_left(t)} for t in texts],
        "tokens": tokens.describe(tokenizer, sequence, texts),
        "attention": {
            "traits": list(attention.TRAITS),
            "shares": rounded(attention.traits(found, sequence), 3),
            "packed_bytes": len(packed),
        },
        "guesses": _guesses(source, encoder, sequence, settings, progress),
        "answer": answer,
    }
    return PageData(values, {"attention": packed})


class _Inspected(NamedTuple):
    """The encoder, the sequence that it reads with its texts, and the answer as JSON values."""

    encoder: BertEncoder
    sequence: TokenSequence
    texts: Sequence[str]
    answer: dict[str, Any] | None


def _without_task(source: ModelSource, tokenizer: Tokenizer, texts: Sequence[str]) -> _Inspected:
    """One or two texts as a sequence.

    Raises:
      InputError: there are more texts, or the model has no second segment.
    """
    if len(texts) > 2:
        raise InputError(
            f"{source.folder}: has no task that chooses among texts; give --second= once."
        )
    config = source.bundle.config
    config.check_segments(tokenizer.types(len(texts)), source.folder)
    sequence = tokens.pack(tokenizer, texts, config.max_seq_length, masks=source.guesses_words)
    for note in cut_notes(config.max_seq_length, sequence):
        logging.warning(note)
    return _Inspected(source.bundle.encoder(), sequence, texts, None)


def _with_task(
    source: ModelSource,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    task_name: str | None,
    settings: InspectionSettings,
) -> _Inspected | None:
    """The sequence and the answer of a task; None if the model, or the shape, shows none.

    Raises:
      InputError: the model has no such task or no second segment, or the task takes other texts.
    """
    bundle, numbered = source.bundle, NumberedTokenizer(tokenizer)
    if not (bundle.tasks or task_name):
        pairs = bundle.next_sentence() if len(texts) == 2 else None
        if pairs is None:
            return None
        bundle = pairs
        if source.guesses_words:
            numbered = tokens.MaskTokenizer(tokenizer)
    task = tasks.load(bundle.task(task_name), bundle.config.max_seq_length)
    inspection = _inspection_of(task)
    if inspection is None:
        return None
    bundle.config.check_segments(tokenizer.types(task.segments), source.folder)
    model = bundle.task_model([task])

    objective = TaskObjective(model, task)

    def results(sequence: TokenSequence) -> Any:
        logits = model(sequence.inputs())[task.name].numpy()
        return objective.results(logits, [logits.shape[1]])[0]

    answer = inspection.inspect(task, texts, Reader(numbered, results))
    described = _described_answer(answer, task, model, tokenizer.pad_id, settings)
    return _Inspected(model.encoder, answer.sequence, answer.texts, described)


def _inspection_of(task: Task) -> ModuleType | None:
    """The module that inspects tasks of a shape; None if the shape has none."""
    package = tasks.shapes()[task.shape].package
    name = f"{package}.inspection"
    return importlib.import_module(name) if package and importlib.util.find_spec(name) else None


def _described_answer(
    answer: InspectedAnswer, task: Task, model: TaskModel, pad_id: int, settings: InspectionSettings
) -> dict[str, Any]:
    """The answer and its attributions as JSON values."""
    steps, head = settings.attribution_steps, model.heads.of[task.name]
    attributor = Attributor(model.encoder, head, pad_id, steps, settings.batch_tokens)
    attributed = attributor.attribute(answer.sequence, [target.score for target in answer.targets])
    return {
        "task": task.name,
        "kind": task.kind,
        "shape": task.shape,
        "text": answer.text,
        "rows": [{"name": row["name"], "share": rounded(row["share"])} for row in answer.rows],
        "tags": [tag | {"share": rounded(tag["share"])} for tag in answer.tags],
        "span": answer.span,
        "notes": answer.notes,
        "measure": answer.measure,
        "steps": steps,
        "targets": [
            {"name": target.name} | _described_attribution(one)
            for target, one in zip(answer.targets, attributed, strict=True)
        ],
    }


def _described_attribution(attribution: Attribution) -> dict[str, Any]:
    return {
        "tokens": rounded(attribution.tokens, 4),
        "sum": rounded(float(attribution.tokens.sum()), 6),
        "output": rounded(attribution.output, 6),
        "baseline": rounded(attribution.baseline, 6),
        "error": rounded(attribution.error, 3),
    }


def _guesses(
    source: ModelSource,
    encoder: BertEncoder,
    sequence: TokenSequence,
    settings: InspectionSettings,
    progress: Progress,
) -> dict[str, Any] | None:
    """Predictions for masked tokens as JSON values; None if the model makes none."""
    if not source.guesses_words:
        return None
    guesser = MaskedGuesser(source, encoder)
    found = guesser.guess(sequence, settings.guesses, settings.batch_tokens, progress)
    bits = [guess.surprise for guess in found if guess.surprise is not None]
    mean = sum(bits) / len(bits) if bits else None
    return {
        "masked": bool(found) and not bits,
        "mean_bits": rounded(mean),
        "pseudo_perplexity": None if mean is None else rounded(math.pow(2, min(mean, 1000))),
        "tokens": [_described_guess(guess) for guess in found],
    }


def _described_guess(guess: MaskedGuess) -> dict[str, Any]:
    return {
        "position": guess.position,
        "original": guess.original,
        "probability": rounded(guess.probability),
        "bits": rounded(guess.surprise),
        "guesses": [[text, rounded(probability)] for text, probability in guess.guesses],
    }
