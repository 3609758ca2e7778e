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

from pipelines.commands.shared_flags import OptionalCorpus
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Path


def main(
    *,
    model: Path,
    corpus: OptionalCorpus,
    words: str | None = None,
    count: Count = 1000,
    output: Path,
) -> None:
    """Writes the model with more words.

    Flags:
      model: The model: any that `bert-tf convert` reads.
      words: File of words, one per line. Not given: --corpus.
      count: Words to add from the corpus, at most.
      output: Folder to write.
    """
    if bool(words) == bool(corpus.corpus):
        raise InputError("name either a corpus (--corpus) or a list of words (--words).")
    from bert_tf import weights
    from bert_tf.weights import extension
    from pipelines.common import files
    from pipelines.tokenizers import learning, vocabulary, wordpiece

    files.check_absent(output)
    bundle = weights.read(model)
    saved = {}
    if words:
        chosen = vocabulary.read_lines(words)
    else:
        extension.vocabulary_of(bundle)  # raises InputError unless it can be extended
        settings: Any = bundle.resolved_settings()
        split = functools.partial(wordpiece.split_words, **settings)
        counts = learning.count_words(
            corpus.files(), corpus.options(), split, sample_bytes=200_000_000, seed=1
        )
        saved = dict(extension.candidates(bundle, counts, count))
        chosen = list(saved)
    extended, added = extension.with_words(bundle, chosen)
    if not added:
        raise InputError("every word is one token already, or too rare; there is nothing to add.")
    weights.write(extended, output)
    print(
        f"{output}: {len(added):,} words more, such as {', '.join(added[:5])}; "
        f"{len(extended.require_vocabulary()):,} tokens"
    )
    if saved:
        total = sum(saved.values())
        print(f"Texts like the corpus get {total:,} tokens fewer for {counts.total():,} words.")
