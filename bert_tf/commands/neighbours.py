r"""Finds the nearest neighbours of texts among the vectors that `embed` wrote.

  bert-tf neighbours --vectors=vectors.npy --model=savedmodels/pretrained --query="a text" --count=5
  bert-tf neighbours --vectors=vectors.npy --model=savedmodels/pretrained --queries=texts.txt --json

Prints the similarity (the cosine; the dot product for models that are compared by it), the id (in a
file with one text per line, the number of the line from 0) and the text of each neighbour of each
query, the nearest first.
"""

from collections.abc import Iterable
from json import dumps
from typing import TYPE_CHECKING, Annotated

from pipelines.commands.shared_flags import TextTable
from pipelines.common.errors import InputError
from pipelines.common.flag_types import REPEATED, Count, Path
from pipelines.common.texts import shorten

if TYPE_CHECKING:
    from bert_tf.vectors.neighbours import Neighbours
    from pipelines.labelled.schema import TextExample

_MAX_SHOWN = 100  # characters of a text


def main(
    *,
    vectors: Path,
    model: Path,
    query: Annotated[str | None, REPEATED] = None,
    queries: Path | None = None,
    count: Count = 10,
    rerank: Path | None = None,
    index: bool = False,
    prompt: str | None = None,
    json: bool = False,
    table: TextTable,
) -> None:
    """Prints the neighbours that the flags ask for.

    Flags:
      vectors: File or folder that `bert-tf embed` wrote.
      model: The model that the vectors were made with.
      query: Text to search for; may be given several times. Not given: --queries names a file.
      queries: File of texts, like the input of `bert-tf embed`; - for standard input. Not given:
        --query.
      count: Number of neighbours of each query.
      rerank: A model of choices or of pairs, which orders the neighbours of single texts anew. Not
        given: none.
      index: Search an index of faiss beside the vectors, which is made once: faster for many
        queries, and may miss some neighbours.
      prompt: Name of the prompt of the model that begins each query. Not given: that of the
        vectors.
      json: Print a line of JSON for each query.
    """
    if bool(query) == bool(queries):
        raise InputError("name either one or more texts with --query, or a file with --queries.")
    from bert_tf.vectors import neighbours
    from pipelines.labelled.schema import TextExample

    texts: Iterable[TextExample]
    if queries:
        texts = table.text_file("/dev/stdin" if queries == "-" else queries)
    else:
        texts = [TextExample(str(n), "--query", text) for n, text in enumerate(query or (), 1)]
    reranker = None
    if rerank:
        from bert_tf.serving import reranking

        reranker = reranking.load(rerank)
    for found in neighbours.find(model, vectors, texts, count, index, prompt):
        nearest = found if reranker is None else neighbours.ordered(found, reranker)
        (_show_json if json else _show)(nearest)


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
    print(dumps(described, ensure_ascii=False))


def _texts(example: "TextExample") -> tuple[str, ...]:
    return tuple(text for text in (example.text_a, example.text_b) if text is not None)


def _named(texts: tuple[str, ...]) -> dict[str, str]:
    """Texts by the names that `embed` gives them."""
    return dict(zip(("text_a", "text_b") if len(texts) > 1 else ("text",), texts, strict=True))


def _shortened(texts: tuple[str, ...]) -> str:
    """Texts in one line, shortened if they are long."""
    return shorten(" | ".join(" ".join(text.split()) for text in texts), _MAX_SHOWN)
