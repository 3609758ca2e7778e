"""Greedy search and sampling: one sequence for each prompt, token by token."""

from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from bert_tf.generation import scores
from bert_tf.generation.decoder import Decoder
from bert_tf.generation.scores import Prompt
from bert_tf.generation.settings import GenerationSettings


class Search(Protocol):
    """Chooses tokens; every result depends on its own prompt only, whatever is in the batch."""

    def begin(self, prompt: Prompt) -> Any:
        """Reads prompts, and chooses their first tokens; returns a state."""

    def advance(self, state: Any, steps: tf.Tensor | int) -> Any:
        """Chooses further tokens, up to `steps`, until all sequences end."""

    def shapes(self, state: Any) -> Any:
        """The shapes of a state in a loop, with None for axes that change."""

    def tokens(self, state: Any) -> tf.Tensor:
        """The tokens so far, int32 [rows, count]: after the end token, padding."""


class SearchState(NamedTuple):
    """Sequences that are being generated."""

    prompt: Prompt
    tokens: tf.Tensor  # int32 [rows, count]
    finished: tf.Tensor  # bool [rows]
    decoder: Any  # the state of the decoder, which has read all tokens but the last


class SingleSearch(Search):
    """Takes the best token, or samples one.

    Args:
      decoder: The model.
      settings: What is chosen.
      tokens: Number of tokens of the vocabulary; there may be more logits.
      end_id: Token that ends a text.
      pad_id: Token that follows it.
      never: Tokens that are never chosen.
    """

    def __init__(
        self,
        decoder: Decoder,
        settings: GenerationSettings,
        tokens: int,
        end_id: int,
        pad_id: int,
        never: tuple[int, ...] = (),
    ):
        self._decoder, self._settings = decoder, settings
        self._tokens, self._end_id, self._pad_id = tokens, end_id, pad_id
        self._never = never

    def begin(self, prompt: Prompt) -> SearchState:
        rows = tf.shape(prompt.ids)[0]
        logits, state = self._decoder.begin(prompt.ids, prompt.mask)
        tokens, finished = tf.zeros([rows, 0], tf.int32), tf.zeros([rows], tf.bool)
        return self._choose(logits, SearchState(prompt, tokens, finished, state))

    def advance(self, state: SearchState, steps: tf.Tensor | int) -> SearchState:
        first = tf.shape(state.tokens)[1]
        last = tf.minimum(first + steps, self._settings.max_new_tokens)

        def step(state: SearchState) -> tuple[SearchState]:
            logits, inner = self._decoder.step(state.tokens[:, -1], state.decoder)
            return (self._choose(logits, state._replace(decoder=inner)),)

        (state,) = tf.while_loop(
            lambda state: (tf.shape(state.tokens)[1] < last) & ~tf.reduce_all(state.finished),
            step,
            [state],
            shape_invariants=[self.shapes(state)],
            parallel_iterations=1,
        )
        return state

    def shapes(self, state: SearchState) -> Any:
        return SearchState(
            Prompt(*(tf.TensorShape([None, None]) for _ in Prompt._fields)),
            tf.TensorShape([None, None]),
            tf.TensorShape([None]),
            self._decoder.shapes(state.decoder),
        )

    def tokens(self, state: SearchState) -> tf.Tensor:
        return state.tokens

    def _choose(self, logits: tf.Tensor, state: SearchState) -> SearchState:
        """Appends a token, given the logits of the next one."""
        settings = self._settings
        logits = scores.allowed(
            logits[:, : self._tokens],
            state.prompt,
            state.tokens,
            settings,
            self._end_id,
            self._never,
        )
        if settings.temperature:
            count = tf.shape(state.tokens)[1]
            logits = scores.sampled(logits, state.prompt, count, settings)
        chosen = tf.argmax(logits, -1, tf.int32)
        chosen = tf.where(state.finished, self._pad_id, chosen)
        return state._replace(
            tokens=tf.concat([state.tokens, chosen[:, tf.newaxis]], 1),
            finished=state.finished | (chosen == self._end_id),
        )
