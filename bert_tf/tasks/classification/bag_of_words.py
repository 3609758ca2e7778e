"""Classification by the words of texts alone: TF-IDF and logistic regression."""

import functools

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from pipelines.labelled.schema import TextExample

_MAX_EXAMPLES = 10_000  # of the training data, drawn at random: seconds even for many labels
_MAX_WEIGHTS = 1_000_000
_MAX_FEATURES = 50_000
_MAX_WORD = 15  # characters, on average; longer "words" are of a script without spaces


@functools.lru_cache(maxsize=4)  # all trials of a search have the same data
def predict(
    training: tuple[TextExample, ...], labels: tuple[str, ...], examples: tuple[TextExample, ...]
) -> np.ndarray:
    """Probabilities of labels [examples, labels], learned from words and pairs of words.

    Of texts without spaces, characters and pairs of characters take their place. The training data
    must have two labels; if they are drawn from, each label keeps an example.
    """
    if len(training) > _MAX_EXAMPLES:
        drawn = [training[index] for index in np.random.default_rng(0).permutation(len(training))]
        drawn, rest = drawn[:_MAX_EXAMPLES], drawn[_MAX_EXAMPLES:]
        known = {example.truth for example in drawn}
        rare = {example.truth: example for example in rest if example.truth not in known}
        training = (*drawn, *rare.values())
    texts, others = (
        [f"{e.text_a} {e.text_b or ''}" for e in part] for part in (training, examples)
    )
    unspaced = sum(map(len, texts)) > _MAX_WORD * sum(len(text.split()) for text in texts)
    vectorizer = TfidfVectorizer(
        analyzer="char" if unspaced else "word",
        token_pattern=None if unspaced else r"\w+|[^\w\s]",
        ngram_range=(1, 2),
        sublinear_tf=True,
        max_features=min(_MAX_FEATURES, _MAX_WEIGHTS // len(labels)),
    )
    model = LogisticRegression(C=10, max_iter=100, tol=1e-3)
    model.fit(vectorizer.fit_transform(texts), [example.truth for example in training])
    found = np.zeros((len(examples), len(labels)))
    places = [labels.index(label) for label in model.classes_]
    found[:, places] = model.predict_proba(vectorizer.transform(others))
    return found
