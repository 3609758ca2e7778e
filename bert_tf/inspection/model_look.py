"""What there is to see in a model that reads a text: the numbers of its page."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bert_tf import tasks
from bert_tf.export import saved_model, sources
from bert_tf.export.sources import ModelSource
from bert_tf.inspection import attention, token_labels
from bert_tf.inspection.answers import registry
from bert_tf.inspection.attribution import Attribution, Attributor
from bert_tf.inspection.look import Look, rounded
from bert_tf.inspection.masked_guesses import MaskedGuess, MaskedGuesser
from bert_tf.inspection.sequences import TokenizedTexts, TokenSequence
from bert_tf.inspection.settings import InspectionSettings
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from pipelines.common.errors import InputError
from pipelines.common.texts import label
from pipelines.tokenizers.base import Tokenizer

Progress = Callable[[Iterable[Any]], Iterable[Any]]


def look(
    model: str,
    texts: Sequence[str],
    settings: InspectionSettings,
    task_name: str | None = None,
    progress: Progress = iter,
) -> Look:
    """Looks at how a model reads a text, a pair, or what else its task takes.

    Args:
      model: its path, in any format that `bert_tf.load` reads.
      texts: the first, and what stands behind it.
      settings: how.
      task_name: which of several tasks of the model.
      progress: wraps what takes long, to show how far it is.

    Raises:
      InputError: the model cannot be read, has no such task, or takes other texts.
    """
    if saved_model.is_export(model):
        raise InputError(
            f"{model}: is an export, which does not tell what goes on in it. Name the folder of "
            "the model that it was made of."
        )
    source = sources.read(model)
    config = source.bundle.config
    if not isinstance(config, BertConfig):
        raise InputError(f"{model}: is an {config.title}, which has no attention to look at.")
    tokenizer = source.bundle.tokenizer()
    if source.bundle.tasks or task_name:
        answered = _Answered(source, tokenizer, texts, task_name)
        encoder, sequence = answered.model.encoder, answered.answer.sequence
        texts = answered.answer.texts
        answer = answered.described(settings)
    else:
        encoder, answer = source.bundle.encoder(), None
        sequence = _sequence(source, tokenizer, texts)
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
        "texts": [{"text": t, "rtl": token_labels.is_right_to_left(t)} for t in texts],
        "tokens": token_labels.describe(tokenizer, sequence, texts),
        "attention": {
            "traits": list(attention.TRAITS),
            "shares": rounded(attention.traits(found, sequence), 3),
            "packed_bytes": len(packed),
        },
        "guesses": _guesses(source, encoder, sequence, settings, progress),
        "answer": answer,
    }
    return Look(values, {"attention": packed})


def _sequence(source: ModelSource, tokenizer: Tokenizer, texts: Sequence[str]) -> TokenSequence:
    """The texts as a model without a task gets them.

    Raises:
      InputError: there are more than two, or the model has no second segment.
    """
    if len(texts) > 2:
        raise InputError(
            f"{source.folder}: has no task that chooses among texts; give --text_b= once."
        )
    config = source.bundle.config
    config.check_segments(tokenizer.vocabulary.types(len(texts)), source.folder)
    tokenized = TokenizedTexts(tokenizer, texts, masks=source.guesses_words)
    return tokenized.pack(config.max_length)


class _Answered:
    """A model with a task, and its answer.

    Args:
      source: of the model.
      tokenizer: of the model.
      texts: that it is asked.
      task_name: which of several tasks.
    """

    def __init__(
        self, source: ModelSource, tokenizer: Tokenizer, texts: Sequence[str], task_name: str | None
    ):
        bundle = source.bundle
        longest = bundle.config.max_length
        self.task = tasks.load(bundle.task(task_name), longest)
        types = tokenizer.vocabulary.types(self.task.segments)
        bundle.config.check_segments(types, source.folder)
        self.model = bundle.task_model([self.task])
        self._pad_id = tokenizer.pad_id
        self.answer = registry.answer(self.task, texts, tokenizer, self._logits)

    def _logits(self, sequence: TokenSequence) -> np.ndarray:
        """Float32 logits of the task's head for one sequence, [units] or [length, units]."""
        return self.model(sequence.inputs())[self.task.name][0].numpy()

    def described(self, settings: InspectionSettings) -> dict[str, Any]:
        """The answer and its attributions as JSON values."""
        answer = self.answer
        attributor = Attributor(
            self.model.encoder,
            self.model.heads.of[self.task.name],
            self._pad_id,
            settings.attribution_steps,
            settings.batch_tokens,
        )
        scores = [target.score for target in answer.targets]
        attributed = attributor.attribute(answer.sequence, scores)
        return {
            "task": self.task.name,
            "kind": self.task.kind,
            "shape": self.task.shape,
            "text": answer.text,
            "rows": [{"name": row["name"], "share": rounded(row["share"])} for row in answer.rows],
            "tags": [tag | {"share": rounded(tag["share"])} for tag in answer.tags],
            "span": answer.span,
            "notes": answer.notes,
            "measure": answer.measure,
            "steps": settings.attribution_steps,
            "targets": [
                {"name": target.name} | _described(one)
                for target, one in zip(answer.targets, attributed, strict=True)
            ],
        }


def _described(attribution: Attribution) -> dict[str, Any]:
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
    """Guesses for masked tokens as JSON values; None of a model that makes none."""
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
        "tokens": [_guess_described(guess) for guess in found],
    }


def _guess_described(guess: MaskedGuess) -> dict[str, Any]:
    return {
        "position": guess.position,
        "original": guess.original,
        "probability": rounded(guess.probability),
        "bits": rounded(guess.surprise),
        "guesses": [[text, rounded(share)] for text, share in guess.guesses],
    }
