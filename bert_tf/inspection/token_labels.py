"""How tokens are called on a page: by what stands in the text."""

import unicodedata
from collections.abc import Sequence
from typing import Any

from bert_tf.inspection.sequences import TokenSequence
from pipelines.tokenizers.base import Tokenizer


def describe(
    tokenizer: Tokenizer, sequence: TokenSequence, texts: Sequence[str]
) -> list[dict[str, Any]]:
    """The tokens of a sequence as JSON values.

    Args:
      tokenizer: of the model.
      sequence: the tokens.
      texts: that they stand in.

    Returns:
      For each token: `label`, what it stands for in the text; its own text where several stand for
      one place, and bytes in hexadecimal where it is a part of a character; `token` as the
      vocabulary has it; `id`; `segment`; `special`; `begins`, whether it begins a word; `unknown`;
      of tokens of texts `bytes` and `characters`, where each begins and ends.
    """
    encoded = [text.encode() for text in texts]

    def place_of(at: int) -> tuple[int, int]:
        return int(sequence.starts[at]), int(sequence.ends[at])

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
            data, places = encoded[segment], place_of(at)
            spelled = tokenizer.vocabulary.bytes_of(token)
            # Its place is that of all characters that it has a byte of.
            if spelled.decode(errors="ignore").encode() != spelled:
                described["label"] = spelled.removeprefix(b" ").hex(" ").upper()
            elif places in (place_of(at - 1), place_of(at + 1)):  # pieces of one character
                described["label"] = _alone(tokenizer, token)
            else:
                described["label"] = _label(data[slice(*places)], token)
            described["bytes"] = list(places)
            described["characters"] = [len(data[:place].decode()) for place in places]
        found.append(described)
    return found


def _label(data: bytes, token: str) -> str:
    """What bytes of a text are shown as."""
    text = data.decode()
    return text if text.strip() and text.isprintable() else token


def _alone(tokenizer: Tokenizer, token: str) -> str:
    """The text of a piece without what marks it as one."""
    vocabulary = tokenizer.vocabulary
    before = vocabulary.roles["start"]
    text = vocabulary.text([before, token])[len(before) :].strip()
    return text if text.isprintable() else token


def is_right_to_left(text: str) -> bool:
    """Whether a text runs from right to left: its first letter does."""
    directions = (unicodedata.bidirectional(character) for character in text)
    return next((d for d in directions if d in ("L", "R", "AL")), "L") != "L"
