"""Files of texts and outputs that cannot be, and what is odd about texts."""

import os
from collections.abc import Iterable, Sequence

import numpy as np
from absl import logging

from bert_tf.vectors.encoding.description import Counts
from pipelines.common import files
from pipelines.common.errors import InputError


def check_input(path: str) -> None:
    """Raises InputError where texts can be read but once, so that no run could go on."""
    if path == "-" or ("://" not in path and os.path.exists(path) and not os.path.isfile(path)):
        raise InputError(f"{path}: is no file that can be read again; write the texts to one.")


def check_outputs(source: str, outputs: Sequence[str]) -> None:
    """Raises InputError where a file to write is a folder, or the file to read."""
    for path in outputs:
        if files.gfile.isdir(path):
            raise InputError(f"{path}: is a folder; name a file to write (OUT=).")
        if path == source or ("://" not in path and _is_same(path, source)):
            raise InputError(f"{path}: is the file of the texts; name another one to write (OUT=).")


def _is_same(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def changed(path: str) -> InputError:
    """The error of a file that has other rows than it had."""
    return InputError(f"{path}: was changed while it was read; run the command again.")


def count(texts: Iterable[str], lengths: np.ndarray, max_length: int) -> Counts:
    """What is odd about some texts.

    Args:
      texts: those of a row as one.
      lengths: int64 [rows], the tokens of each, also those beyond `max_length`.
      max_length: tokens that a row may have.
    """
    return {
        "cut": int((lengths > max_length).sum()),
        "longest": int(lengths.max()),
        "empty": sum(not text.strip() for text in texts),
    }


def report(counts: Counts, rows: int, max_length: int, what: str) -> None:
    """Tells what was odd about the texts; `what` an empty one has, too."""
    if counts["cut"]:
        logging.warning(
            "texts of more than --max_length=%d tokens, which were cut: %d of %d; the longest "
            "has %d.",
            *(max_length, counts["cut"], rows, counts["longest"]),
        )
    if counts["empty"]:
        logging.warning("empty texts: %d of %d; they have %s, too.", counts["empty"], rows, what)
