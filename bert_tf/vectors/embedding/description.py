"""<file>.json beside a file of vectors: what they were made of, and how far that is."""

from bert_tf.vectors.embedding.formats import VectorFormat
from bert_tf.vectors.encoding import description
from bert_tf.vectors.encoding.description import Count, OutputKind, State


class Description(State):
    """What a file of vectors says of itself; more of what it was made of besides."""

    format: VectorFormat
    width: Count


KIND = OutputKind("bert_tf.embed", "vectors", "bert-tf embed", Description)


def path_of(path: str) -> str:
    """The description of a file of vectors."""
    return f"{path}.json"


def find(path: str) -> Description | None:
    """The description of a file of vectors; None if there is none.

    Raises:
      InputError: what is in its place is of something else, or damaged.
    """
    return description.find(path_of(path), KIND)
