r"""Adds words of a field to the vocabulary of a model, for further pre-training.

  bert-tf extend-vocabulary --model=uncased_L-12_H-768_A-12 --corpus='notes/*.txt' --count=2000 \
      --output=savedmodels/extended
  bert-tf extend-vocabulary --model=savedmodels/base --words=terms.txt --output=savedmodels/extended

Words that the vocabulary takes apart become tokens: those of a list, one per line, or those of a
corpus that save the most tokens. Each begins as the mean of its pieces. Then pre-train the model
further on such text (INIT=savedmodels/extended make pretrain).
"""

import functools
from typing import Any

from absl import flags

from pipelines.commands.shared_flags import CorpusFlags
from pipelines.common import flag_types
from pipelines.common.errors import InputError

_MODEL = flags.DEFINE_string(
    "model", None, "The model: any that `bert-tf convert` reads.", required=True
)
_CORPUS = CorpusFlags(required=False)
_WORDS = flags.DEFINE_string("words", None, "File of words, one per line. Not given: --corpus.")
_COUNT = flags.DEFINE(
    flag_types.NumberParser(int, minimum=1), "count", 1000, "Words to add from the corpus, at most."
)
_OUTPUT = flag_types.define_path("output", None, "Folder to write.", required=True)


def main() -> None:
    """Writes the model with more words."""
    if (_WORDS.value is None) == (_CORPUS.names.value is None):
        raise InputError("name either a corpus (--corpus) or a list of words (--words).")
    from bert_tf import weights
    from bert_tf.weights import extension
    from pipelines.tokenizers import learning, vocabulary, wordpiece

    model = weights.read(_MODEL.value)
    saved = {}
    if _WORDS.value:
        words = vocabulary.read_lines(_WORDS.value)
    else:
        extension.vocabulary_of(model)  # raises InputError unless it can be extended
        settings: Any = model.resolved_settings()
        split = functools.partial(wordpiece.split_words, **settings)
        counts = learning.count_words(
            _CORPUS.corpus(), _CORPUS.options(), split, sample_bytes=200_000_000, seed=1
        )
        saved = dict(extension.candidates(model, counts, _COUNT.value))
        words = list(saved)
    extended, added = extension.with_words(model, words)
    if not added:
        raise InputError("every word is one token already, or too rare; there is nothing to add.")
    weights.write(extended, _OUTPUT.value)
    print(
        f"{_OUTPUT.value}: {len(added):,} words more, such as {', '.join(added[:5])}; "
        f"{len(extended.require_vocabulary()):,} tokens"
    )
    if saved:
        total = sum(saved.values())
        print(f"Texts like the corpus get {total:,} tokens fewer for {counts.total():,} words.")
