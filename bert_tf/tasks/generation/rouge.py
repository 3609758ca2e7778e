"""ROUGE (Lin 2004): the words that a text shares with the right one."""

import re
from collections.abc import Sequence

import numpy as np
from rouge_score import rouge_scorer

# Words of letters and digits of any script; characters of scripts without spaces are words.
_WORDS = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]|[^\W_]+", re.UNICODE
)
_KINDS = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}


class _Words:
    """A tokenizer; on texts of ASCII it equals that of the library, which drops all others."""

    def tokenize(self, text: str) -> list[str]:
        return _WORDS.findall(text.lower())


def scores(truth: Sequence[str], guesses: Sequence[str]) -> dict[str, np.ndarray]:
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L of each text, float64 [texts]."""
    scorer = rouge_scorer.RougeScorer(list(_KINDS.values()), tokenizer=_Words())
    found = [scorer.score(true, guess) for true, guess in zip(truth, guesses, strict=True)]
    return {
        name: np.array([each[kind].fmeasure for each in found]) for name, kind in _KINDS.items()
    }
