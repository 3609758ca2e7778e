"""The example writer: a plan of shards, and a pure function for each shard."""

import dataclasses
import enum
import functools
import itertools
from typing import Any, TypedDict

import numpy as np
import tensorflow as tf

from pipelines.common import files, hashing, json_files, memory
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.pretraining import masking, segments, tf_example, token_store
from pipelines.tokenizers import vocabulary, wordpiece

# Where an output folder keeps what is needed until all of it is written.
UNFINISHED = ".unfinished"
_BLOCK = 4096
_BYTES_A_TOKEN = 32  # of a block: ids, masks, segments and what they are written as
_MIN_SECTIONS_PER_SHARD = 64
_SHARD_TOKENS = 500_000
_MAX_SHARDS = 2048  # of the largest corpora; their shards are larger
_MIN_DOCUMENTS_TO_HOLD_OUT = 20


class Objective(enum.StrEnum):
    """What the examples are for."""

    MLM_NSP = "mlm_nsp"  # masked LM and next-sentence prediction (the paper)
    MLM = "mlm"  # masked LM alone ("No NSP", paper section 5.1)
    LEFT_TO_RIGHT = "left_to_right"  # each token from those before it ("LTR & No NSP")


@dataclasses.dataclass(frozen=True)
class ExampleSettings:
    """Everything, beside text and vocabulary, that decides the examples."""

    objective: Objective = Objective.MLM_NSP
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    dupe_factor: int = 10  # times that each document is used, with other pairs and masks
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    whole_word_mask: bool = False
    held_out_fraction: float = 0.0  # share of the documents kept apart for evaluation
    seed: int = 12345

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        for name, value, good in (
            ("seed", self.seed, self.seed >= 0),
            ("max_seq_length", self.max_seq_length, self.max_seq_length >= 8),
            ("max_predictions_per_seq", self.max_predictions_per_seq, self._predictions_fit()),
            ("dupe_factor", self.dupe_factor, self.dupe_factor >= 1),
            ("masked_lm_prob", self.masked_lm_prob, 0 < self.masked_lm_prob < 1),
            ("short_seq_prob", self.short_seq_prob, 0 <= self.short_seq_prob <= 1),
            ("held_out_fraction", self.held_out_fraction, 0 <= self.held_out_fraction < 1),
        ):
            if not good:
                raise InputError(f"--{name}={value} is out of range; see --help.")
        memory.check(
            _BLOCK * self.max_seq_length * _BYTES_A_TOKEN,
            f"a block of {_BLOCK} sequences of --max_seq_length={self.max_seq_length}",
        )

    def _predictions_fit(self) -> bool:
        return 1 <= self.max_predictions_per_seq < self.max_seq_length

    @property
    def is_masked(self) -> bool:
        """Whether tokens are masked."""
        return self.objective is not Objective.LEFT_TO_RIGHT

    @property
    def has_next_sentence(self) -> bool:
        """Whether sequences are pairs with a next-sentence label."""
        return self.objective is Objective.MLM_NSP


@dataclasses.dataclass(frozen=True)
class Shard:
    """One output file: an interval of section hashes."""

    file: str
    index: int
    low: int
    high: int
    held_out: bool


class ShardSummary(TypedDict):
    """What a finished shard says of itself."""

    file: str
    held_out: bool
    bytes: int
    records: int
    random_next: int
    tokens: int
    full_length: int
    predictions: int
    masked: int
    random_token: int
    kept: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """All output files, and the documents held out."""

    shards: tuple[Shard, ...]
    held_out_keys: tuple[int, ...]


@functools.lru_cache(maxsize=2)
def load_tokenizer(
    vocab: str, lower_case: bool | None, strip_accents: bool | None
) -> wordpiece.BertTokenizer:
    """The tokenizer of a vocabulary, once a process."""
    return wordpiece.load(vocab, lower_case, strip_accents)


def plan_shards(index: np.ndarray, settings: ExampleSettings) -> Plan:
    """Decides the number of shards and the held-out documents from the store's index.

    Raises:
      InputError: there are no documents, or next-sentence prediction is
        impossible because there is one document, or one sentence in each.
    """
    keys = np.unique(index["key"])
    if not len(keys):
        raise InputError("the corpus has no text: no document has a token.")
    if settings.has_next_sentence:
        _check_next_sentence(keys, index)
    held_out = _held_out_keys(keys, settings)
    is_held_out = np.isin(index["key"], held_out)
    if settings.has_next_sentence and len(keys) - len(held_out) < 2:
        raise InputError(
            f"--held_out_fraction={settings.held_out_fraction} leaves {len(keys) - len(held_out)} "
            "documents to train on; it takes two at least."
        )
    train = _shards(index[~is_held_out], "train", 0)
    return Plan(
        (*train, *_shards(index[is_held_out], "held_out", len(train))), tuple(map(int, held_out))
    )


def _shards(index: np.ndarray, name: str, first: int) -> list[Shard]:
    """Cuts the sections of an index into shards that have two documents each at least."""
    if not len(index):
        return []
    index = np.sort(index, order="hash")
    tokens = int(index["tokens"].sum(dtype=np.int64))
    count = min(tokens // _SHARD_TOKENS, len(index) // _MIN_SECTIONS_PER_SHARD, _MAX_SHARDS)
    count = max(1, count)
    while count > 1 and not _every_shard_has_two_documents(index, count):
        count //= 2
    return [
        Shard(
            f"{name}-{i:05d}-of-{count:05d}.tfrecord",
            first + i,
            *_bounds(i, count),
            held_out=name == "held_out",
        )
        for i in range(count)
    ]


def _check_next_sentence(keys: np.ndarray, index: np.ndarray) -> None:
    remedy = (
        "Next-sentence prediction is impossible; train without it (--objective=mlm), or check the "
        "format (--format): in `sentences` a blank line ends a document, in `prose` each file is "
        "one document, in `jsonl` each line is."
    )
    if len(keys) == 1:
        raise InputError(f"the corpus is one document, so no sentence is from another. {remedy}")
    if len(index) == len(keys) and (index["sentences"] == 1).all():
        raise InputError(f"every document is a single sentence, so none has a next one. {remedy}")


def _held_out_keys(keys: np.ndarray, settings: ExampleSettings) -> np.ndarray:
    if not settings.held_out_fraction:
        return keys[:0]
    if len(keys) < _MIN_DOCUMENTS_TO_HOLD_OUT:
        raise InputError(
            f"the corpus has {len(keys)} documents; to hold some out for evaluation it takes "
            f"{_MIN_DOCUMENTS_TO_HOLD_OUT}. Use --held_out_fraction=0, or check the format "
            "(--format)."
        )
    # Keys are hashes, so the smallest are a random choice.
    return keys[: max(2, round(settings.held_out_fraction * len(keys)))]


def _bounds(index: int, count: int) -> tuple[int, int]:
    size = hashing.HASH_RANGE
    return index * size // count, (index + 1) * size // count


def _every_shard_has_two_documents(index: np.ndarray, count: int) -> bool:
    """Whether cutting the sections, sorted by hash, leaves two documents in each part."""
    lows = np.array([_bounds(shard, count)[0] for shard in range(count)], np.uint64)
    ends = [*np.searchsorted(index["hash"], lows[1:]), len(index)]
    parts = itertools.pairwise([0, *ends])
    return all(len(np.unique(index["key"][start:end])) >= 2 for start, end in parts)


def write_shard(
    output: str,
    shard: Shard,
    held_out_keys: tuple[int, ...],
    store: token_store.TokenStore,
    settings: ExampleSettings,
    tokens: wordpiece.BertTokenizer,
) -> ShardSummary:
    """Writes one TFRecord file and returns its statistics.

    A pure function of the shard's documents and the seed. Held-out documents
    are used once, whatever the dupe factor.
    """
    keys = np.array(held_out_keys, np.uint64)
    documents = _flatten(store.read(shard.low, shard.high, keys, shard.held_out))
    special = masking.SpecialIds(
        tokens.cls_id, tokens.sep_id, tokens.mask_id, len(tokens.vocabulary)
    )
    seeds = np.random.SeedSequence([settings.seed, shard.index, shard.held_out])
    rng = np.random.Generator(np.random.Philox(seeds))
    is_suffix = np.array(tokens.is_suffix)
    plan = _plan_sequences(documents, settings, 1 if shard.held_out else settings.dupe_factor, rng)
    names = ("records", "random_next", "tokens", "full_length")
    statistics = dict.fromkeys((*names, "predictions", "masked", "random_token", "kept"), 0)
    path = f"{output}/{shard.file}"
    with files.write_aside(path) as partial, tf.io.TFRecordWriter(partial) as writer:
        for start in range(0, len(plan), _BLOCK):
            block = plan[start : start + _BLOCK]
            sequences = masking.fill(documents.ids, block, settings.max_seq_length, special)
            predictions = None
            if settings.is_masked:
                predictions = masking.mask(
                    sequences,
                    special,
                    is_suffix,
                    settings.masked_lm_prob,
                    settings.max_predictions_per_seq,
                    settings.whole_word_mask,
                    rng,
                )
            _add_statistics(statistics, sequences, predictions)
            for record in tf_example.encode(sequences, predictions, settings.has_next_sentence):
                writer.write(record)
    size = files.gfile.stat(path).length
    summary = {"file": shard.file, "held_out": shard.held_out, "bytes": size, **statistics}
    json_files.write(shard_summary_path(output, shard), summary)
    return summary


def finished_summary(output: str, shard: Shard) -> ShardSummary | None:
    """The summary of a shard that is written; None if it is not, or not whole."""
    summary = json_files.read_whole(shard_summary_path(output, shard), ShardSummary)
    if summary is None:
        return None
    written = f"{output}/{shard.file}"
    whole = files.gfile.exists(written) and files.gfile.stat(written).length == summary["bytes"]
    return summary if whole and summary["file"] == shard.file else None


def shard_summary_path(output: str, shard: Shard) -> str:
    """The file that says that a shard is finished, with its statistics."""
    return f"{output}/{UNFINISHED}/{shard.file}.json"


def _flatten(sections: list[token_store.TokenizedSection]) -> segments.TokenizedDocuments:
    def ends(lengths: Any) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)

    nothing = np.zeros(0, np.int32)
    return segments.TokenizedDocuments(
        np.concatenate([nothing, *(s.ids for s in sections)]).astype(np.int32),
        ends(np.concatenate([nothing, *(s.sentence_lengths for s in sections)])),
        ends([len(s.sentence_lengths) for s in sections]),
        np.array([s.key for s in sections], np.uint64),
    )


def _plan_sequences(
    documents: segments.TokenizedDocuments,
    settings: ExampleSettings,
    duplicates: int,
    rng: np.random.Generator,
) -> np.ndarray:
    plan_once = segments.plan_pairs if settings.has_next_sentence else segments.plan_spans
    plans = [
        plan_once(documents, settings.max_seq_length, settings.short_seq_prob, rng)
        for _ in range(duplicates)
    ]
    plan = np.concatenate(plans)
    return plan[rng.permutation(len(plan))]


def _add_statistics(
    statistics: dict[str, int],
    sequences: masking.Sequences,
    predictions: masking.Predictions | None,
) -> None:
    statistics["records"] += len(sequences.lengths)
    statistics["random_next"] += int(sequences.is_random.sum())
    statistics["tokens"] += int(sequences.lengths.sum())
    statistics["full_length"] += int((sequences.lengths == sequences.word_ids.shape[1]).sum())
    if predictions is not None:
        statistics["predictions"] += int(predictions.counts.sum())
        statistics["masked"] += int(predictions.outcomes[masking.MASKED])
        statistics["random_token"] += int(predictions.outcomes[masking.RANDOM])
        statistics["kept"] += int(predictions.outcomes[masking.KEPT])


def check_vocabulary_ids(tokens: wordpiece.BertTokenizer) -> None:
    """Raises InputError unless [PAD] is id 0, with which sequences are padded."""
    if tokens.pad_id:
        raise InputError(
            f"the vocabulary has {vocabulary.SPECIAL_TOKENS[0]} on line {tokens.pad_id + 1}; "
            "it must be on the first line, because sequences are padded with id 0."
        )


def plan_corpus(files_of_corpus: list[reader.CorpusFile]) -> list[reader.FileRange]:
    """Splits of 1 to 64 MB: enough of them to share out, not too many to gather."""
    total = sum(file.size for file in files_of_corpus)
    return reader.plan_ranges(files_of_corpus, int(np.clip(total // 64, 1 << 20, 1 << 26)))
