r"""Finds the nearest neighbours of texts among the vectors that `embed` wrote.

  bert-tf neighbours --vectors=vectors.npy --model=savedmodels/pretrained --query="a text" --count=5
  bert-tf neighbours --vectors=vectors.npy --model=savedmodels/pretrained --queries=texts.txt --json

Prints the cosine similarity, the id (in a file with one text per line, the number of the line from
0) and the text of each neighbour of each query, the nearest first.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from absl import flags

from bert_tf.commands.flag_texts import HEADER_HELP, TEXT_COLUMNS_HELP
from pipelines.commands.shared_flags import EncodingFlags
from pipelines.common import command_line, flag_types
from pipelines.common.errors import InputError
from pipelines.common.texts import shorten

if TYPE_CHECKING:
    from bert_tf.vectors.neighbours import Neighbours
    from pipelines.labelled.schema import TextExample

_VECTORS = flags.DEFINE_string(
    "vectors", None, "File or folder that `bert-tf embed` wrote.", required=True
)
_MODEL = flags.DEFINE_string(
    "model", None, "The model that the vectors were made with.", required=True
)
_QUERY = flag_types.define_texts(
    "query", "Text to search for; may be given several times. Not given: --queries names a file."
)
_QUERIES = flags.DEFINE_string(
    "queries",
    None,
    "File of texts, like the input of `bert-tf embed`; - for standard input. Not given: --query.",
)
_COUNT = flags.DEFINE(
    flag_types.NumberParser(int, minimum=1), "count", 10, "Number of neighbours of each query."
)
_RERANK = flags.DEFINE_string(
    "rerank",
    None,
    "A model of choices or of pairs, which orders the neighbours of single texts anew. Not given: "
    "none.",
)
_INDEX = flags.DEFINE_bool(
    "index",
    False,
    "Search an index of faiss next to the vectors, which is made once: faster for many queries, "
    "and may miss some neighbours.",
)
_JSON = flags.DEFINE_bool("json", False, "Print a line of JSON for each query.")
_COLUMNS = flags.DEFINE_list("columns", [], TEXT_COLUMNS_HELP)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_ENCODING = EncodingFlags()
_MAX_SHOWN = 100  # characters of a text


def main() -> None:
    """Prints the neighbours that the flags ask for."""
    if bool(_QUERY.value) == bool(_QUERIES.value):
        raise InputError("name either one or more texts with --query, or a file with --queries.")
    from bert_tf.vectors import neighbours
    from pipelines.labelled import text_files
    from pipelines.labelled.schema import TextExample

    queries: Iterable[TextExample]
    if _QUERIES.value:
        path = "/dev/stdin" if _QUERIES.value == "-" else _QUERIES.value
        columns = command_line.pairs(_COLUMNS.value, "--columns")
        queries = text_files.TextFile(path, columns, _HEADER.value, _ENCODING.value)
    else:
        named = enumerate(_QUERY.value, 1)
        queries = [TextExample(str(number), "--query", text) for number, text in named]
    show = _show_json if _JSON.value else _show
    model = _MODEL.value.rstrip("/")
    reranker = None
    if _RERANK.value:
        from bert_tf.serving import reranking

        reranker = reranking.load(_RERANK.value.rstrip("/"))
    for found in neighbours.find(model, _VECTORS.value, queries, _COUNT.value, _INDEX.value):
        show(found if reranker is None else neighbours.ordered(found, reranker))


def _show(found: "Neighbours") -> None:
    """Prints the neighbours of a query as a table."""
    print(_shortened(_texts(found.query)))
    for rank, near in enumerate(found.found, 1):
        print(f"{rank:5}  {near.similarity:7.4f}  {near.id}  {_shortened(near.texts)}")


def _show_json(found: "Neighbours") -> None:
    """Prints the neighbours of a query as an object."""
    near = [
        {"rank": rank, "similarity": round(one.similarity, 6), "id": one.id} | _named(one.texts)
        for rank, one in enumerate(found.found, 1)
    ]
    described = {"query": _named(_texts(found.query)), "neighbours": near}
    print(json.dumps(described, ensure_ascii=False))


def _texts(example: "TextExample") -> tuple[str, ...]:
    return tuple(text for text in (example.text_a, example.text_b) if text is not None)


def _named(texts: tuple[str, ...]) -> dict[str, str]:
    """Texts by the names that `embed` gives them."""
    return dict(zip(("text_a", "text_b") if len(texts) > 1 else ("text",), texts, strict=True))


def _shortened(texts: tuple[str, ...]) -> str:
    """Texts in one line, shortened if they are long."""
    return shorten(" | ".join(" ".join(text.split()) for text in texts), _MAX_SHOWN)
