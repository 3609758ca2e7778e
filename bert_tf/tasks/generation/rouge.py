"""ROUGE (Lin 2004): the words that a text shares with the right one."""

import functools
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from rouge_score import rouge_scorer

# Characters of scripts without spaces, which count as words.
_ALONE = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
_KINDS = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}


class _Words:
    """A tokenizer; on texts of ASCII it equals that of the library, which drops all others."""

    def tokenize(self, text: str) -> list[str]:
        text = unicodedata.normalize("NFC", text.lower())
        # Letters, marks and numbers, of any script.
        kept = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text)
        return _ALONE.sub(r" \1 ", kept).split()


@functools.cache
def _scorer() -> rouge_scorer.RougeScorer:
    return rouge_scorer.RougeScorer(list(_KINDS.values()), tokenizer=_Words())


def scores(truth: Sequence[str], guesses: Sequence[str]) -> dict[str, np.ndarray]:
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L of each text, float64 [texts]."""
    scorer = _scorer()
    found = [scorer.score(true, guess) for true, guess in zip(truth, guesses, strict=True)]
    return {
        name: np.array([each[kind].fmeasure for each in found]) for name, kind in _KINDS.items()
    }
