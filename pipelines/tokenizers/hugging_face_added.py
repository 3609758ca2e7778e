"""The added tokens that the tokenizer files of a Hugging Face folder name."""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from pipelines.common import json_files
from pipelines.common.errors import InputError

_LISTS = ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens")


class Content(TypedDict):
    """An added token, which may have settings, too."""

    content: str


class AddedToken(Content):
    """An added token with its id."""

    id: int


def is_word(token: str) -> bool:
    """Whether a token is a word of normalized texts: visible, and without white space."""
    removed = ("Cc", "Cf", "Mn")
    visible = any(unicodedata.category(c) not in removed and c != "\ufffd" for c in token)
    return visible and token.split() == [token]


def numbered(decoder: Mapping[str, Content] | None, place: str) -> Iterable[AddedToken]:
    """The tokens of the field added_tokens_decoder, whose keys are ids.

    Raises:
      InputError: A key is not an id; `place` is the path of the file.
    """
    for key, each in (decoder or {}).items():
        if not key.isdecimal():
            raise InputError(
                f"{place}: added_tokens_decoder has the key {key!r}; ids are whole numbers from 0."
            )
        yield {"id": int(key), **each}


def special(values: Mapping[str, Any], place: str) -> Iterable[Content]:
    """The special tokens that a file names without ids, in addition to those of a role.

    Raises:
      InputError: They are not tokens; `place` is the path of the file.
    """
    for key in _LISTS:
        stated = values.get(key) or []
        tokens: list[str | Content] = json_files.check(
            list(stated.values()) if isinstance(stated, dict) else stated,
            list[str | Content],
            f"{place}: {key}",
        )
        for each in tokens:
            yield {"content": each} if isinstance(each, str) else each
