"""Greedy search and sampling: one sequence for each prompt, token by token."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.generation.decoder import Decoder
from bert_tf.generation.settings import GenerationSettings


class Prompt(NamedTuple):
    """Beginnings of sequences, padded on the left."""

    ids: tf.Tensor  # int32 [rows, length]
    mask: tf.Tensor  # int32 [rows, length], 1 for tokens, 0 for padding


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

    def _allowed(self, scores: tf.Tensor, prompt: Prompt, tokens: tf.Tensor) -> tf.Tensor:
        """Scores float32 [rows, tokens], the lowest where a token may not come next.

        Args:
          scores: float32 [rows, vocab_size].
          prompt: The prompts.
          tokens: int32 [rows, count], the tokens generated so far.
        """
        settings, lowest = self._settings, scores.dtype.min
        numbers, count = tf.range(self._tokens), tf.shape(tokens)[1]
        scores = scores[:, : self._tokens]
        if self._never:
            never = tf.reduce_any(numbers[:, tf.newaxis] == self._never, 1)
            scores = tf.where(never, lowest, scores)
        if settings.min_new_tokens:
            early = (numbers == self._end_id) & (count < settings.min_new_tokens)
            scores = tf.where(early, lowest, scores)
        if settings.unique_ngram:
            ids, mask = tokens, tf.ones_like(tokens)
            if self._decoder.continues:  # else a result may repeat what is in its source
                ids = tf.concat([prompt.ids, ids], 1)
                mask = tf.concat([prompt.mask, mask], 1)
            repeats = _repeats(ids, mask, settings.unique_ngram, self._tokens)
            scores = tf.where(repeats, lowest, scores)
        if self._decoder.continues:
            return scores
        # A result that reaches the limit ends there, as BART's `forced_eos_token_id` has it.
        forced = tf.one_hot(self._end_id, self._tokens, 0.0, lowest)
        return tf.where(count == settings.max_new_tokens - 1, forced[tf.newaxis], scores)


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
            logits = sampled(logits, state.prompt, count, settings)
        chosen = tf.argmax(logits, -1, tf.int32)
        chosen = tf.where(state.finished, self._pad_id, chosen)
        return state._replace(
            tokens=tf.concat([state.tokens, chosen[:, tf.newaxis]], 1),
            finished=state.finished | (chosen == self._end_id),
        )


def _repeats(ids: tf.Tensor, mask: tf.Tensor, size: int, vocab_size: int) -> tf.Tensor:
    """Whether a token would complete an n-gram that occurred before, bool [rows, vocab_size]."""
    # With as much padding as an n-gram, there is a last one and one before it.
    ids, mask = (tf.pad(x, [[0, 0], [size, 0]]) for x in (ids, mask))
    length = tf.shape(ids)[1]
    windows = length - size + 1
    same = mask[:, :windows] > 0  # padding is on the left: if the first place is a token, all are
    for offset in range(size - 1):
        begun = ids[:, windows + offset][:, tf.newaxis]
        same &= ids[:, offset : offset + windows] == begun
    last = ids[:, size - 1 :]
    same &= last < vocab_size  # prompts may have tokens that are never chosen
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, tf.newaxis], tf.shape(last))
    places = tf.boolean_mask(tf.stack([rows, last], -1), same)
    shape = tf.stack([tf.shape(ids)[0], vocab_size])
    return tf.scatter_nd(places, tf.ones(tf.shape(places)[:1], tf.int32), shape) > 0


def sampled(
    scores: tf.Tensor, prompt: Prompt, count: tf.Tensor, settings: GenerationSettings
) -> tf.Tensor:
    """Scores whose maximum is a sample, among the `top_k` and `top_p` most probable tokens.

    The random numbers follow from the seed, the row's own prompt and the number of tokens before.

    Args:
      scores: float32 logits [rows, vocab_size].
      prompt: The prompts.
      count: int32, number of tokens generated so far.
      settings: `temperature`, `top_k`, `top_p` and `seed`.
    """
    lowest = scores.dtype.min
    scores /= settings.temperature
    if settings.top_k:
        top = tf.math.top_k(scores, tf.minimum(settings.top_k, tf.shape(scores)[1])).values
        scores = tf.where(scores < top[:, -1:], lowest, scores)
    if settings.top_p < 1:
        ordered = tf.sort(scores, -1, "DESCENDING")
        before = tf.cumsum(tf.nn.softmax(ordered), -1, exclusive=True)
        kept = tf.where(before < settings.top_p, ordered, scores.dtype.max)
        scores = tf.where(scores < tf.reduce_min(kept, -1, keepdims=True), lowest, scores)
    # The seed of a row is a hash of the seed and the tokens of its prompt.
    mask = tf.cast(prompt.mask, tf.int32)
    place = tf.cumsum(mask, axis=1)
    mixed = (prompt.ids + 0x3C6EF372) * (2 * place + 0x5851F42D)  # wraps
    seeds = tf.reduce_sum(mixed * mask, 1) ^ settings.seed
    shape = tf.shape(scores)[1:]

    def noise(seed: tf.Tensor) -> tf.Tensor:
        uniform = tf.random.stateless_uniform(shape, tf.stack([seed, count]), 1e-30, 1.0)
        return -tf.math.log(-tf.math.log(uniform))  # Gumbel noise: the maximum is a sample

    return scores + tf.map_fn(noise, seeds, fn_output_signature=tf.float32)


def of_any_size(x: tf.Tensor) -> tf.TensorShape:
    """The shape of a tensor of a state in a loop, in which each axis may change."""
    return tf.TensorShape([None] * x.shape.rank)
