"""Greedy search and sampling: one sequence for each prompt, token by token."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.generation import scores
from bert_tf.generation.decoder import Decoder
from bert_tf.generation.scores import Prompt
from bert_tf.generation.settings import GenerationSettings


class Search(abc.ABC):
    """Chooses tokens; every result depends on its own prompt only, whatever is in the batch.

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

    @abc.abstractmethod
    def begin(self, prompt: Prompt) -> Any:
        """Reads prompts, and chooses their first tokens; returns a state."""

    @abc.abstractmethod
    def advance(self, state: Any, steps: tf.Tensor | int) -> Any:
        """Chooses further tokens, up to `steps`, until all sequences end."""

    @abc.abstractmethod
    def tokens(self, state: Any) -> tf.Tensor:
        """The tokens so far, int32 [rows, count]: after the end token, padding."""

    def _loop(
        self, going: Callable[[Any], tf.Tensor], step: Callable[[Any], Any], state: Any
    ) -> Any:
        """The state after steps for as long as it is `going`."""
        (state,) = tf.while_loop(
            going,
            lambda state: (step(state),),
            [state],
            shape_invariants=[tf.nest.map_structure(of_any_size, state)],
            parallel_iterations=1,
        )
        return state

    def _allowed(self, logits: tf.Tensor, prompt: Prompt, tokens: tf.Tensor) -> tf.Tensor:
        """The scores [rows, tokens] with minus infinity where a token may not come next."""
        if not self._decoder.continues:  # results may repeat what is in their sources
            prompt = Prompt(prompt.ids[:, :0], prompt.mask[:, :0])
        found = scores.allowed(
            logits[:, : self._tokens], prompt, tokens, self._settings, self._end_id, self._never
        )
        if self._decoder.continues:
            return found
        # A result that reaches the limit ends there, as BART's `forced_eos_token_id` has it.
        is_last = tf.shape(tokens)[1] == self._settings.max_new_tokens - 1
        forced = tf.one_hot(self._end_id, self._tokens, 0.0, found.dtype.min)
        return tf.where(is_last, forced[tf.newaxis], found)


class SearchState(NamedTuple):
    """Sequences that are being generated."""

    prompt: Prompt
    tokens: tf.Tensor  # int32 [rows, count]
    finished: tf.Tensor  # bool [rows]
    decoder: Any  # the state of the decoder, which has read all tokens but the last


class SingleSearch(Search):
    """Takes the best token, or samples one."""

    def begin(self, prompt: Prompt) -> SearchState:
        rows = tf.shape(prompt.ids)[0]
        logits, state = self._decoder.begin(prompt.ids, prompt.mask)
        tokens, finished = tf.zeros([rows, 0], tf.int32), tf.zeros([rows], tf.bool)
        return self._choose(logits, SearchState(prompt, tokens, finished, state))

    def advance(self, state: SearchState, steps: tf.Tensor | int) -> SearchState:
        first = tf.shape(state.tokens)[1]
        last = tf.minimum(first + steps, self._settings.max_new_tokens)

        def step(state: SearchState) -> SearchState:
            logits, inner = self._decoder.step(state.tokens[:, -1], state.decoder)
            return self._choose(logits, state._replace(decoder=inner))

        def going(state: SearchState) -> tf.Tensor:
            return (tf.shape(state.tokens)[1] < last) & ~tf.reduce_all(state.finished)

        return self._loop(going, step, state)

    def tokens(self, state: SearchState) -> tf.Tensor:
        return state.tokens

    def _choose(self, logits: tf.Tensor, state: SearchState) -> SearchState:
        """Appends a token, given the logits of the next one."""
        settings = self._settings
        logits = self._allowed(logits, state.prompt, state.tokens)
        if settings.temperature:
            count = tf.shape(state.tokens)[1]
            logits = scores.sampled(logits, state.prompt, count, settings)
        chosen = tf.argmax(logits, -1, tf.int32)
        chosen = tf.where(state.finished, self._pad_id, chosen)
        return state._replace(
            tokens=tf.concat([state.tokens, chosen[:, tf.newaxis]], 1),
            finished=state.finished | (chosen == self._end_id),
        )


def of_any_size(x: tf.Tensor) -> tf.TensorShape:
    """The shape of a tensor of a state in a loop, in which each axis may change."""
    return tf.TensorShape([None] * x.shape.rank)
