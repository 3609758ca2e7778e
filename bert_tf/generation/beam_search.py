"""Beam search with a length penalty, as in transformers, where it is documented as the default.

A sequence that ends is scored by its log-probability divided by its length to the power of
`length_penalty`. The search of a row stops once its best running beam, scored at its current
length, is not better than its worst ended one; with `early_stopping`, once all beams have ended.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.generation.search import Prompt, Search

_WORST = -1e30  # score of what is not there


class BeamState(NamedTuple):
    """Beams that are being extended, and the best that ended, of each prompt."""

    prompt: Prompt  # [rows * beams, length]
    count: tf.Tensor  # int32, tokens generated so far
    running: tf.Tensor  # int32 [rows, beams, max_new_tokens], the best first
    running_scores: tf.Tensor  # float32 [rows, beams], log-probabilities
    ended: tf.Tensor  # int32 [rows, beams, max_new_tokens], the best first
    ended_scores: tf.Tensor  # float32 [rows, beams]
    open: tf.Tensor  # bool [rows], whether running beams can still become the best
    decoder: Any  # the state of the decoder for rows * beams sequences


class BeamSearch(Search):
    """Keeps the most probable beginnings."""

    def begin(self, prompt: Prompt) -> BeamState:
        rows = tf.shape(prompt.ids)[0]
        logits, inner = self._decoder.begin(prompt.ids, prompt.mask)
        # All beams of a row are equal at first; only the first one counts.
        order = tf.repeat(tf.range(rows), self._settings.beams)
        prompt, inner, logits = tf.nest.map_structure(
            lambda x: tf.gather(x, order), (prompt, inner, logits)
        )
        first = tf.range(self._settings.beams) == 0
        scored = tf.broadcast_to(tf.where(first, 0.0, _WORST), [rows, self._settings.beams])
        tokens = tf.fill([rows, self._settings.beams, self._settings.max_new_tokens], self._pad_id)
        worst = tf.fill([rows, self._settings.beams], _WORST)
        state = BeamState(
            prompt, tf.constant(0), tokens, scored, tokens, worst, tf.fill([rows], True), inner
        )
        return self._choose(logits, state)

    def advance(self, state: BeamState, steps: tf.Tensor | int) -> BeamState:
        last = tf.minimum(state.count + steps, self._settings.max_new_tokens)

        def step(state: BeamState) -> BeamState:
            tokens = tf.reshape(state.running[:, :, state.count - 1], [-1])
            logits, inner = self._decoder.step(tokens, state.decoder)
            return self._choose(logits, state._replace(decoder=inner))

        def going(state: BeamState) -> tf.Tensor:
            return (state.count < last) & tf.reduce_any(state.open)

        return self._loop(going, step, state)

    def tokens(self, state: BeamState) -> tf.Tensor:
        """The best ended sequences, or the best running ones where none has ended."""
        has_ended = state.ended_scores[:, 0] > _WORST / 2
        best = tf.where(has_ended[:, tf.newaxis], state.ended[:, 0], state.running[:, 0])
        return best[:, : state.count]

    def _choose(self, logits: tf.Tensor, state: BeamState) -> BeamState:
        """Extends beams by a token, given the logits [rows * beams, vocab_size] of the next."""
        settings = self._settings
        beams, size = settings.beams, settings.max_new_tokens
        rows = tf.shape(state.running)[0]
        flat = tf.reshape(state.running, [-1, size])[:, : state.count]
        logits = self._allowed(tf.nn.log_softmax(logits), state.prompt, flat)
        total = tf.reshape(logits, [rows, beams, -1]) + state.running_scores[:, :, tf.newaxis]
        # Twice as many as beams: as many as beams remain even if the others end.
        top = tf.math.top_k(tf.reshape(total, [rows, -1]), 2 * beams)
        beam, token = top.indices // self._tokens, top.indices % self._tokens
        is_last = tf.range(size) == state.count
        extended = tf.where(
            is_last, token[:, :, tf.newaxis], tf.gather(state.running, beam, batch_dims=1)
        )
        count = state.count + 1
        ends = (token == self._end_id) | (count == size)

        next_scores = tf.where(ends, top.values + _WORST, top.values)
        going = tf.math.top_k(next_scores, beams).indices
        running = tf.gather(extended, going, batch_dims=1)
        running_scores = tf.gather(next_scores, going, batch_dims=1)
        order = tf.range(rows)[:, tf.newaxis] * beams + tf.gather(beam, going, batch_dims=1)
        inner = self._decoder.reordered(state.decoder, tf.reshape(order, [-1]))

        # Only the best `beams` candidates may end, and only while the row is open.
        length = tf.cast(count + self._decoder.forced, tf.float32) ** settings.length_penalty
        may_end = ends & (tf.range(2 * beams) < beams) & state.open[:, tf.newaxis]
        new_scores = tf.where(may_end, top.values / length, _WORST)
        merged = tf.concat([state.ended_scores, new_scores], 1)
        best = tf.math.top_k(merged, beams)
        ended = tf.gather(tf.concat([state.ended, extended], 1), best.indices, batch_dims=1)
        # A row is closed when every place is taken by a better sequence than any to come.
        hopeful = running_scores[:, 0] / length > best.values[:, -1]
        if settings.early_stopping:
            hopeful &= best.values[:, -1] < _WORST / 2  # a place is free
        return BeamState(
            state.prompt,
            count,
            running,
            running_scores,
            ended,
            best.values,
            state.open & hopeful,
            inner,
        )
