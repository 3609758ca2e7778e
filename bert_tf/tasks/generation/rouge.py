"""ROUGE (Lin 2004): the words that a text shares with the right one."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np

# Characters of scripts without spaces, which count as words.
_ALONE = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")


def scores(truth: Sequence[str], guesses: Sequence[str]) -> dict[str, np.ndarray]:
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L of each text, float64 [texts]."""
    pairs = [(_words(true), _words(guess)) for true, guess in zip(truth, guesses, strict=True)]
    return {
        "rouge_1": np.array([_of_ngrams(true, guess, 1) for true, guess in pairs]),
        "rouge_2": np.array([_of_ngrams(true, guess, 2) for true, guess in pairs]),
        "rouge_l": np.array(
            [_f1(_common_subsequence(*pair), len(pair[0]), len(pair[1])) for pair in pairs]
        ),
    }


def _words(text: str) -> list[str]:
    """On texts of ASCII, those of the package rouge-score, which drops all other characters."""
    text = unicodedata.normalize("NFC", text.lower())
    # Letters, marks and numbers, of any script.
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text)
    return _ALONE.sub(r" \1 ", kept).split()


def _of_ngrams(true: list[str], guess: list[str], size: int) -> float:
    """F1 of the n-grams that both have, each as often as it is in both."""
    ours, theirs = (
        Counter(zip(*(words[start:] for start in range(size)), strict=False))
        for words in (true, guess)
    )
    return _f1((ours & theirs).total(), ours.total(), theirs.total())


def _common_subsequence(true: list[str], guess: list[str]) -> int:
    """Length of the longest common subsequence (Lin 2004, section 3)."""
    longest = [0] * (len(guess) + 1)  # of what was read of `true`, and each start of `guess`
    for word in true:
        before = 0
        for place, other in enumerate(guess, 1):
            above = longest[place]
            longest[place] = before + 1 if word == other else max(above, longest[place - 1])
            before = above
    return longest[-1]


def _f1(common: int, true: int, guess: int) -> float:
    return 2 * common / (true + guess) if common else 0.0
