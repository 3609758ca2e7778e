"""Corpus files into documents of sentences, in bounded memory.

Three formats are read, plain or gzipped, local or on a bucket:

* `sentences`: the reference format of google-research/bert, one sentence a
  line, a blank line between documents;
* `prose`: one document a file, split into sentences by `pipelines.corpus.sentences`;
* `jsonl`: JSON Lines, one document a line, its prose in a text field.

A corpus is cut into ranges, each read on its own, so that workers can share it.
"""

import codecs
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from tqdm import tqdm

from pipelines.common import files, json_files, path_lists
from pipelines.common.errors import InputError
from pipelines.common.runners import Workers
from pipelines.corpus import FORMATS, sentences

MAX_LINE_BYTES = 10_000_000
# Longer documents are read and stored in sections, so that memory stays bounded.
SECTION_CHARACTERS = 1_000_000
_BLOCK_BYTES = 1 << 22
_SAMPLE_BYTES = 1 << 18
_BEGINS_OBJECT = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:')  # a line of JSON, as far as it is read
_PARAGRAPH_CHARACTERS = 150


class Section(NamedTuple):
    """A document, or one part of a very long one."""

    document: tuple[int, int, int]  # file, range and ordinal: the same for all its sections
    sentences: list[str]  # of prose and JSON Lines: each begins with the white space before it

    @property
    def characters(self) -> int:
        """Characters of the sentences, white space between them not included."""
        return sum(map(_size, self.sentences))


@dataclasses.dataclass(frozen=True)
class CorpusFile:
    """One input file, its format known."""

    path: str
    format: str
    size: int  # bytes on disk


@dataclasses.dataclass(frozen=True)
class FileRange:
    """The documents of a file that begin in the bytes [start, end)."""

    path: str
    format: str
    file_index: int
    start: int
    end: int  # -1: to the end of the file


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How text is read."""

    text_field: str = "text"  # the JSON Lines key that holds the text
    utf8_errors: str = "strict"  # or "replace": bad bytes become U+FFFD, NUL bytes are dropped


def open_corpus(patterns: str, file_format: str = "auto") -> list[CorpusFile]:
    """Finds the files of a corpus and the format of each.

    Args:
      patterns: comma- or space-separated globs.
      file_format: one of FORMATS, or "auto" to detect it.

    Raises:
      InputError: a pattern matches nothing, every file is empty, the format is unknown, or lines
        have no end that is read.
    """
    if file_format not in (*FORMATS, "auto"):
        raise InputError(f"format {file_format!r} is unknown; use auto, {', '.join(FORMATS)}.")
    found = []
    for path in path_lists.expand_globs(patterns):
        size = files.gfile.stat(path).length
        if size:
            head = _head(path)
            _check_line_ends(path, head)
            kind = _format_of(head) if file_format == "auto" else file_format
            found.append(CorpusFile(path, kind, size))
    if not found:
        raise InputError(f"{patterns}: the corpus is empty; every file has 0 bytes.")
    return found


def identities(corpus: list[CorpusFile], workers: Workers) -> list[dict[str, str | int]]:
    """What tells each file from others: path, format, size and SHA-256 checksum."""
    found = {}
    with tqdm(total=len(corpus), desc="checksums", unit="file", leave=False) as bar:
        for file, entry in workers.map(_identity, corpus, reads_only=True):
            found[file] = entry
            bar.update()
    return [found[file] for file in corpus]


def _identity(file: CorpusFile) -> dict[str, str | int]:
    return {**dataclasses.asdict(file), "sha256": files.sha256(file.path)}


def _head(path: str) -> bytes:
    with files.open_unpacked(path) as file:
        return file.read(_SAMPLE_BYTES)


def _check_line_ends(path: str, head: bytes) -> None:
    """Raises InputError where lines end as they did on old Macs; ranges are cut at newlines."""
    if b"\r" in head and b"\n" not in head:
        raise InputError(
            f"{path}: its lines end with a carriage return alone; make them newlines: "
            "tr '\\r' '\\n' < old.txt > new.txt"
        )


def detect_format(path: str) -> str:
    """Tells the format of a file from its first 256 KiB."""
    return _format_of(_head(path))


def _format_of(head: bytes) -> str:
    lines = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace").split("\n")
    is_cut = len(head) == _SAMPLE_BYTES and len(lines) == 1
    if len(head) == _SAMPLE_BYTES and not is_cut:
        lines.pop()
    stripped = [line.strip() for line in lines]
    filled = [line for line in stripped if line]
    if filled and (_BEGINS_OBJECT.match(filled[0]) if is_cut else _is_json_object(filled[0])):
        return "jsonl"
    return "prose" if filled and _looks_like_prose(stripped, filled) else "sentences"


def _looks_like_prose(stripped: list[str], filled: list[str]) -> bool:
    """Whether lines were wrapped (they go on in lower case), or are paragraphs of sentences."""
    pairs = [(a, b) for a, b in itertools.pairwise(stripped) if a and b]
    wrapped = sum(b[0].islower() and a[-1] not in ".!?" for a, b in pairs)
    if wrapped > 0.2 * max(len(pairs), 10):
        return True
    several = sum(len(sentences.split_sentences(line)) > 1 for line in filled) / len(filled)
    # Half-way, what decides is whether lines stand apart, or are long, as paragraphs are.
    are_apart = len(pairs) < 0.2 * len(filled)
    are_long = sum(map(len, filled)) > _PARAGRAPH_CHARACTERS * len(filled)
    return several > 0.6 or (several > 0.3 and (are_apart or are_long))


def _is_json_object(line: str) -> bool:
    try:
        return isinstance(json_files.parse(line, "", finite=False), dict)
    except InputError:
        return False


def plan_ranges(corpus: list[CorpusFile], range_bytes: int) -> list[FileRange]:
    """Cuts the files into ranges of about `range_bytes`; gzip and prose files stay whole."""
    ranges = []
    for index, file in enumerate(corpus):
        if file.format == "prose" or files.is_gzip(file.path):
            ranges.append(FileRange(file.path, file.format, index, 0, -1))
            continue
        for start in range(0, file.size, range_bytes):
            end = min(start + range_bytes, file.size)
            ranges.append(FileRange(file.path, file.format, index, start, end))
    return ranges


def read_sections(file_range: FileRange, options: ReadOptions) -> Iterator[Section]:
    """Yields the documents of a range, long ones in sections.

    Raises:
      InputError: bytes that are not UTF-8, a NUL byte, a line longer than
        MAX_LINE_BYTES, or a JSON line that is malformed or lacks the text field.
    """
    lines = _Lines(file_range, options)
    documents: Iterator[Iterable[str]]
    if file_range.format == "sentences":
        documents = _sentence_documents(lines)
    elif file_range.format == "prose":
        documents = iter([_prose_sentences(lines)])
    else:
        documents = _json_documents(lines, options.text_field)
    ordinal = 0
    for document in documents:
        empty = True
        for section in _sections(document):
            empty = False
            yield Section((file_range.file_index, file_range.start, ordinal), section)
        ordinal += not empty


def _sections(document: Iterable[str]) -> Iterator[list[str]]:
    section: list[str] = []
    size = 0
    for sentence in document:
        section.append(sentence)
        size += _size(sentence)
        if size >= SECTION_CHARACTERS:
            yield section
            section, size = [], 0
    if section:
        yield section


def _size(sentence: str) -> int:
    """Characters of a sentence, as if it stood in one line."""
    return len(" ".join(filter(None, map(str.strip, sentence.split("\n")))))


def _sentence_documents(lines: "_Lines") -> Iterator[Iterator[str]]:
    """Groups lines at blank ones; the last document may run past the end of the range."""
    iterator = iter(lines)
    done = False
    if lines.file_range.start > 0:  # the range begins after its first blank line
        done = all(line.strip() for line in iterator) or lines.past_end

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
    """Splits paragraphs as they come."""
    before = ""
    for block in _prose_blocks(lines):
        for sentence in sentences.prose_sentences(before + block):
            yield sentence
            before = "\n\n"


def _prose_blocks(lines: "_Lines") -> Iterator[str]:
    """Cuts prose after blank lines; a paragraph that never ends is cut by the section size."""
    block: list[str] = []
    size = 0
    for line in lines:
        block.append(line.strip())
        size += len(line)
        if not block[-1] or size > SECTION_CHARACTERS:
            yield "\n".join(block)
            block, size = [], 0
    yield "\n".join(block)


def _json_documents(lines: "_Lines", text_field: str) -> Iterator[list[str]]:
    for line in lines:
        if lines.line_start_past_end:
            return
        if not line.strip():
            continue
        try:
            record = json_files.parse(line, "", finite=False)
        except InputError:
            json_files.parse(line, lines.place(), finite=False)  # the place is costly to tell
            raise
        if not isinstance(record, dict) or text_field not in record:
            raise InputError(
                f"{lines.place()}: no field {text_field!r}; name it with --text_field."
            )
        if not isinstance(record[text_field], str):
            raise InputError(f"{lines.place()}: field {text_field!r} is not a string.")
        yield sentences.prose_sentences(record[text_field].strip(), unwrap=False)


class _Lines:
    """The lines of a range as text, checked, read in blocks.

    Iteration begins with the first line that starts at or after `file_range.start`
    and goes on to the end of the file; the reader stops by `past_end` (the
    next line starts at or after `file_range.end`) or `line_start_past_end` (this
    line does).
    """

    def __init__(self, file_range: FileRange, options: ReadOptions):
        self.file_range = file_range
        self.past_end = False
        self.line_start_past_end = False
        self._options = options
        self._line_in_block = 0
        self._block_start = 0

    def __iter__(self) -> Iterator[str]:
        file_range = self.file_range
        with files.open_unpacked(file_range.path) as file:
            position = file_range.start
            if position > 0:
                file.seek(position - 1)
                position += len(self._read_rest_of_line(file, position - 1)) - 1
            rest = b""
            while True:
                block = file.read(_BLOCK_BYTES)
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

    def place(self) -> str:
        """The file and line now being read, for messages."""
        return (
            f"{self.file_range.path}: line {self._number(self._block_start) + self._line_in_block}"
        )

    def _block_lines(self, data: bytes, position: int) -> Iterator[str]:
        self._block_start = position
        text = self._decode(data, position)
        end = self.file_range.end
        # Offsets of single lines matter only in the block that holds the end of the range.
        near_end = 0 <= end <= position + len(data)
        offset = position
        raw = data.split(b"\n") if near_end else ()
        lines = text.split("\n")
        if text.endswith("\n"):
            lines.pop()
        for index, line in enumerate(lines):
            self._line_in_block = index
            if near_end:
                self.line_start_past_end = offset >= end
                # A blank line ends a range only if it starts at or after the end.
                self.past_end = offset >= end
                offset += len(raw[index]) + 1
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
                f"0x{data[error.start]:02x} is not UTF-8. Convert the file, or read bad bytes "
                "as U+FFFD with --utf8_errors=replace."
            ) from error

    def _place_of(self, data: bytes, position: int, at: int) -> str:
        line = self._number(position) + data.count(b"\n", 0, at)
        return f"{self.file_range.path}: line {line}, byte {position + at}"

    def _number(self, position: int) -> int:
        """The number, from 1, of the line that starts at a byte; counted only for messages."""
        with files.open_unpacked(self.file_range.path) as file:
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

    def _read_rest_of_line(self, file: BinaryIO, position: int) -> bytes:
        line = file.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            self._raise_long_line(position)
        return line
