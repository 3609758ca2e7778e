"""Tokens of texts with masks, and the labels of tokens on a page."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.tasks.numbered import NumberedTokenizer, TokenSequence
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

# White space in the sense of `SequenceForm.mask_takes_space`.
_SPACE = r"[\t\n\f\r ]*"


def pack(
    tokenizer: Tokenizer, texts: Sequence[str], max_seq_length: int, masks: bool = False
) -> TokenSequence:
    """The sequence of one or two texts, cut to a maximum length.

    Args:
      tokenizer: the tokenizer of the model.
      texts: one or two.
      max_seq_length: maximum number of tokens.
      masks: whether the tokenizer's mask in a text is a mask, or else ordinary text.
    """
    numbered = MaskTokenizer(tokenizer) if masks else NumberedTokenizer(tokenizer)
    found = [numbered.tokenize([text]) for text in texts]
    packed = packing.pack(numbered, found[0], found[1] if len(texts) > 1 else None, max_seq_length)
    return numbered.sequence(packed.word_ids[0].numpy(), packed.type_ids[0].numpy())


class MaskTokenizer(NumberedTokenizer):
    """Numbers the pieces of texts in which the tokenizer's mask is a mask."""

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        given = tf.convert_to_tensor(texts, tf.string).numpy()
        return tf.concat([_with_masks(self, text.decode()) for text in given], 0)


def _with_masks(numbered: NumberedTokenizer, text: str) -> tf.RaggedTensor:
    """The numbers of the pieces of a text and of its masks, split as `fill_mask` splits it."""
    tokenizer = numbered.wrapped
    space = _SPACE if tokenizer.vocabulary.form.mask_takes_space else ""
    masks = list(re.finditer(f"{space}({re.escape(tokenizer.mask_token)})", text))
    bounds = [0, *(bound for mask in masks for bound in mask.span()), len(text)]
    parts = list(zip(bounds[::2], bounds[1::2], strict=True))
    pieces = tokenizer.tokenize_with_begins([text[start:end] for start, end in parts])
    columns: list[list[np.ndarray]] = [[], [], [], []]
    for row, (start, _) in enumerate(parts):
        ids, starts, ends, begins = (values[row].numpy() for values in pieces)
        origin = len(text[:start].encode())
        found = [ids, starts + origin, ends + origin, begins]
        if row < len(masks):
            place = (len(text[:at].encode()) for at in masks[row].span(1))
            mask = (tokenizer.mask_id, *place, True)
            found = [np.append(values, one) for values, one in zip(found, mask, strict=True)]
        for column, values in zip(columns, found, strict=True):
            column.append(values)
    whole = [np.concatenate(column) for column in columns]
    return numbered.add(
        *(tf.RaggedTensor.from_row_splits(values, [0, len(values)]) for values in whole)
    )


def describe(
    tokenizer: Tokenizer, sequence: TokenSequence, texts: Sequence[str]
) -> list[dict[str, Any]]:
    """The tokens of a sequence as JSON values.

    Args:
      tokenizer: the tokenizer of the model.
      sequence: the tokens.
      texts: their texts.

    Returns:
      For each token: `label`, its part of the text (its own text if several tokens are of one part,
      bytes in hexadecimal if it is a part of a character); `token`, as in the vocabulary; `id`;
      `segment`; `special`; `begins`, whether it begins a word; `unknown`; for tokens of texts
      `bytes` and `characters`, its first byte or character and the one after its last.
    """
    encoded = [text.encode() for text in texts]
    places = list(zip(map(int, sequence.starts), map(int, sequence.ends), strict=True))
    found = []
    for at in range(len(sequence)):
        token_id, segment = int(sequence.ids[at]), int(sequence.segments[at])
        token = tokenizer.vocabulary.tokens[token_id]
        described = {
            "label": token,
            "token": token,
            "id": token_id,
            "segment": segment,
            "special": bool(sequence.special[at]),
            "begins": bool(sequence.begins[at]),
            "unknown": token_id == tokenizer.unknown_id,
        }
        if not sequence.special[at]:
            data, place = encoded[segment], places[at]
            # The first or the last one may be of a text: GPT-2 puts no special tokens around it.
            beside = (*places[max(at - 1, 0) : at], *places[at + 1 : at + 2])
            spelled = tokenizer.vocabulary.bytes_of(token)
            # The place of a token is that of all characters that it has a byte of.
            if spelled.decode(errors="ignore").encode() != spelled:
                described["label"] = spelled.removeprefix(b" ").hex(" ").upper()
            elif place in beside:  # pieces of one character
                described["label"] = _own_text(tokenizer, token)
            else:
                described["label"] = _shown(data[slice(*place)], token)
            described["bytes"] = list(place)
            described["characters"] = [len(data[:end].decode()) for end in place]
        found.append(described)
    return found


def _shown(data: bytes, token: str) -> str:
    """Bytes of a text as text; the token if they cannot be seen."""
    text = data.decode()
    return text if text.strip() and text.isprintable() else token


def _own_text(tokenizer: Tokenizer, token: str) -> str:
    """The text of a piece without the mark of a piece."""
    vocabulary = tokenizer.vocabulary
    before = vocabulary.roles["start"]
    text = vocabulary.text([before, token])[len(before) :].strip()
    return text if text.isprintable() else token


def is_right_to_left(text: str) -> bool:
    """Whether the first letter of a text is of a script that runs from right to left."""
    directions = (unicodedata.bidirectional(character) for character in text)
    return next((d for d in directions if d in ("L", "R", "AL")), "L") != "L"
