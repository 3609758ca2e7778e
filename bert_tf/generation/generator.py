"""Generates texts: from strings to strings, in a graph or as a stream."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.generation.beam_search import BeamSearch
from bert_tf.generation.decoder import Decoder
from bert_tf.generation.search import Prompt, Search, SingleSearch, of_any_size
from bert_tf.generation.settings import GenerationSettings
from bert_tf.models import fused_ops
from pipelines.common.errors import InputError
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

_CHUNK = 4  # tokens between two parts of a stream


class TextGenerator(tf.Module):
    """Writes texts with a model: what continues prompts, or what their sources become.

    Args:
      decoder: The model.
      tokenizer: Its tokenizer.
      max_seq_length: Maximum number of tokens of a sequence of the model.
      settings: How tokens are chosen.
      max_source: Maximum number of tokens of a source; None: `max_seq_length`.

    Raises:
      InputError: The model has no room for `max_new_tokens` after one token.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer,
        max_seq_length: int,
        settings: GenerationSettings,
        max_source: int | None = None,
    ):
        super().__init__(name="generator")
        settings.check()
        self._first = [tokenizer.start_id] if tokenizer.starts_text else []
        self._continues = decoder.continues
        room = max_seq_length - settings.max_new_tokens
        self._max_prompt = room if decoder.continues else max_source or max_seq_length
        if room < (1 + len(self._first) if decoder.continues else 1):
            together = "prompt and result have {} tokens together"
            what = together if decoder.continues else "a result has {} tokens, the start token too"
            raise InputError(
                f"--max_new_tokens={settings.max_new_tokens} is too large: "
                f"{what.format(max_seq_length)}."
            )
        self.tokenizer, self.settings = tokenizer, settings
        tokens, end = len(tokenizer.vocabulary), tokenizer.separator_id
        never = frozenset(tokenizer.special_ids) - {end}
        kind = BeamSearch if settings.beams > 1 else SingleSearch
        self._search: Search = kind(
            decoder, settings, tokens, end, tokenizer.pad_id, tuple(sorted(never))
        )

    def prompt_ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of prompts, int32 [batch, (tokens)]; of long ones, the last tokens.

        Where texts of pre-training begin with the start token, prompts do, too. An empty prompt is
        the token between two texts. Sources are whole sequences; of long ones, the first tokens.
        """
        ids = self.tokenizer.functions.tokenize(texts)
        if not self._continues:
            return packing.pack(self.tokenizer, ids, None, self._max_prompt).word_ids
        ids = ids[:, -(self._max_prompt - len(self._first)) :]
        begin = tf.constant([self._first or [self.tokenizer.separator_id]], tf.int32)
        begin = tf.RaggedTensor.from_tensor(tf.tile(begin, [ids.nrows(), 1]))
        if not self._first:
            begin = tf.ragged.boolean_mask(begin, ids.row_lengths()[:, tf.newaxis] == 0)
        return tf.concat([begin, ids], 1)

    def generate_ids(self, ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Continues prompts; of long ones, the last tokens, of long sources, the first.

        Args:
          ids: int32 [batch, length], padded anywhere.
          mask: int32 [batch, length], 1 for tokens, 0 for padding.

        Returns:
          The new tokens, int32 [batch, max_new_tokens], padded after the end token.
        """
        search = self._search
        if not self._continues:
            ids, mask = ids[:, : self._max_prompt], mask[:, : self._max_prompt]
        prompt = Prompt(*(x[:, -self._max_prompt :] for x in padded_left(ids, mask)))
        with fused_ops.inference():
            state = search.advance(search.begin(prompt), self.settings.max_new_tokens)
        found = search.tokens(state)
        rest = self.settings.max_new_tokens - tf.shape(found)[1]
        found = tf.pad(found, [[0, 0], [0, rest]], constant_values=self.tokenizer.pad_id)
        return tf.ensure_shape(found, [None, self.settings.max_new_tokens])

    def texts(self, tokens: tf.Tensor) -> tf.Tensor:
        """The texts of new tokens up to the end token, string [batch].

        They follow the prompts; those of sources have no white space at their ends.
        """
        vocabulary, tokenizer = self.tokenizer.vocabulary, self.tokenizer
        ended = tf.cumsum(tf.cast(tokens == tokenizer.separator_id, tf.int32), axis=1) > 0
        pieces = tf.where(ended, "", tf.gather(tf.constant(self._table), tokens))
        joined = tf.strings.reduce_join(pieces, 1)
        if prefix := vocabulary.continuation_prefix:  # words end with it
            joined = tf.strings.regex_replace(tf.strings.join([prefix, joined]), r" +$", "")
        if not self._continues:
            joined = tf.strings.strip(joined)
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8")

    @functools.cached_property
    def _table(self) -> np.ndarray:
        """The bytes that each token adds to a text, none for special tokens."""
        vocabulary, special = self.tokenizer.vocabulary, frozenset(self.tokenizer.special_ids)
        found = [
            b"" if number in special else vocabulary.continuation(token)
            for number, token in enumerate(vocabulary.tokens)
        ]
        return np.array(found, object)

    def generate(self, texts: Sequence[str]) -> list[str]:
        """Writes texts: what follows each, or what each becomes."""
        if not len(texts):
            return []
        prompt = self.prompt_ids(tf.constant(list(texts), tf.string))
        found = self._generate(prompt.to_tensor(), tf.ones_like(prompt).to_tensor())
        return [text.decode() for text in self.texts(found).numpy()]

    def stream(self, text: str | bytes) -> Iterator[str]:
        """Yields the text of `generate` for one prompt in parts.

        Raises:
          InputError: Beam search decides on a text only at its end.
        """
        if self.settings.beams > 1:
            raise InputError("beams: a stream needs a search without beams; leave them out.")
        ids = self.prompt_ids(tf.constant([text])).to_tensor()
        state, shown = self._begin(ids), ""
        while True:
            found = self._search.tokens(state)
            complete = bool(state.finished[0]) or found.shape[1] >= self.settings.max_new_tokens
            whole = self._texts(found).numpy()[0].decode()
            # The bytes of a character may arrive in two parts.
            ready = whole if complete else whole.rstrip("\ufffd")
            if len(ready) > len(shown):
                yield ready[len(shown) :]
                shown = ready
            if complete:
                return
            state = self._advance(state)

    @functools.cached_property
    def _generate(self) -> Any:
        specs = [tf.TensorSpec([None, None], tf.int32)] * 2
        return tf.function(self.generate_ids, specs, autograph=False)

    @functools.cached_property
    def _texts(self) -> Any:
        specs = [tf.TensorSpec([None, None], tf.int32)]
        return tf.function(self.texts, specs, autograph=False)

    @functools.cached_property
    def _begin(self) -> Any:
        def begin(ids: tf.Tensor) -> Any:
            with fused_ops.inference():
                return self._search.begin(Prompt(ids, tf.ones_like(ids)))

        return tf.function(begin, [tf.TensorSpec([1, None], tf.int32)], autograph=False)

    @functools.cached_property
    def _advance(self) -> Any:
        def advance(state: Any) -> Any:
            with fused_ops.inference():
                return self._search.advance(state, _CHUNK)

        state = self._begin.get_concrete_function().structured_outputs
        specs = tf.nest.map_structure(lambda x: tf.TensorSpec(of_any_size(x), x.dtype), state)
        return tf.function(advance, [specs], autograph=False)


def padded_left(ids: tf.Tensor, mask: tf.Tensor) -> Prompt:
    """Moves the tokens of each row to its end, in their order."""
    order = tf.argsort(mask, stable=True)
    return Prompt(*(tf.gather(x, order, batch_dims=1) for x in (ids, mask)))
