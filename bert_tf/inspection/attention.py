"""Attention of the heads of an encoder (Vaswani et al. 2017, section 3.2.2)."""

import gzip

import numpy as np

from bert_tf.models.encoder import BertEncoder
from bert_tf.tasks.numbered import TokenSequence

# What a head may attend to most of the time; otherwise the page says "other".
TRAITS = ("itself", "the token before", "the token after", "the first token", "a separator")
_STEPS = 255


def of_encoder(encoder: BertEncoder, sequence: TokenSequence) -> np.ndarray:
    """The attention of all heads, float32 [layers, heads, length, length].

    The third axis is the token that attends, the fourth the token attended to; rows sum to 1.
    """
    outputs = encoder(sequence.inputs())["attention_probs"]
    found = (layer[0].numpy().astype(np.float32) for layer in outputs)
    return np.stack([_whole(x, len(sequence)) if x.ndim == 4 else x for x in found])


def _whole(blocks: np.ndarray, length: int) -> np.ndarray:
    """The attention [heads, length, length] of a local layer, whose blocks see their neighbours.

    The blocks are [blocks, heads, block, 3 * block].
    """
    count, heads, size, _ = blocks.shape
    found = np.zeros([heads, count * size, (count + 2) * size], np.float32)
    for index, block in enumerate(blocks):
        start = index * size
        found[:, start : start + size, start : start + 3 * size] = block
    return found[:, :length, size : size + length]


def quantized(attention: np.ndarray) -> np.ndarray:
    """Attention as uint8 of the same shape: square roots in 255 steps.

    Roots distinguish small weights, which are the most frequent. The error of a weight w is at most
    sqrt(w) / 255, and 1 / 260,000 near 0.
    """
    return np.rint(np.sqrt(np.clip(attention, 0, 1)) * _STEPS).astype(np.uint8)


def packed(attention: np.ndarray) -> bytes:
    """Quantized attention, gzipped; the same bytes for the same numbers."""
    return gzip.compress(quantized(attention).tobytes(), compresslevel=9, mtime=0)


def traits(attention: np.ndarray, sequence: TokenSequence) -> np.ndarray:
    """The fraction of each head's attention for each of TRAITS, float32 [layers, heads, 5].

    A token with two traits, such as a separator that is the token after, counts for both.
    """
    length = len(sequence)
    separators = sequence.special.copy()
    separators[0] = False
    masks = np.zeros([len(TRAITS), length, length], np.float32)
    masks[0], masks[1], masks[2] = (np.eye(length, k=k) for k in (0, -1, 1))
    masks[3][:, 0] = 1
    masks[4][:, separators] = 1
    return np.einsum("lhij,tij->lht", attention, masks) / np.float32(length)
