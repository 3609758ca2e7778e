"""Token ids of long texts, from a table of the words met so far.

The same few words make up most of a text. A compiled loop splits texts into words and looks them
up; only words that the table lacks go through the operations of the tokenizer, many at a time.

A word is a separator, or a run of bytes between white space and separators, as it stands in the
text, before any normalization. Separators are all that the loop knows of a tokenizer: characters at
which a text can be cut without changing the ids of either side. For byte-level BPE, words are those
of GPT-2 instead (`byte_bpe_words`), which contain white space.
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.tokenizers.base import Ids
from pipelines.tokenizers.byte_bpe_words import EDGE, LETTER, SPACE

_MAX_WORDS = 1 << 19  # with more, the table begins anew
_SLOTS = 1 << 20
_OCCURRENCES = 1 << 18  # are numbered at a time
_LONGEST = 64  # bytes; longer words are rare and are not remembered
_NUL, _NO_CHARACTER = 0, 255  # end texts; the second, no byte of UTF-8, those that have NUL
_TEXT_END = 0  # the number of the empty word at the end of a text
# Kinds of bytes. Some leads begin separators; those after them always end a word.
_INNER, _LEAD, _WHITE, _LAST, _SEPARATOR = range(5)
_FILL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, as of Fibonacci hashing
_ZERO, _ONE, _SEVEN, _EIGHT = map(np.uint64, (0, 1, 7, 8))
# Eight bytes as one number, of which the first is the lowest; its highest bit marks a byte.
_ONES = np.uint64(0x0101010101010101)
_MARKS, _LOW, _SPACES = (_ONES * np.uint64(byte) for byte in (0x80, 0x7F, 0x20))
_FROM_0, _AFTER_9, _FROM_A, _AFTER_Z = (_ONES * np.uint64(0x80 - byte) for byte in b"0:a{")
_FIRST, _SECOND = np.uint64(0x80), np.uint64(0x8000)
_NONE, _NO_SEPARATORS = np.zeros(0, np.uint8), np.zeros(0x10000, bool)
_APOSTROPHE, _S, _T, _M, _D, _R, _E, _V, _L = b"'stmdrevl"


class WordCache:
    """Remembers the ids of words.

    Args:
      tokenize: returns the ids of words, which are UTF-8.
      separators: returns the characters before and after which a text can be cut, bool [0x10000].
      characters: those of `byte_bpe_words.kinds_of_characters`, for the words of GPT-2;
        empty: white space and separators divide texts into words.
    """

    def __init__(
        self,
        tokenize: Callable[[list[bytes]], Ids],
        separators: Callable[[str], np.ndarray] = lambda _: _NO_SEPARATORS,
        characters: np.ndarray = _NONE,
    ):
        self._tokenize, self._separators, self._characters = tokenize, separators, characters
        self._until_nul = characters.copy()
        self._until_nul[:1] = EDGE
        self._lock = threading.Lock()  # Beam's workers have threads
        self._found = np.empty(_OCCURRENCES, np.int32)
        self._bounds = np.empty((2, _MAX_WORDS), np.int64)
        self._rests = np.zeros((_MAX_WORDS, _LONGEST // 8 - 2), np.uint64)
        self._forget()

    def _forget(self) -> None:
        # Of a word: its first 16 bytes, its number, and 8 bytes so that no row is in two lines of
        # the processor's cache.
        self._slots = np.zeros((_SLOTS, 4), np.uint64)
        self._ids, self._splits = np.zeros(0, np.int32), np.zeros(2, np.int64)

    def ids(self, texts: Sequence[str]) -> Ids:
        """Returns the ids of texts."""
        with self._lock:
            return self._ids_of(texts)

    def _ids_of(self, texts: Sequence[str]) -> Ids:
        # One encoding of all texts takes half the time of one of each.
        joined = "\0".join([*texts, "\0" * _LONGEST])
        data, separators = joined.encode(), self._separators(joined)
        end, characters = _NUL, self._until_nul
        if np.count_nonzero(np.frombuffer(data, np.uint8) == _NUL) != len(texts) + _LONGEST:
            end, characters = _NO_CHARACTER, self._characters
            data = bytes([end]).join([*map(str.encode, texts), bytes([end] * _LONGEST)])
        size = len(data) - _LONGEST
        array = np.frombuffer(data, np.uint8)[:size]
        # The eight bytes from each byte on, as one number.
        eights = np.ndarray(size + _LONGEST - 7, np.uint64, data, strides=(1,))
        kinds = _kinds(separators, end)
        found, position, total = [(np.zeros(0, np.int32), np.zeros(1, np.int64))], 0, 0
        while position < size:
            known = len(self._splits) - 1
            position, count, words = _find(
                *(array, eights, position, kinds, separators, characters),
                *(self._slots, self._rests, known, self._bounds, self._found),
            )
            if words > known:
                bounds = self._bounds[:, known:words].tolist()
                try:
                    more, ends = self._tokenize([data[a:b] for a, b in zip(*bounds, strict=True)])
                except BaseException:
                    self._forget()  # the words have numbers already
                    raise
                self._splits = np.concatenate([self._splits, ends[1:] + len(self._ids)])
                self._ids = np.concatenate([self._ids, more])
            ids, ends = _expand(self._found[:count], self._splits, self._ids)
            found.append((ids, ends + total))
            total += len(ids)
            if words == _MAX_WORDS:
                self._forget()
        ids, splits = map(np.concatenate, zip(*found, strict=True))
        return ids, splits


def _kinds(separators: np.ndarray, end: int) -> np.ndarray:
    """Returns the kind of each byte, uint8 [256]; `end` follows a text."""
    kinds = np.full(256, _INNER, np.uint8)
    kinds[:128][separators[:128]] = _SEPARATOR
    kinds[[*b" \t\n\r"]] = _WHITE
    kinds[0xC0:0xE0][separators[:0x800].reshape(32, -1).any(1)] = _LEAD
    kinds[0xC0:0xC2] = _INNER  # they lead to ASCII, which has a byte of its own
    kinds[0xE0:0xF0][separators.reshape(16, -1).any(1)] = _LEAD
    kinds[end] = _LAST
    return kinds


@compiled
def _find(
    data, eights, position, kinds, separators, characters, slots, rests, known, bounds, found
):
    """Numbers the words from a position on, until the texts end or a table is full.

    Returns the next position, how many words were found, and how many are known now.
    """
    # Cutting 512 words first, so that accesses of memory overlap, was tried: 0.95 of the speed.
    count, size_of_data, mask = 0, np.uint64(len(data)), np.uint64(len(slots) - 1)
    position = np.uint64(position)  # an index without a sign is not checked for one
    while position < size_of_data and count < len(found) and known < len(rests):
        start, eight = position, eights[position]
        # Nine of ten words are a sign, or up to seven letters before a sign or white space. Their
        # length, which a processor cannot foresee, decides no branch. 1.3 times as fast.
        others = _others(eight)
        is_sign = others & _FIRST != _ZERO
        after = max(others & ~others + _ONE, _SECOND)  # marks the byte after the word
        inner = after - _ONE >> _SEVEN  # the bytes of the word are 0xFF
        length = (inner & _ONES) * _ONES >> np.uint64(56)
        kind = kinds[data[position + length - np.uint64(is_sign)]]
        if others and kind > _LEAD + 2 * is_sign and not len(characters):
            first, second, size = eight | ~inner, _FILL, np.int64(length)
            other = eight ^ _SPACES  # 0 where there is a space; one after the word goes with it
            position += length + np.uint64(((other & _LOW) + _LOW | other) & after == _ZERO)
        else:
            if len(characters):
                position = _end_of_spaced_word(data, position, characters)
            else:
                position = _end_of_word(data, position, kinds, separators)
            if position == start:
                kind = kinds[data[position]]
                position += _ONE
                if kind == _WHITE:
                    continue
                if kind == _LAST:
                    found[count] = _TEXT_END
                    count += 1
                    continue
            size = np.int64(position - start)
            first, second = _key(eights, start, size), _key(eights, start + _EIGHT, size - 8)
        mixed = _mix(first * _FACTOR ^ second)
        for part in range(2, (min(size, _LONGEST) + 7) // 8):
            mixed = _mix(mixed ^ _key(eights, start + np.uint64(8 * part), size - 8 * part))
        slot = mixed & mask
        word = np.int64(slots[slot, 2])
        while word and not (
            slots[slot, 0] == first
            and slots[slot, 1] == second
            # A shorter word has filling in its first two parts.
            and (size < 16 or _same_rest(eights, start, size, rests[word]))
        ):
            slot = (slot + _ONE) & mask
            word = np.int64(slots[slot, 2])
        if word == 0 or size > _LONGEST:
            word = known
            known += 1
            bounds[0, word], bounds[1, word] = start, start + np.uint64(size)
            if size <= _LONGEST:
                slots[slot, 0], slots[slot, 1], slots[slot, 2] = first, second, word
                for part in range(2, _LONGEST // 8):
                    at = start + np.uint64(8 * part)
                    rests[word, part - 2] = _key(eights, at, size - 8 * part)
        found[count] = word
        count += 1
    return np.int64(position), count, known


@compiled
def _others(eight):
    """Marks those of eight bytes that are not letters or digits of ASCII."""
    low = eight & _LOW
    lower = low | _SPACES
    # A byte is in a range if only one of two sums has its highest bit.
    inner = low + _FROM_0 ^ low + _AFTER_9 | lower + _FROM_A ^ lower + _AFTER_Z
    return (eight | ~inner) & _MARKS


@compiled
def _end_of_word(data, position, kinds, separators):
    """Returns the end of the word at a position, which is the position if none begins there.

    A separator of several bytes is a word, too.
    """
    start = position
    while True:
        while kinds[data[position]] == _INNER:
            position += _ONE
        if kinds[data[position]] != _LEAD:
            return position
        # A character of two bytes or three.
        byte, second = np.int64(data[position]), np.int64(data[position + _ONE]) & 0x3F
        size, point = np.uint64(2), (byte & 0x1F) << 6 | second
        if byte >= 0xE0:
            third = np.int64(data[position + _ONE + _ONE]) & 0x3F
            size, point = np.uint64(3), (byte & 0xF) << 12 | second << 6 | third
        if separators[point]:
            return position + size if position == start else position
        position += size


@compiled
def _end_of_spaced_word(data, position, characters):
    """Returns the end of GPT-2's word at a position, which is the position at the end of a text.

    Its expression is in `byte_bpe_words`.
    """
    kind, end = _character(data, position, characters)
    if kind == EDGE:
        return position
    if data[position] == _APOSTROPHE:
        first = data[end]
        if first in (_S, _T, _M, _D):
            return end + _ONE
        if first in (_R, _V, _L):
            second = data[end + _ONE]
            if second == (_L if first == _L else _E):
                return end + _ONE + _ONE
    if kind == SPACE:  # belongs to the word after it
        after, end_of_next = _character(data, end, characters)
        if after >= LETTER:
            kind, end = after, end_of_next
    if kind >= LETTER:
        after, end_of_next = _character(data, end, characters)
        while after == kind:
            end = end_of_next
            after, end_of_next = _character(data, end, characters)
        return end
    # White space, whose last character is separate if something else follows.
    last = position
    while True:
        after, end_of_next = _character(data, end, characters)
        if after == EDGE or after >= LETTER:
            return end if after == EDGE or last == position else last
        last, end = end, end_of_next


@compiled
def _character(data, position, characters):
    """Returns the kind of a character, EDGE at the end of a text, and where it ends."""
    byte = np.int64(data[position])
    if byte < 0x80:
        return characters[byte], position + _ONE
    if byte == _NO_CHARACTER:
        return np.uint8(EDGE), position
    size = np.uint64(2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
    point = byte & (0x1F if byte < 0xE0 else 0xF if byte < 0xF0 else 0x7)
    for index in range(np.uint64(1), size):
        point = point << 6 | np.int64(data[position + index]) & 0x3F
    return characters[min(point, len(characters) - 1)], position + size


@compiled
def _key(eights, start, size):
    """Returns the eight bytes from a place on as a number, filled from `size` on."""
    if size >= 8:
        return eights[start]
    return eights[start] | _FILL << np.uint64(8 * size) if size > 0 else _FILL


@compiled
def _same_rest(eights, start, size, rest):
    """Returns whether these are the bytes of a word after the first 16."""
    for part in range(2, _LONGEST // 8):
        if rest[part - 2] != _key(eights, start + np.uint64(8 * part), size - 8 * part):
            return False
    return True


@compiled
def _mix(number):
    """Spreads the bits of a uint64 for a hash table."""
    mixed = number * _FACTOR
    return mixed ^ mixed >> np.uint64(32)


@compiled
def _expand(found, splits, ids):
    """Returns the ids of numbered words, and where the texts end among them."""
    total = texts = 0
    for word in found:
        total += splits[word + 1] - splits[word]
        texts += word == _TEXT_END
    result, ends = np.empty(total, np.int32), np.empty(texts, np.int64)
    total = texts = 0
    for word in found:
        for index in range(splits[word], splits[word + 1]):
            result[total] = ids[index]
            total += 1
        if word == _TEXT_END:
            ends[texts] = total
            texts += 1
    return result, ends
