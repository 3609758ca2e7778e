"""Perplexity of texts under a left-to-right model."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.objectives.masked_lm import TokenPrediction
from pipelines.common.errors import InputError
from pipelines.common.texts import blocks
from pipelines.tokenizers.base import Tokenizer

_TOKENS = 2048  # at once: there are logits of each
_BLOCK = 1 << 20  # characters that are tokenized at once


class TextScore(NamedTuple):
    """Log-likelihood of texts."""

    texts: int
    tokens: int  # that were predicted
    words: int  # separated by white space
    bytes: int
    nats: float  # negative log-likelihood of all tokens

    @property
    def perplexity(self) -> float:
        """exp of the mean of a token."""
        return math.exp(self.nats / self.tokens)

    @property
    def word_perplexity(self) -> float:
        """exp of the mean of a word, which is comparable between tokenizers."""
        exponent = self.nats / max(1, self.words)
        return math.exp(exponent) if exponent < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Mean of a byte, which is comparable between tokenizers."""
        return self.nats / self.bytes / math.log(2)


def score(
    model: TokenPrediction, tokenizer: Tokenizer, texts: Iterable[str], length: int
) -> TextScore:
    """Scores texts, a block of them at a time; each token is predicted once.

    It is predicted after all of its text that precedes it, or at least half a window. The first
    token of a text follows the token that begins or separates texts.

    Args:
      model: The model.
      tokenizer: Its tokenizer.
      texts: The texts.
      length: Tokens of a window.

    Raises:
      InputError: No text has a token.
    """
    begin = tokenizer.start_id if tokenizer.starts_text else tokenizer.separator_id
    found, rows = TextScore(0, 0, 0, 0, 0.0), max(1, _TOKENS // length)
    for block in blocks(texts, len, _BLOCK):
        ids = [np.array([begin, *row]) for row in tokenizer.tokenize(block).to_list()]
        windows = [window for row in ids for window in _windows(row, length)]
        parts = (windows[first : first + rows] for first in range(0, len(windows), rows))
        scored = [_score_windows(model, part) for part in parts]
        found = TextScore(
            found.texts + len(block),
            found.tokens + sum(tokens for _, tokens in scored),
            found.words + sum(len(text.split()) for text in block),
            found.bytes + sum(len(text.encode()) for text in block),
            found.nats + sum(nats for nats, _ in scored),
        )
    if not found.tokens:
        raise InputError("the texts have no tokens to predict.")
    return found


def _windows(ids: np.ndarray, length: int) -> list[tuple[np.ndarray, int]]:
    """Windows of at most `length` ids, with the number of the first id to predict in each."""
    found, done = [], 1
    while done < len(ids):
        end = length if done == 1 else done + length // 2
        end = min(end, len(ids))
        begin = max(0, end - length)
        found.append((ids[begin:end], done - begin))
        done = end
    return found


def _score_windows(
    model: TokenPrediction, windows: Sequence[tuple[np.ndarray, int]]
) -> tuple[float, int]:
    """The negative log-likelihood of windows, and the number of predictions."""
    size = max(len(ids) for ids, _ in windows)
    ids = np.zeros((len(windows), size), np.int32)
    mask, predicted = np.zeros_like(ids), np.zeros_like(ids)
    for row, (window, first) in enumerate(windows):
        ids[row, : len(window)], mask[row, : len(window)] = window, 1
        predicted[row, first : len(window)] = 1
    logits = model({"input_word_ids": tf.constant(ids), "input_mask": tf.constant(mask)})
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, 1:], logits["masked_lm"][:, :-1])
    return float(np.sum(losses.numpy() * predicted[:, 1:], dtype=np.float64)), int(predicted.sum())
