"""What models predict for an example, by the shape of the task."""

from typing import NamedTuple

import numpy as np

_NO_SCORE = -1e9  # of a question without candidates: finite, so that JSON has it


class ClassPrediction(NamedTuple):
    """The most probable label, and the probabilities of all."""

    label: str
    probabilities: np.ndarray


class Candidate(NamedTuple):
    """A possible answer: its text, the logits of its ends, and its bytes in the context."""

    text: str
    start_logit: float
    end_logit: float
    start: int
    end: int

    @property
    def score(self) -> float:
        """Sum of the logits."""
        return self.start_logit + self.end_logit


class SpanPrediction(NamedTuple):
    """Candidates, the best first, and the score of no answer."""

    candidates: tuple[Candidate, ...]
    null_score: float

    @property
    def null_odds(self) -> float:
        """Score of no answer minus that of the best candidate."""
        return self.null_score - (self.candidates[0].score if self.candidates else _NO_SCORE)


class TagsPrediction(NamedTuple):
    """A tag for each word, and its probability."""

    tags: tuple[str, ...]
    probabilities: np.ndarray


class ChoicePrediction(NamedTuple):
    """The index of the chosen one, and the probabilities of all choices."""

    choice: int
    probabilities: np.ndarray
