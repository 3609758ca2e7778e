"""Schemes of tags: which tags mark the words of entities, and how."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pipelines.common.errors import InputError
from pipelines.common.texts import listed
from pipelines.labelled import conll

# Tags of words outside of entities.
_OUTSIDE = ("O", "o", "-", "_", "0")
# The part of an entity that a word is, before or behind the type; with a hyphen, or, if words
# outside have a tag, with another mark.
_HYPHENATED = re.compile(r"(?P<part>(?i:[BIESLUM]))(?:-(?P<type>.*))?", re.DOTALL)
_PREFIXED = re.compile(r"(?P<part>(?i:[BIESLUM]))[-_.:](?P<type>.+)", re.DOTALL)
_SUFFIXED = re.compile(r"(?P<type>.+)[-_.:](?P<part>[BIESLUM])", re.DOTALL)
# Letters of other schemes (BILOU, BMES) for the last, the only and a middle word of an entity.
_LETTERS = {"L": "E", "U": "S", "M": "I"}
# Next to these, O or - is a part of speech, too.
_PARTS_OF_SPEECH = {*conll.UPOS, "NN", "NNP", "VB", "VBD", "DT", "IN", "JJ", "N", "V", "ART"}


class Scheme(NamedTuple):
    """How tags mark entities: by part and type, or, without a pattern, by type alone."""

    outside: str
    pattern: re.Pattern[str] | None

    def iobes(self, tag: str) -> str:
        """The tag in the scheme IOBES; also of tags that training lacks."""
        if tag in ("O", self.outside):
            return "O"
        match = self.pattern.fullmatch(tag) if self.pattern else None
        if match is None:
            return f"I-{tag}"
        part = match["part"].upper()
        part = _LETTERS.get(part, part)
        return part if match["type"] is None else f"{part}-{match['type']}"

    def valid(self, labels: Sequence[str]) -> np.ndarray | None:
        """Which labels may follow which, bool [labels + 1, labels + 1]; None: all may.

        The last row is the start of a text, the last column its end. All may follow if a type has
        tags inside of entities, but none at their start: without a pattern, and in IOB1.
        """
        tags = [self.iobes(label) for label in labels]
        begun = {tag[2:] for tag in tags if tag[0] in "BS"}
        if any(tag[0] in "IE" and tag[2:] not in begun for tag in tags):
            return None
        are_closed = any(tag[0] in "ES" for tag in tags)
        tags.append("O")  # around a text
        return np.array([[_may_follow(a, b, are_closed) for b in tags] for a in tags])

    def __str__(self) -> str:
        if self.pattern:
            return "parts and types of entities, such as B-PER"
        return "types of entities: adjacent words of one type are one entity"


class Entity(NamedTuple):
    """A type ("_" if tags have none), and the first word and the one after the last."""

    type: str
    start: int
    end: int


def entities(tags: Iterable[str]) -> list[Entity]:
    """The entities of a sentence in the scheme IOBES, as conlleval finds them.

    An entity begins also where a tag follows that does not continue the one before: I-LOC after
    O, I-PER or E-LOC. It ends before O, B, S, another type, and after E and S.
    """
    found: list[Entity] = []
    start, last, kind = -1, "O", ""  # of the entity so far; -1: there is none
    for place, tag in enumerate((*tags, "O")):
        part, _, type_ = tag.partition("-")
        if start >= 0 and (part in "OBS" or last in "ES" or type_ != kind):
            found.append(Entity(kind or "_", start, place))
            start = -1
        if start < 0 and part != "O":
            start = place
        last, kind = part, type_
    return found


def _may_follow(before: str, tag: str, are_closed: bool) -> bool:
    """Whether a tag of IOBES may follow another one, where all entities end in E or S, or none."""
    is_open = before[0] in "BI"
    if tag[0] in "IE":
        return is_open and before[2:] == tag[2:]
    return not (is_open and are_closed)


def find(tags: Collection[str]) -> Scheme | None:
    """The scheme of tags, such as IOB, IOBES, BILOU or BMES; None: they are of single words."""
    outside = next((tag for tag in _OUTSIDE if tag in tags), None)
    marked = set(tags) - {outside}
    bare = {tag.upper() for tag in marked if "-" not in tag}
    if all(map(_HYPHENATED.fullmatch, marked)) and (
        not bare or ("B" in bare and not bare.isdisjoint("IM"))
    ):
        return Scheme(outside or "O", _HYPHENATED)
    if outside is None:
        return None
    for pattern in (_PREFIXED, _SUFFIXED):
        matches = [pattern.fullmatch(tag) for tag in marked]
        parts = {match["part"].upper() for match in matches if match}
        if {"B", "I", "S", "U"} & parts and all(matches):
            return Scheme(outside, pattern)
    is_plain = outside in "Oo-" and all(tag[:1].isalpha() for tag in marked)
    return Scheme(outside, None) if is_plain and not marked & _PARTS_OF_SPEECH else None


def check(tags: Collection[str], path: str) -> None:
    """Raises InputError if some tags have parts of entities (B-PER, I-PER), and others do not."""
    scheme = find(tags)
    if scheme and scheme.pattern:
        return
    for pattern in (_HYPHENATED, _PREFIXED, _SUFFIXED):
        found = ((tag, pattern.fullmatch(tag)) for tag in tags)
        matches = {tag: match for tag, match in found if match and match["type"]}
        parts: dict[str, set[str]] = {}
        for match in matches.values():
            parts.setdefault(match["type"], set()).add(match["part"].upper())
        if any("B" in each and each & {"I", "M", "E"} for each in parts.values()):
            outside = next((tag for tag in _OUTSIDE if tag in tags), None)
            strays = sorted(set(tags) - matches.keys() - {outside})
            if not strays:
                return
            raise InputError(
                f"{path}: tags have the part of an entity and its type, such as {max(matches)!r}, "
                f"but not {listed(strays, 5)}; correct the file, or name every tag with "
                f"--label_map, such as {strays[0]}=O."
            )
