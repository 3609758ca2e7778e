"""Detects the format of a corpus file by its beginning, and bytes of another encoding."""

import codecs
import itertools
import re

from pipelines.common import compressed, json_files, texts
from pipelines.common.errors import InputError
from pipelines.corpus import sentences

SAMPLE_BYTES = 1 << 18  # of a file
# The beginning of a line of JSON that a sample may cut off.
_BEGINS_OBJECT = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:')
_BEGINS_JSON = re.compile(rf"(?:\[\s*)?{_BEGINS_OBJECT.pattern}")  # perhaps in a list
_PARAGRAPH_CHARACTERS = 150
_BEGINS_ARTICLE = re.compile('<doc id=".*>')


def format_of(head: bytes, path: str) -> str:
    """Detects the format of a file from its first 256 KiB.

    Raises:
      InputError: it is a table, or JSON that has not an object per line.
    """
    if compressed.ending_unpacked(path) in (".csv", ".tsv"):
        raise InputError(
            f"{path}: is a table; write its texts as JSON Lines or plain text, or give "
            "--format=sentences to read each line as it is."
        )
    if head.startswith(b"WARC/"):
        return "wet"
    lines = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace").split("\n")
    # The last line is cut off; it is left out unless it is most of what there is.
    if len(head) == SAMPLE_BYTES and 2 * len(lines[-1].encode()) < SAMPLE_BYTES:
        lines.pop()
    stripped = [line.strip() for line in lines]
    filled = [line for line in stripped if line]
    is_cut = len(head) == SAMPLE_BYTES and len(filled) == 1
    if filled and (_BEGINS_OBJECT.match(filled[0]) if is_cut else _is_json_object(filled[0])):
        return "jsonl"
    if filled and _BEGINS_ARTICLE.fullmatch(filled[0]):
        return "wikiextractor"
    if _BEGINS_JSON.match("".join(filled[:3])):
        raise InputError(
            f"{path}: is JSON, but not an object per line; write one per line (jq -c '.[]' for a "
            "list), or give --format=sentences to read each line as it is."
        )
    return "prose" if filled and _looks_like_prose(stripped, filled) else "sentences"


def _looks_like_prose(stripped: list[str], filled: list[str]) -> bool:
    """Returns whether lines are wrapped (continue in lower case) or are paragraphs of sentences."""
    pairs = [(a, b) for a, b in itertools.pairwise(stripped) if a and b]
    wrapped = sum(b[0].islower() and a[-1] not in ".!?" for a, b in pairs)
    if wrapped > 0.2 * max(len(pairs), 10):
        return True
    several = sum(len(sentences.split_sentences(line)) > 1 for line in filled) / len(filled)
    # In between, paragraphs are recognized by blank lines around them, or by their length.
    are_apart = len(pairs) < 0.2 * len(filled)
    are_long = sum(map(len, filled)) > _PARAGRAPH_CHARACTERS * len(filled)
    return several > 0.6 or (several > 0.3 and (are_apart or are_long))


def _is_json_object(line: str) -> bool:
    try:
        return isinstance(json_files.parse(line, "", finite=False), dict)
    except InputError:
        return False


def remedy_of(data: bytes) -> str:
    """What to do about bytes that are not UTF-8: among letters that are, they are damaged."""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(text) - bad - sum(map(text.count, map(chr, range(128))))
    replace = "read such bytes as U+FFFD with --utf8_errors=replace"
    if good > 2 * bad:
        return f"{good:,} other letters near it are, so it is damaged: {replace}"
    return f"{texts.TO_UTF8}; or, if a few bytes are damaged, {replace}"
