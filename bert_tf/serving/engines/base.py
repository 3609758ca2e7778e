"""The interface of engines, which compute what stands between the halves of a program."""

import abc
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.signatures import Computation


class Sequences(NamedTuple):
    """Packed sequences, int32 [sequences, length] each.

    Attributes:
      ids: of the tokens.
      mask: 1 for tokens, 0 for padding, which stands at the end.
      types: the segments.
    """

    ids: np.ndarray
    mask: np.ndarray
    types: np.ndarray


# Results of sequences, whose first axis is theirs.
Compute = Callable[[Sequences], Sequence[np.ndarray]]


class ComputeEngine(abc.ABC):
    """Computes for a program."""

    @abc.abstractmethod
    def load(self, computation: Computation) -> Compute:
        """What computes; several threads may call it at once.

        Args:
          computation: of a model with its weights.

        Raises:
          InputError: this engine cannot compute it.
        """
