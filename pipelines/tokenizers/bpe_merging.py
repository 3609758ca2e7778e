"""Byte-pair encoding by SentencePiece's operation, in graphs.

BPE joins the two neighbours that are the pair of lowest rank; SentencePiece joins the two that make
the token of best score. With negative ranks as scores, both give the same result: they could differ
only if SentencePiece joined a token from parts other than those of its merge. By then, all merges
of lower rank are done, and none crossed the outer ends of these parts, so they have merged the
token as if it stood alone. This leaves exactly the parts of its merge, as `check` verifies for
every token.
"""

import json
import struct
from collections.abc import Collection, Mapping, Sequence

import tokenizers
from sentencepiece import sentencepiece_model_pb2

from pipelines.common.errors import InputError
from pipelines.tokenizers.vocabulary import repeat_words

Merge = tuple[str, str]


def learn(counts: Mapping[str, int], alphabet: Sequence[str], most: int) -> list[Merge]:
    """The merges that the tokenizers library finds in words, in its order.

    Args:
      counts: Of each word, of letters without white space.
      alphabet: The letters; ties are broken in their order.
      most: Number of merges, if there are as many.
    """
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(alphabet) + most,
        min_frequency=2,
        initial_alphabet=list(alphabet),
        show_progress=False,
    )
    bpe.train_from_iterator(repeat_words(sorted(counts.items())), trainer)
    return [(left, right) for left, right in json.loads(bpe.to_str())["model"]["merges"]]


def check(
    tokens: Sequence[str],
    merges: Sequence[Merge],
    letters: Collection[str],
    special: Collection[str],
    name: str,
    implied: Sequence[Merge] = (),
) -> None:
    """Checks that merges are such as BPE learns, on which the operation relies.

    Each merge joins two tokens made before it, and the merges before it split its result into
    exactly these two. This holds in every learned vocabulary: a merge joins neighbours in a word.

    Args:
      tokens: all tokens, in the order of ids.
      merges: pairs of tokens, in the order of ranks.
      letters: tokens that are there before any merge.
      special: tokens that no text may give.
      name: of the vocabulary, for errors.
      implied: merges before the others, whose results are among the letters.

    Raises:
      InputError: they are not; the merge is named.
    """
    known, made = set(tokens), set(letters)
    for number, (left, right) in enumerate(merges, 1):
        token = left + right
        where = f"{name}: merge {number} ({left} {right})"
        for part in (left, right):
            if part not in made:
                raise InputError(f"{where}: no merge before it makes {part!r}; is one missing?")
        if token not in known:
            raise InputError(f"{where}: the vocabulary lacks {token!r}; do both belong together?")
        if token in special:
            raise InputError(f"{where}: {token!r} is a special token, which no text may give.")
        if token in made:
            raise InputError(f"{where}: a merge before it makes {token!r}, too; leave one out.")
        made.add(token)
    more = (each for left, right in implied for each in (left, right, left + right))
    ids = {token: index for index, token in enumerate(dict.fromkeys([*tokens, *more]))}
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE(ids, [*implied, *merges]))
    whole = bpe.encode_batch_fast([left + right for left, right in merges])
    for number, (found, (left, right)) in enumerate(zip(whole, merges, strict=True), 1):
        if len(found) != 1:
            parts = " ".join(bpe.encode(left + right).tokens)
            raise InputError(
                f"{name}: merge {number} ({left} {right}): the merges make {parts} of "
                f"{left + right!r}; they were not learned as BPE."
            )


def model(tokens: Sequence[str], scores: Mapping[str, float], unknown: str) -> bytes:
    """Serializes a SentencePiece model.

    Args:
      tokens: all tokens, in the order of ids.
      scores: those that text may give, with the scores of their merges.
      unknown: the unknown token.
    """
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    made = sentencepiece_model_pb2.ModelProto()
    for token in tokens:
        kind = kinds.NORMAL if token in scores else kinds.CONTROL
        kind = kinds.UNKNOWN if token == unknown else kind
        made.pieces.add(piece=token, score=scores.get(token, 0.0), type=kind)
    made.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    text = made.normalizer_spec  # which changes nothing
    text.name = "identity"
    text.add_dummy_prefix = text.remove_extra_whitespaces = text.escape_whitespaces = False
    # An empty trie of 1024 bytes; without it, a line is logged.
    text.precompiled_charsmap = struct.pack("<I", 1024) + bytes(1024) + b"\0"
    return made.SerializeToString()
