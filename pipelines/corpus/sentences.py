"""Splits prose into sentences by punctuation.

The rules cover scripts that end sentences with . ! ? (English, Korean and most European languages),
Chinese and Japanese full-width punctuation, the Devanagari danda and the Arabic question mark.
Nothing is learned, so the same text always gives the same sentences.
"""

import re
from collections.abc import Iterator

# Words that rarely end a sentence when a full stop follows.
_ABBREVIATIONS = frozenset(
    """
    adm al approx assn aug ave bros ca capt cf ch co col corp cpl dec dept dr ed eds eq esp est
    etc feb fig figs fr ft gen gov hon inc jan jr jul jun lt ltd maj mar messrs mr mrs ms mt mx
    no nos nov oct op p pp phd prof pt ref rep resp rev sec sen sep sept sgt sr st ste supt univ
    viz vol vols vs e.g i.e
    """.split()
)
_CLOSERS = "\"'”’»)\\]}」』】》〉）］｝"
_OPENERS = "\"'“‘«(\\[{「『【《〈（［｛¿¡"
# A terminator with its closing quotes. East Asian full stops need no space after them.
_WIDE = "。！？｡．।॥"
_NARROW = ".!?…؟"
# Python finds a pattern that begins with one set of characters ten times as fast as others. A row
# of dots is tried once, from its beginning: a million dots must not take a million times as long.
_END = re.compile(
    rf"[{_WIDE}{_NARROW}]"
    rf"(?:(?<=[{_WIDE}])[{_WIDE}]*[{_CLOSERS}]*"
    rf"|(?<![{_NARROW}][{_NARROW}])[{_NARROW}]*+[{_CLOSERS}]*+(?=\s))"
)
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]+\Z")
_LONGEST_ABBREVIATION = 64  # characters that are looked at before a full stop
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")  # such as U.S
_STARTS_SENTENCE = re.compile(rf"\s*+[{_OPENERS}\-–—*_]*\s*(\S)")
_LINE = re.compile(r"\S(?:.*\S)?")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
# A line this long was probably wrapped to fit a page; a shorter one is a heading or a verse.
_WRAPPED_LINE = 45
_WIDE_SCRIPT = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")


def split_sentences(paragraph: str) -> list[str]:
    """Splits a paragraph without line breaks into stripped, non-empty sentences."""
    return [sentence.strip() for sentence in _split(paragraph)]


def _split(paragraph: str) -> Iterator[str]:
    """Yields the sentences of a paragraph, each with its leading white space."""
    start = 0
    for match in _END.finditer(paragraph):
        if _ends_sentence(paragraph, start, match):
            yield paragraph[start : match.end()]
            start = match.end()
    rest = paragraph[start:].rstrip()
    if rest:
        yield rest


def _ends_sentence(text: str, start: int, end: re.Match[str]) -> bool:
    terminator = end.group()
    if terminator[0] not in ".…":
        return terminator[0] not in "．" or not text[end.end() : end.end() + 1].isdigit()
    following = _STARTS_SENTENCE.match(text, end.end())
    if following is None:
        return True
    if following.group(1).islower():
        return False
    if terminator[0] != "." or len(terminator) > 1:
        return True
    before = text[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()]
    return not _is_abbreviation(before, following.group(1))


def _is_abbreviation(before: str, following: str) -> bool:
    last = _LAST_WORD.search(before.rpartition(" ")[2])
    if last is None:
        return False
    word = last.group()
    if len(word) == 1 and word.isalpha() and word.isupper() and word != "I":
        return True  # an initial: "J. Smith"
    if word.lower() in _ABBREVIATIONS:
        # "No." and similar words are abbreviations only before a number.
        return word.lower() not in {"no", "nos", "p", "pp", "fig"} or following.isdigit()
    return bool(_DOTTED.fullmatch(word)) and not following.isupper()


def paragraphs(text: str, unwrap: bool = True) -> Iterator[str]:
    """Yields the paragraphs of a text, each with its leading white space.

    A blank line ends a paragraph. So does a line too short to have been wrapped, such as a heading
    or a line of verse, unless the next line begins in lower case. With `unwrap`, a line break
    within a paragraph becomes a space; between wide characters, such as Chinese, it is always
    removed.
    """
    paragraph = ""
    last = end = 0
    for match in _LINE.finditer(text):
        line, between = match.group(), text[end : match.start()]
        if paragraph:
            is_short = last < _WRAPPED_LINE and not line[0].islower()
            if is_short or _BLANK_LINE.search(between):
                yield paragraph
                paragraph = ""
            elif _WIDE_SCRIPT.match(paragraph[-1]) and _WIDE_SCRIPT.match(line[0]):
                between = ""
            elif unwrap:
                between = " "
        paragraph += between + line
        last, end = len(line), match.end()
    if paragraph:
        yield paragraph


def prose_sentences(text: str, unwrap: bool = True) -> list[str]:
    """Splits prose (paragraphs, wrapped lines) into sentences, each with its leading white space.

    Joined, the sentences are the text of `paragraphs` without trailing white space. Byte-level BPE
    depends on this.
    """
    return [sentence for part in paragraphs(text, unwrap) for sentence in _split(part)]
