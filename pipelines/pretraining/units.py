"""Writes examples in one pass: text goes in, shards of masked examples come out.

The corpus is cut into small pieces, and unit u of n has the pieces u, u + n, u + 2n and so on. So
the documents of a unit come from everywhere: a corpus that is sorted by topic gives random next
sentences that are as foreign, and shards that are as mixed, as if all of it had been shuffled. A
unit is read, tokenized, shuffled, masked and written by one call of `write_unit`, a pure function
of the request and the unit. Nothing passes between units, so there is nothing to sort or to merge,
memory does not grow with the corpus, and a stopped command resumes with the units that have no
shards.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
from tqdm import tqdm

from pipelines.common import checksums, files, json_files, texts
from pipelines.common.runners import Workers
from pipelines.corpus import reader
from pipelines.pretraining import makers, tf_example
from pipelines.pretraining.example_folder import UNFINISHED
from pipelines.pretraining.makers.base import ExampleMaker, TokenizedDocuments
from pipelines.pretraining.settings import BLOCK, ExampleSettings
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer

# Bytes of a unit: 2 MB, so that a small corpus occupies all cores, up to 32 MB, so that a large one
# does not become millions of files.
_UNIT_BYTES = (1 << 21, 1 << 25)
_UNITS = 64  # of a corpus between these sizes
# Of a unit. With 32, one in 32 random next sentences is from the same piece of the corpus as the
# first segment.
_PIECES = 32
_READ_TOGETHER = 8  # pieces whose documents are read in turn
# A compressed file cannot be cut. Its unit is written in parts of so much text, and the last
# sections of a part wait for the next one, so that no part has too few documents for random pairs.
_PART_CHARACTERS = 1 << 26
_WAITING = 16
_BATCH_CHARACTERS = 1_000_000  # that are tokenized together
_LEAST_HELD_OUT = 2  # documents of a corpus, if any is to be held out
EXAMPLE_COUNTS = tuple(
    "records random_next tokens full_length predictions masked random_token kept".split()
)


@dataclasses.dataclass(frozen=True)
class ExampleRequest:
    """The examples to write: globs of a corpus, a vocabulary, an output folder, and settings.

    `tokenizer` has the names and values of the tokenizer's settings that the user chose.
    """

    corpus: str
    vocab: str
    output: str
    settings: ExampleSettings = ExampleSettings()
    file_format: str = "auto"
    read: reader.ReadOptions = reader.ReadOptions()
    tokenizer: tuple[tuple[str, bool], ...] = ()


@dataclasses.dataclass(frozen=True)
class WorkUnit:
    """A unit of work: its number, the number of units, and its pieces of the corpus."""

    index: int
    count: int
    pieces: tuple[reader.FileRange, ...]
    repeated: bytes = b""  # uint32: which of its sections, in the order of reading, are left out


class ShardSummary(TypedDict):
    """A file of examples; counts that do not apply to its maker are 0."""

    file: str
    held_out: bool
    bytes: int
    counts: dict[str, int]


class UnitSummary(TypedDict):
    """What a unit has written, or why it could not: it has too few documents, for example."""

    shards: list[ShardSummary]
    text: dict[str, int]
    sha256: dict[str, str]  # of the files that begin in the unit
    refused: str


class _Section(NamedTuple):
    """A section, and 64-bit hashes of its text and place in the document, and of the document."""

    section: reader.Section
    hash: int
    key: int  # that of the first section: documents with the same beginning have the same one
    first: bool


class _Tokens(NamedTuple):
    """A tokenized section, without sentences that have no token."""

    key: int
    first: bool
    ids: np.ndarray
    lengths: np.ndarray  # of its sentences


@functools.lru_cache(maxsize=2)
def load_tokenizer(vocab: str, settings: tuple[tuple[str, bool], ...]) -> Tokenizer:
    """Loads a tokenizer once per process."""
    return registry.load_tokenizer(vocab, dict(settings))


def plan(corpus: list[reader.CorpusFile]) -> tuple[list[reader.FileRange], int]:
    """Cuts a corpus into pieces; returns them and the number of units."""
    total = sum(file.size for file in corpus)
    size = int(np.clip(total // _UNITS, *_UNIT_BYTES))
    pieces = reader.plan_ranges(corpus, max(1, size // _PIECES))
    return pieces, max(1, min(total // size, len(pieces)))


def write_unit(request: ExampleRequest, unit: WorkUnit) -> UnitSummary:
    """Writes the shards of a unit, and its summary; a finished unit is not written again.

    Several processes may write the same unit at the same time.

    Raises:
      InputError: the corpus cannot be read.
    """
    name = f"{unit.index:05d}-of-{unit.count:05d}"
    summary_path = f"{request.output}/{UNFINISHED}/{name}.json"
    finished = _finished(request.output, summary_path)
    if finished is not None:
        return finished
    tokenizer = load_tokenizer(request.vocab, request.tokenizer)
    maker = makers.make(request.settings, tokenizer)
    maker_of_held_out = makers.make(request.settings.of_held_out, tokenizer)
    counts = collections.Counter[str]()
    shards: list[ShardSummary] = []
    # Documents whose hash is below this are held out, in all units: copies are on one side.
    end = int(request.settings.held_out_fraction * checksums.HASH_RANGE)
    for number, part in enumerate(_parts(request, unit, tokenizer, counts)):
        keys = np.array([section.key for section in part], np.uint64)
        if end and number == 0 and unit.count == 1:
            # The last resort of a corpus without held-out examples (`example_writer`).
            end = max(end, int(np.unique(keys)[:_LEAST_HELD_OUT][-1]) + 1)
        held_out = keys < end
        if number == 0:
            refused = _refusal(part, keys, held_out, maker)
            if refused:
                return UnitSummary(shards=[], text=dict(counts), sha256={}, refused=refused)
        # Those that are too few to make examples of are left out of training, too.
        enough = len(np.unique(keys[held_out])) >= maker.least_documents
        firsts = np.array([section.first for section in part])
        counts["held_out_documents"] += int(firsts[held_out].sum()) if enough else 0
        for is_held_out in (False, True) if enough else (False,):
            seed = [request.settings.seed, unit.index, number, is_held_out]
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
            chosen = rng.permutation(np.flatnonzero(held_out == is_held_out))
            file = f"{'held_out' if is_held_out else 'train'}-{name}"
            path = f"{request.output}/{file}{f'-{number}' if number else ''}.tfrecord"
            if len(chosen):
                documents = _joined([part[index] for index in chosen])
                own = maker_of_held_out if is_held_out else maker
                shards += _write_shard(path, documents, own, is_held_out, rng)
    begun = {piece.path for piece in unit.pieces if piece.start == 0}
    summary = UnitSummary(
        shards=shards,
        text=dict(counts),
        sha256={path: files.sha256(path) for path in sorted(begun)},
        refused="",
    )
    json_files.write(summary_path, summary, shared=True)
    return summary


def _finished(output: str, path: str) -> UnitSummary | None:
    """The summary of a unit whose shards are all there."""
    summary = json_files.read_whole(path, UnitSummary)
    if summary is None or not all(s["counts"].keys() >= {"records"} for s in summary["shards"]):
        return None
    whole = (files.is_whole(f"{output}/{s['file']}", s["bytes"]) for s in summary["shards"])
    return summary if all(whole) else None


def _parts(
    request: ExampleRequest, unit: WorkUnit, tokenizer: Tokenizer, counts: collections.Counter[str]
) -> Iterator[list[_Tokens]]:
    """Yields the tokenized sections of a unit, mostly all at once, and counts them."""
    repeated = set(np.frombuffer(unit.repeated, np.uint32).tolist())
    part: list[_Tokens] = []
    size = 0

    def wanted() -> Iterator[_Section]:
        for place, found in enumerate(_sections(request, unit)):
            if place not in repeated:
                yield found
            else:
                counts["duplicate_documents"] += found.first
                counts["duplicate_characters"] += found.section.characters

    for batch in texts.blocks(wanted(), lambda s: s.section.characters, _BATCH_CHARACTERS):
        sentences = [sentence for found in batch for sentence in found.section.sentences]
        ids, row_splits = tokenizer.tokenize_running_text(sentences)
        row = 0
        for found in batch:
            bounds = row_splits[row : row + len(found.section.sentences) + 1]
            row += len(found.section.sentences)
            lengths = np.diff(bounds)
            lengths = lengths[lengths > 0]
            if len(lengths):
                part.append(_Tokens(found.key, found.first, ids[bounds[0] : bounds[-1]], lengths))
                size += found.section.characters
                counts["characters"] += found.section.characters
                counts["documents"] += found.first
                counts["one_sentence_documents"] += found.first and len(lengths) == 1
                counts["sentences"] += len(lengths)
        counts["tokens"] += len(ids)
        counts["unknown_tokens"] += int(np.count_nonzero(ids == tokenizer.unknown_id))
        if size >= _PART_CHARACTERS and len(part) > 2 * _WAITING:
            yield part[:-_WAITING]
            part, size = part[-_WAITING:], 0
    if part:
        yield part


def _sections(request: ExampleRequest, unit: WorkUnit) -> Iterator[_Section]:
    """Yields the sections of a unit, those of several pieces in turn."""
    pieces = (_hashed(request, piece) for piece in unit.pieces)
    reading = collections.deque(itertools.islice(pieces, _READ_TOGETHER))
    while reading:
        piece = reading.popleft()
        found = next(piece, None)
        if found is None:
            reading.extend(itertools.islice(pieces, 1))
        else:
            reading.append(piece)
            yield found


def _hashed(request: ExampleRequest, piece: reader.FileRange) -> Iterator[_Section]:
    """Yields the sections of a piece; case makes no difference if the tokenizer removes it."""
    lower = load_tokenizer(request.vocab, request.tokenizer).settings.get("lower_case")
    document, number, key = None, 0, 0
    for section in reader.read_sections(piece, request.read):
        first = section.document != document
        document, number = section.document, 0 if first else number + 1
        text = "\n".join(map(str.strip, section.sentences))
        place = f"{request.settings.seed} {number} {number and key}\n"
        data = (place + (text.lower() if lower else text)).encode()
        found = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
        key = found if first else key
        yield _Section(section, found, key, first)


def _refusal(
    part: Sequence[_Tokens], keys: np.ndarray, held_out: np.ndarray, maker: ExampleMaker
) -> str:
    """Why no examples can be made of the documents of a unit; empty: they can."""
    documents, left = len(np.unique(keys)), len(np.unique(keys[~held_out]))
    refused = maker.refusal(documents, all(len(section.lengths) == 1 for section in part))
    if not refused and left < maker.least_documents:
        refused = (
            f"--held_out_fraction={maker.settings.held_out_fraction}: leaves "
            f"{texts.counted(left, 'document')} to train on; at least {maker.least_documents} must "
            "be left."
        )
        if documents == 1:
            refused += " The corpus is one document; check the format (--format)."
    return refused


def _joined(part: Sequence[_Tokens]) -> TokenizedDocuments:
    def starts(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    return TokenizedDocuments(
        np.concatenate([section.ids for section in part]).astype(np.int32),
        starts(np.concatenate([section.lengths for section in part])),
        starts([len(section.lengths) for section in part]),
        np.array([section.key for section in part], np.uint64),
    )


def _write_shard(
    path: str,
    documents: TokenizedDocuments,
    maker: ExampleMaker,
    held_out: bool,
    rng: np.random.Generator,
) -> list[ShardSummary]:
    """Writes a TFRecord file, unless the documents fill no sequence.

    Held-out documents are used once, whatever the dupe factor.
    """
    times = 1 if held_out else maker.times
    plan = np.concatenate([maker.plan(documents, rng) for _ in range(times)])
    if not len(plan):
        return []
    plan = plan[rng.permutation(len(plan))]
    counts = collections.Counter(dict.fromkeys(EXAMPLE_COUNTS, 0))
    with files.write_aside(path, shared=True) as partial, files.gfile.GFile(partial, "wb") as file:
        for start in range(0, len(plan), BLOCK):
            features, found = maker.features(documents, plan[start : start + BLOCK], rng)
            counts.update(found)
            file.write(tf_example.encode(features))
    size, name = files.gfile.stat(path).length, path.rpartition("/")[-1]
    return [ShardSummary(file=name, held_out=held_out, bytes=size, counts=dict(counts))]


def distinct(request: ExampleRequest, units: list[WorkUnit], workers: Workers) -> list[WorkUnit]:
    """Notes in the units which of their sections another unit, or themselves, have before.

    The hashes of all sections, 8 bytes each, are in the memory of this process.
    """
    found = {}
    function = functools.partial(_section_hashes, request)
    with tqdm(total=len(units), desc="find duplicates", unit="unit") as bar:
        for unit, data in workers.map(function, units):
            found[unit.index] = np.frombuffer(data, np.uint64)
            bar.update()
    hashes = [found[unit.index] for unit in units]
    repeated = np.ones(sum(map(len, hashes)), bool)
    repeated[np.unique(np.concatenate(hashes), return_index=True)[1]] = False
    parts = np.split(repeated, np.cumsum(list(map(len, hashes)))[:-1])
    return [
        dataclasses.replace(unit, repeated=np.flatnonzero(part).astype(np.uint32).tobytes())
        for unit, part in zip(units, parts, strict=True)
    ]


def _section_hashes(request: ExampleRequest, unit: WorkUnit) -> bytes:
    return np.array([found.hash for found in _sections(request, unit)], np.uint64).tobytes()
