"""SentencePiece models of other programs, whose pieces have other ids there than in the model.

fairseq put tokens of its own before the pieces, and <mask> after them. KoBERT's ids are the lines
of its vocab.txt. Here the pieces of a model are put into the order of the ids, which changes no
segmentation.
"""

from collections.abc import Sequence

from sentencepiece import sentencepiece_model_pb2

from pipelines.common.errors import InputError
from pipelines.tokenizers.vocabulary import BERT, ROBERTA

_MASK, _PAD, _UNKNOWN = (ROBERTA.roles[role] for role in ("mask", "pad", "unknown"))
_UNUSED = ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")
_CAMEMBERT = (_UNUSED[0], _PAD, _UNUSED[1], _UNKNOWN, _UNUSED[2])
_XLM_R = ("<s>", _PAD, "</s>", _UNKNOWN)
_PUBLISHED = (_UNKNOWN, "<s>", "</s>")  # the first pieces of the models of both
_KINDS = sentencepiece_model_pb2.ModelProto.SentencePiece


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


def _parse(model: bytes, place: str) -> sentencepiece_model_pb2.ModelProto:
    try:
        return sentencepiece_model_pb2.ModelProto.FromString(model)
    except Exception as error:  # DecodeError, of a package that is not imported here
        raise InputError(f"{place}: is not a SentencePiece model ({error}).") from error
