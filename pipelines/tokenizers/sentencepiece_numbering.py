"""SentencePiece models of other programs, whose pieces have other ids there than in the model.

fairseq put tokens of its own before the pieces, and <mask> after them. KoBERT's ids are the lines
of its vocab.txt. Here the pieces of a model are put into the order of the ids, which changes no
segmentation. Of tokenizers of Gemma's form, the merges are read.
"""

import math
from collections.abc import Collection, Iterator, Sequence

from sentencepiece import sentencepiece_model_pb2

from pipelines.common.errors import InputError
from pipelines.tokenizers import bpe_merging
from pipelines.tokenizers.bpe_merging import Merge
from pipelines.tokenizers.vocabulary import BERT, GEMMA, ROBERTA

SPACE = "▁"  # stands for the space before a word

_MASK, _PAD, _UNKNOWN = (ROBERTA.roles[role] for role in ("mask", "pad", "unknown"))
_UNUSED = ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")
_CAMEMBERT = (_UNUSED[0], _PAD, _UNUSED[1], _UNKNOWN, _UNUSED[2])
_XLM_R = ("<s>", _PAD, "</s>", _UNKNOWN)
_PUBLISHED = (_UNKNOWN, "<s>", "</s>")  # the first pieces of the models of both
_KINDS = sentencepiece_model_pb2.ModelProto.SentencePiece
BYTES = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}  # tokens of Gemma's form


def of_fairseq(model: bytes, is_camembert: bool, place: str) -> bytes:
    """Returns a published model of XLM-R or CamemBERT with the ids of fairseq."""
    pieces = [piece.piece for piece in _parse(model, place).pieces]
    if tuple(pieces[:3]) != _PUBLISHED:
        raise InputError(
            f"{place}: its first pieces are {', '.join(pieces[:3])}, not {', '.join(_PUBLISHED)}; "
            "it is not a model of XLM-R or CamemBERT."
        )
    first = (*_CAMEMBERT, *pieces[1:]) if is_camembert else (*_XLM_R, *pieces[3:])
    return renumbered(model, (*first, _MASK), place)


def class_of(tokens: Sequence[str]) -> str:
    """Returns the name of the class of transformers that has tokens of these ids; "" if none."""
    classes = {"XLMRobertaTokenizer": _XLM_R, "CamembertTokenizer": _CAMEMBERT}
    found = (name for name, first in classes.items() if tuple(tokens[: len(first)]) == first)
    return next(found, "") if tokens and tokens[-1] == _MASK else ""


def published(model: bytes) -> bytes:
    """Returns what `of_fairseq` was given."""
    pieces = [piece.piece for piece in _parse(model, "").pieces]
    rest = pieces[7 if pieces[0] in _UNUSED else 4 : -1]
    return renumbered(model, (*_PUBLISHED, *rest), "")


def renumbered(model: bytes, tokens: Sequence[str], place: str) -> bytes:
    """Returns a model with these tokens; those that it lacked are never found in a text.

    Raises:
      InputError: a piece of texts is not among the tokens.
    """
    made = _parse(model, place)
    found = {piece.piece: _KINDS.FromString(piece.SerializeToString()) for piece in made.pieces}
    del made.pieces[:]
    known = set(tokens)
    for name, piece in found.items():
        if name not in known and piece.type == _KINDS.NORMAL:
            raise InputError(f"{place}: the vocabulary lacks its piece {name!r}.")
    unknown = {name for name, piece in found.items() if piece.type == _KINDS.UNKNOWN}
    other = "" if unknown & known else BERT.roles["unknown"]  # another name for <unk>
    for token in tokens:
        score = -100.0 if token == _UNUSED[2] else 0.0  # as in transformers
        kind = _KINDS.UNKNOWN if token == other else _KINDS.CONTROL
        new = _KINDS(piece=token, score=score, type=kind)
        made.pieces.append(found.get(token, new))
    return made.SerializeToString()


def of_scores(pieces: Sequence[tuple[str, float]], characters: bytes) -> bytes:
    """Returns a model of XLM-R or CamemBERT.

    Args:
      pieces: pieces and scores, in the order of ids.
      characters: the table of its normalization, as in a model of SentencePiece.
    """
    made = sentencepiece_model_pb2.ModelProto()
    kinds = dict.fromkeys((*ROBERTA.roles.values(), *_UNUSED), _KINDS.CONTROL)
    kinds[_UNKNOWN] = _KINDS.UNKNOWN
    for piece, score in pieces:
        made.pieces.add(piece=piece, score=score, type=kinds.get(piece, _KINDS.NORMAL))
    made.normalizer_spec.precompiled_charsmap = characters
    return made.SerializeToString()


def of_merges(
    tokens: Sequence[str],
    merges: Sequence[Merge],
    added: Collection[str],
    cuts_words: bool,
    place: str,
) -> bytes:
    """Returns a model that makes of a text what the merges of Gemma's tokenizer make of it.

    SentencePiece joins any two neighbours that are a piece together, those of best score first. So
    the merges of a piece have to be all pairs that are the piece, and to stand together.

    Args:
      tokens: all tokens, in the order of ids.
      merges: pairs of pieces, in the order of ranks.
      added: tokens that a text has whole. Those with a "▁" are found in no usual text, as its
        spaces become "▁" later; they are pieces like others.
      cuts_words: whether texts are cut before every "▁", as by mmBERT, so that no piece has one
        within it.
      place: the file, for errors.

    Raises:
      InputError: a byte has no token, or the merges are not such.
    """
    known = set(tokens)
    if missing := BYTES.keys() - known:
        raise InputError(f"{place}: the vocabulary lacks {min(missing)}.")
    whole = {token for token in added if SPACE not in token}
    scores = {token: 0.0 for token in tokens if len(token) == 1 and token not in whole}
    last = problem = ""
    for left, right in merges:
        piece = left + right
        if piece in whole or (cuts_words and SPACE in piece[1:]):
            continue  # it is found before anything is merged, or never
        if unknown := {left, right, piece} - known:
            problem = f"the vocabulary lacks {min(unknown)!r}"
        elif left in BYTES or right in BYTES:
            problem = "tokens of bytes are not merged here"
        elif piece in scores and piece != last:
            problem = f"does not follow the other merges that make {piece!r}"
        if problem:
            raise InputError(f"{place}: merge {left} {right}: {problem}.")
        last, scores[piece] = piece, scores.get(piece, -float(len(scores)))
    pairs = set(merges)
    for piece in scores:
        for left, right in _halves(piece):
            if left in scores and right in scores and (left, right) not in pairs:
                raise InputError(f"{place}: lacks the merge {left} {right}.")
    made = _parse(bpe_merging.model(tokens, scores, GEMMA.roles["unknown"]), place)
    made.trainer_spec.byte_fallback = made.normalizer_spec.escape_whitespaces = True
    made.trainer_spec.split_by_whitespace = cuts_words  # which SentencePiece reads in training only
    kinds = dict.fromkeys(whole - set(GEMMA.roles.values()), _KINDS.USER_DEFINED)
    kinds |= dict.fromkeys(BYTES, _KINDS.BYTE)
    for found in made.pieces:
        found.type = kinds.get(found.piece, found.type)
    return made.SerializeToString()


def merges_of(model: bytes) -> list[Merge]:
    """Returns merges of which `of_merges` makes a model."""
    pieces = [piece for piece in _parse(model, "").pieces if piece.type == _KINDS.NORMAL]
    known = {piece.piece for piece in pieces}
    return [
        (left, right)
        for piece in sorted(pieces, key=lambda piece: -piece.score)
        for left, right in _halves(piece.piece)
        if left in known and right in known
    ]


def unigram_scores(model: bytes) -> dict[str, float] | None:
    """Returns the scores of all pieces, in the order of ids; -inf: it is not found in texts.

    Pieces that users define have -0.1, as in SentencePiece where no score is above 0. None for
    models that merge pieces, that have pieces of bytes, or another normalization than those of
    ALBERT and XLM-R.
    """
    found = _parse(model, "")
    spec, normalization = found.trainer_spec, found.normalizer_spec.name
    if spec.model_type != spec.UNIGRAM or spec.byte_fallback:
        return None
    if normalization not in ("nmt_nfkc", "nmt_nfkc_cf"):
        return None
    defined = {_KINDS.USER_DEFINED: -0.1}
    return {
        each.piece: each.score if each.type == _KINDS.NORMAL else defined.get(each.type, -math.inf)
        for each in found.pieces
    }


def cuts_words(model: bytes) -> bool:
    """Returns what `of_merges` was given."""
    return _parse(model, "").trainer_spec.split_by_whitespace


def added(model: bytes) -> tuple[str, ...]:
    """Returns the tokens that a text has whole."""
    pieces = _parse(model, "").pieces
    return tuple(piece.piece for piece in pieces if piece.type == _KINDS.USER_DEFINED)


def _halves(piece: str) -> Iterator[Merge]:
    return ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))


def _parse(model: bytes, place: str) -> sentencepiece_model_pb2.ModelProto:
    try:
        return sentencepiece_model_pb2.ModelProto.FromString(model)
    except Exception as error:  # DecodeError, of a package that is not imported here
        raise InputError(f"{place}: is not a SentencePiece model ({error}).") from error
