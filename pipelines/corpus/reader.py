"""Reads corpus files as documents of sentences, in bounded memory.

Files are local or on a bucket, and may be compressed. Their formats are:

* `sentences`: the reference format of google-research/bert, one sentence per line, a blank line
  between documents;
* `prose`: one document per file, split into sentences by `pipelines.corpus.sentences`;
* `jsonl`: JSON Lines, one document per line, its prose in a text field;
* `wikiextractor`: articles between <doc> and </doc>, as WikiExtractor writes them without --json;
* those of `pipelines.corpus.records`: tables and texts from the web.

A corpus is cut into ranges that are read independently, so that workers can share it.
"""

import codecs
import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from pipelines.common import compressed, files, json_files, path_lists
from pipelines.common.errors import InputError
from pipelines.corpus import FORMATS, detection, records, sentences

MAX_LINE_BYTES = 10_000_000
SECTION_CHARACTERS = 1_000_000  # longer documents are split, so that memory stays bounded
_BLOCK_BYTES = 1 << 22


@dataclasses.dataclass(frozen=True)
class Section:
    """A document, or a part of a very long one."""

    document: tuple[int, int, int]  # file, range and ordinal; equal for all sections of a document
    sentences: list[str]  # in prose and JSON Lines, each with its leading white space
    characters: int  # of the sentences, without the white space between them


@dataclasses.dataclass(frozen=True)
class CorpusFile:
    """An input file and its format."""

    path: str
    format: str
    size: int  # in bytes, on disk
    modified: int = 0  # in nanoseconds since 1970; 0: unknown


@dataclasses.dataclass(frozen=True, slots=True)
class FileRange:
    """The documents of a file that begin in the bytes [start, end), or its row groups."""

    path: str
    format: str
    file_index: int
    start: int
    end: int  # -1: to the end of the file


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How text is read."""

    text_field: str = "text"  # of JSON Lines and tables; several are separated by commas
    utf8_errors: str = "strict"  # "replace": invalid bytes become U+FFFD, NUL bytes are removed

    @property
    def text_fields(self) -> tuple[str, ...]:
        """Names of the field of a text, of which the first one counts that is there."""
        return self.text_field, *self.text_field.split(",")


def open_corpus(patterns: str, file_format: str = "auto") -> list[CorpusFile]:
    """Returns the files of a corpus that are not empty, with their formats.

    Args:
      patterns: glob patterns, separated by commas or spaces.
      file_format: one of FORMATS, or "auto" to detect the format of each file.

    Raises:
      InputError: a pattern matches no file, every file is empty, the format is unknown, or a file
        has carriage returns for line ends, is an archive or a table, or is JSON without an object
        per line.
    """
    if file_format not in (*FORMATS, "auto"):
        raise InputError(f"format {file_format!r} is unknown; use auto, {', '.join(FORMATS)}.")
    found = []
    for path in path_lists.expand_globs(patterns):
        files.check_regular(path)
        size, modified = files.size_and_date(path)
        kind = records.format_of(path) if file_format == "auto" else file_format
        if not size:
            continue
        if kind in records.FORMATS:
            found.append(CorpusFile(path, str(kind), size, modified))
        else:
            with compressed.open_unpacked(path) as file:
                head = file.read(detection.SAMPLE_BYTES)
            if b"\r" in head and b"\n" not in head:  # ranges are cut at newlines
                raise InputError(
                    f"{path}: its lines end with a carriage return alone; make them newlines: "
                    "tr '\\r' '\\n' < old.txt > new.txt"
                )
            kind = kind or detection.format_of(head, path)
            found.append(CorpusFile(path, kind, size, modified))
    if not found:
        raise InputError(f"{patterns}: the corpus is empty; every file has 0 bytes.")
    return found


def plan_ranges(corpus: list[CorpusFile], range_bytes: int) -> list[FileRange]:
    """Cuts files into ranges of about `range_bytes`; compressed and prose files stay whole."""
    ranges = []
    for index, file in enumerate(corpus):
        if file.format in records.FORMATS:
            cuts = records.cuts(file.path, file.format, range_bytes)
            ranges += [FileRange(file.path, file.format, index, *cut) for cut in cuts]
            continue
        if file.format == "prose" or compressed.is_compressed(file.path):
            ranges.append(FileRange(file.path, file.format, index, 0, -1))
            continue
        for start in range(0, file.size, range_bytes):
            end = min(start + range_bytes, file.size)
            ranges.append(FileRange(file.path, file.format, index, start, end))
    return ranges


def read_sections(file_range: FileRange, options: ReadOptions) -> Iterator[Section]:
    """Yields the documents of a range, long ones in several sections.

    Raises:
      InputError: the file has bytes that are not UTF-8, a NUL byte, a line or an article longer
        than MAX_LINE_BYTES, a line of JSON that is malformed or lacks the text field, or text
        between articles; or as in `records.documents`.
    """
    lines = _Lines(file_range, options)
    documents: Iterator[Iterable[str]]
    if file_range.format in records.FORMATS:
        texts = records.documents(
            file_range.path,
            file_range.format,
            (file_range.start, file_range.end),
            options.text_fields,
            options.utf8_errors == "replace",
        )
        documents = (sentences.prose_sentences(text.strip(), unwrap=False) for text in texts)
    elif file_range.format == "sentences":
        documents = _sentence_documents(lines)
    elif file_range.format == "prose":
        documents = iter([_prose_sentences(lines)])
    elif file_range.format == "wikiextractor":
        documents = _articles(lines)
    else:
        documents = _json_documents(lines, options.text_fields)
    ordinal = 0
    for document in documents:
        place = (file_range.file_index, file_range.start, ordinal)
        section, size = [], 0
        for sentence in document:
            section.append(sentence)
            size += _size(sentence) if "\n" in sentence else len(sentence.strip())
            if size >= SECTION_CHARACTERS:
                yield Section(place, section, size)
                section, size = [], 0
                ordinal = place[-1] + 1
        if section:
            yield Section(place, section, size)
            ordinal = place[-1] + 1


def documents(corpus: list[CorpusFile], options: ReadOptions) -> Iterator[str]:
    """Yields the text of each document, its sentences with white space between them."""
    sections = (s for r in plan_ranges(corpus, 1 << 40) for s in read_sections(r, options))
    for _, parts in itertools.groupby(sections, key=lambda section: section.document):
        sentences = (sentence for part in parts for sentence in part.sentences)
        yield "".join(s if s[:1].isspace() else f" {s}" for s in sentences).strip()


def _size(sentence: str) -> int:
    """Number of characters of a sentence when its lines are joined by spaces."""
    return len(" ".join(filter(None, map(str.strip, sentence.split("\n")))))


def _sentence_documents(lines: "_Lines") -> Iterator[Iterator[str]]:
    """Splits lines into documents at blank lines; the last one may exceed the range."""
    iterator = iter(lines)
    done = False
    if lines.file_range.start > 0:  # the range begins after its first blank line
        done = not any(lines.past_end or not line.strip() for line in iterator) or lines.past_end

    def document() -> Iterator[str]:
        nonlocal done
        for line in iterator:
            line = line.strip()
            if not line:
                done = lines.past_end
                return
            yield line
        done = True

    while not done:
        yield document()


def _prose_sentences(lines: "_Lines") -> Iterator[str]:
    """Yields the sentences of prose, reading it block by block."""
    before = ""
    for block in _prose_blocks(lines):
        for sentence in sentences.prose_sentences(before + block):
            yield sentence
            before = "\n\n"


def _prose_blocks(lines: "_Lines") -> Iterator[str]:
    """Cuts prose after blank lines; a paragraph longer than a section is cut, too."""
    block: list[str] = []
    size = 0
    for line in lines:
        block.append(line.strip())
        size += len(line)
        if not block[-1] or size > SECTION_CHARACTERS:
            yield "\n".join(block)
            block, size = [], 0
    yield "\n".join(block)


def _articles(lines: "_Lines") -> Iterator[list[str]]:
    """The texts between <doc> and </doc>; their <, > and & are written as in HTML."""
    article: list[str] | None = None
    elsewhere = lines.file_range.start > 0  # up to the first <doc>, they are of the range before
    size = 0
    for line in lines:
        tag = line.strip()
        if elsewhere and lines.past_end:
            return
        if tag.startswith("<doc "):
            if article is not None:
                raise InputError(f"{lines.place()}: <doc> in an article; is a </doc> missing?")
            if lines.past_end:
                return
            article, elsewhere, size = [], False, 0
        elif tag == "</doc>" and article is not None:
            text = "".join(article).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
            yield sentences.prose_sentences(text.strip(), unwrap=False)
            article = None
        elif article is not None:
            article.append(f"{line}\n")
            size += len(line) + 1
            if size > MAX_LINE_BYTES:
                raise InputError(f"{lines.place()}: an article above 10 MB; is a </doc> missing?")
        elif tag and not elsewhere:
            raise InputError(f"{lines.place()}: {tag[:40]!r} is neither <doc> nor in an article.")
    if article is not None:
        raise InputError(f"{lines.place()}: the last article has no </doc>; is the file complete?")


def _json_documents(lines: "_Lines", text_fields: Sequence[str]) -> Iterator[list[str]]:
    for line in lines:
        if lines.past_end:
            return
        if not line.strip():
            continue
        try:
            record = json_files.parse(line, "", finite=False)
        except InputError:
            json_files.parse(line, lines.place(), finite=False)  # finding the line number is slow
            raise
        known = record if isinstance(record, dict) else {}
        text_field = next((field for field in text_fields if field in known), None)
        if text_field is None:
            raise InputError(
                f"{lines.place()}: no field {text_fields[0]!r}; name it with --text_field, and "
                "those of other files after a comma, as in --text_field=text,body."
            )
        text = record[text_field] or ""  # null is an empty text, as in tables
        if not isinstance(text, str):
            raise InputError(f"{lines.place()}: field {text_field!r} is not a string.")
        yield sentences.prose_sentences(text.strip(), unwrap=False)


class _Lines:
    """The lines of a range as checked text, read in blocks.

    Iteration begins with the first line that starts at or after `file_range.start` and continues to
    the end of the file. `past_end` is whether the current line starts at or after `file_range.end`:
    readers stop there.
    """

    def __init__(self, file_range: FileRange, options: ReadOptions):
        self.file_range = file_range
        self.past_end = False
        self._options = options
        self._line_in_block = 0
        self._block_start = 0

    def __iter__(self) -> Iterator[str]:
        file_range = self.file_range
        # A small range is read as such, and not with megabytes that follow it.
        wanted = max(file_range.end - file_range.start, 1 << 16)
        size = _BLOCK_BYTES if file_range.end < 0 else min(wanted, _BLOCK_BYTES)
        with self._opened(size) as file:
            position = file_range.start
            if position > 0:
                file.seek(position - 1)
                line = file.readline(MAX_LINE_BYTES + 1)  # it belongs to the range before
                if len(line) > MAX_LINE_BYTES:
                    self._raise_long_line(position - 1)
                position += len(line) - 1
            rest = b""
            while True:
                block = file.read(size)
                data = rest + block
                if position == 0 and data.startswith(codecs.BOM_UTF8):
                    data, position = data[len(codecs.BOM_UTF8) :], len(codecs.BOM_UTF8)
                cut = data.rfind(b"\n") + 1 if block else len(data)
                rest = data[cut:]
                if len(rest) > MAX_LINE_BYTES:
                    self._raise_long_line(position + cut)
                if cut:
                    yield from self._block_lines(data[:cut], position)
                    position += cut
                if not block:
                    return

    def _opened(self, ahead: int) -> contextlib.AbstractContextManager[BinaryIO]:
        path = self.file_range.path
        if compressed.is_compressed(path):
            return compressed.open_unpacked(path)
        return files.open_binary(path, ahead)

    def place(self) -> str:
        """The file and the number of the current line, for messages."""
        number = self._number(self._block_start) + self._line_in_block
        return f"{self.file_range.path}: line {number}"

    def _block_lines(self, data: bytes, position: int) -> Iterator[str]:
        self._block_start = position
        text = self._decode(data, position)
        lines = text.split("\n")
        if text.endswith("\n"):
            lines.pop()
        end = self.file_range.end
        if end < 0:
            past = len(lines)
        else:  # the first line that starts at or after the end of the range
            past = data.count(b"\n", 0, end - position - 1) + 1 if end > position else 0
        for index, line in enumerate(lines):
            self._line_in_block, self.past_end = index, index >= past
            yield line

    def _decode(self, data: bytes, position: int) -> str:
        replace = self._options.utf8_errors == "replace"
        if b"\0" in data:
            if not replace:
                at = data.index(b"\0")
                raise InputError(
                    f"{self._place_of(data, position, at)}: a NUL byte; the file is not plain "
                    "UTF-8 text (UTF-16, or binary?). Convert it, or drop NUL bytes with "
                    "--utf8_errors=replace."
                )
            data = data.replace(b"\0", b"")
        if len(data) > MAX_LINE_BYTES and max(map(len, data.split(b"\n"))) > MAX_LINE_BYTES:
            self._raise_long_line(position)
        try:
            return data.decode("utf-8", errors="replace" if replace else "strict")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self._place_of(data, position, error.start)}: byte "
                f"0x{data[error.start]:02x} is not UTF-8; {detection.remedy_of(data)}."
            ) from error

    def _place_of(self, data: bytes, position: int, at: int) -> str:
        line = self._number(position) + data.count(b"\n", 0, at)
        return f"{self.file_range.path}: line {line}, byte {position + at}"

    def _number(self, position: int) -> int:
        """Counts, for messages only, which line (from 1) starts at a byte."""
        with compressed.open_unpacked(self.file_range.path) as file:
            count = 1
            while position > 0 and (block := file.read(min(position, _BLOCK_BYTES))):
                count += block.count(b"\n")
                position -= len(block)
        return count

    def _raise_long_line(self, position: int) -> None:
        raise InputError(
            f"{self.file_range.path}: at or after line {self._number(position)}: a line of more "
            f"than {MAX_LINE_BYTES / 1e6:.0f} MB. Break the text into lines; one sentence, "
            "paragraph or JSON document a line."
        )
