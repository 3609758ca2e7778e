"""Scores of the next token: what is allowed, and random choice."""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.generation.settings import GenerationSettings


class Prompt(NamedTuple):
    """Beginnings of sequences, padded on the left."""

    ids: tf.Tensor  # int32 [rows, length]
    mask: tf.Tensor  # int32 [rows, length], 1 for tokens, 0 for padding


def allowed(
    scores: tf.Tensor,
    prompt: Prompt,
    tokens: tf.Tensor,
    settings: GenerationSettings,
    end_id: int,
    never: tuple[int, ...] = (),
) -> tf.Tensor:
    """Scores [rows, vocab_size], with minus infinity for tokens that may not come next.

    Args:
      scores: float32 [rows, vocab_size].
      prompt: The prompts.
      tokens: int32 [rows, count], the tokens generated so far.
      settings: `min_new_tokens` and `unique_ngram`.
      end_id: The end token.
      never: Tokens that are never allowed.
    """
    lowest = scores.dtype.min
    if never:
        forbidden = tf.reduce_any(tf.range(tf.shape(scores)[1])[:, tf.newaxis] == never, 1)
        scores = tf.where(forbidden, lowest, scores)
    if settings.min_new_tokens:
        is_end = tf.range(tf.shape(scores)[1]) == end_id
        early = tf.shape(tokens)[1] < settings.min_new_tokens
        scores = tf.where(is_end & early, lowest, scores)
    size = settings.unique_ngram
    if size:
        ids = tf.concat([prompt.ids, tokens], 1)
        mask = tf.pad(prompt.mask, [[0, 0], [0, tf.shape(tokens)[1]]], constant_values=1)
        scores = tf.where(_repeats(ids, mask, size, tf.shape(scores)[1]), lowest, scores)
    return scores


def _repeats(ids: tf.Tensor, mask: tf.Tensor, size: int, vocab_size: tf.Tensor) -> tf.Tensor:
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
    shape = tf.shape(scores)[1:]

    def noise(seed: tf.Tensor) -> tf.Tensor:
        uniform = tf.random.stateless_uniform(shape, tf.stack([seed, count]), 1e-30, 1.0)
        return -tf.math.log(-tf.math.log(uniform))  # Gumbel noise: the maximum is a sample

    return scores + tf.map_fn(noise, _seeds(prompt, settings.seed), tf.float32)


def _seeds(prompt: Prompt, seed: int) -> tf.Tensor:
    """A seed for each row, int32 [rows]: a hash of the seed and the tokens of the prompt."""
    mask = tf.cast(prompt.mask, tf.int32)
    place = tf.cumsum(mask, axis=1)
    mixed = (prompt.ids + 0x3C6EF372) * (2 * place + 0x5851F42D)  # wraps
    return tf.reduce_sum(mixed * mask, 1) ^ seed
