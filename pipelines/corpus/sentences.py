"""Prose into sentences, by punctuation.

The rules cover scripts that end sentences with . ! ? (English, Korean and
most European languages), Chinese and Japanese full-width punctuation, the
Devanagari danda and the Arabic question mark. No statistics are learned, so
that the same text always gives the same sentences.
"""

import re
from collections.abc import Iterator

# Words before a full stop that seldom end a sentence.
_ABBREVIATIONS = frozenset(
    [
        "adm",
        "al",
        "approx",
        "assn",
        "aug",
        "ave",
        "bros",
        "ca",
        "capt",
        "cf",
        "ch",
        "co",
        "col",
        "corp",
        "cpl",
        "dec",
        "dept",
        "dr",
        "ed",
        "eds",
        "eq",
        "esp",
        "est",
        "etc",
        "feb",
        "fig",
        "figs",
        "fr",
        "ft",
        "gen",
        "gov",
        "hon",
        "inc",
        "jan",
        "jr",
        "jul",
        "jun",
        "lt",
        "ltd",
        "maj",
        "mar",
        "messrs",
        "mr",
        "mrs",
        "ms",
        "mt",
        "mx",
        "no",
        "nos",
        "nov",
        "oct",
        "op",
        "p",
        "pp",
        "phd",
        "prof",
        "pt",
        "ref",
        "rep",
        "resp",
        "rev",
        "sec",
        "sen",
        "sep",
        "sept",
        "sgt",
        "sr",
        "st",
        "ste",
        "supt",
        "univ",
        "viz",
        "vol",
        "vols",
        "vs",
        "e.g",
        "i.e",
    ]
)
_CLOSERS = "\"'”’»)\\]}」』】》〉）］｝"
_OPENERS = "\"'“‘«(\\[{「『【《〈（［｛¿¡"
# A terminator with its closing quotes. East Asian full stops need no space after them.
_WIDE_END = rf"[。！？｡．।॥]+[{_CLOSERS}]*"
_NARROW_END = rf"[.!?…؟]+[{_CLOSERS}]*(?=\s)"
_END = re.compile(rf"{_WIDE_END}|{_NARROW_END}")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]+$")
_STARTS_SENTENCE = re.compile(rf"\s*[{_OPENERS}\-–—*_]*\s*(\S)")
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n")
# A line this long was most likely broken to fit a page; a shorter one is a heading or a verse.
_WRAPPED_LINE = 45
_WIDE_SCRIPT = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")


def split_sentences(paragraph: str) -> list[str]:
    """Splits one paragraph (no line structure) into stripped, non-empty sentences."""
    sentences = []
    start = 0
    for match in _END.finditer(paragraph):
        if _ends_sentence(paragraph, start, match):
            sentences.append(paragraph[start : match.end()].strip())
            start = match.end()
    sentences.append(paragraph[start:].strip())
    return [sentence for sentence in sentences if sentence]


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
    return not _is_abbreviation(text[start : end.start()], following.group(1))


def _is_abbreviation(before: str, following: str) -> bool:
    last = _LAST_WORD.search(before)
    if last is None:
        return False
    word = last.group()
    if len(word) == 1 and word.isalpha() and word.isupper() and word != "I":
        return True  # an initial: "J. Smith"
    if word.lower() in _ABBREVIATIONS:
        # "No." and the like are abbreviations only before a number.
        return word.lower() not in {"no", "nos", "p", "pp", "fig"} or following.isdigit()
    return bool(re.fullmatch(r"(?:[A-Za-z]\.)+[A-Za-z]", word)) and not following.isupper()


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of prose, with lines that were wrapped joined again.

    A blank line ends a paragraph; so does a line too short to have been
    wrapped, such as a heading or a line of verse, unless the next one goes on
    in lower case.
    """
    for block in _PARAGRAPH.split(text):
        joined = ""
        last = 0
        for line in filter(None, map(str.strip, block.split("\n"))):
            if joined and last < _WRAPPED_LINE and not line[0].islower():
                yield joined
                joined = ""
            wide = joined and _WIDE_SCRIPT.match(joined[-1]) and _WIDE_SCRIPT.match(line[0])
            joined = f"{joined}{'' if wide or not joined else ' '}{line}"
            last = len(line)
        if joined:
            yield joined


def prose_sentences(text: str) -> list[str]:
    """Splits prose (paragraphs, wrapped lines) into sentences."""
    return [sentence for part in paragraphs(text) for sentence in split_sentences(part)]
