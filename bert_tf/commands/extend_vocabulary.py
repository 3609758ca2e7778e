r"""Adds words of a field, or tokens that are kept whole, to the vocabulary of a model.

  bert-tf extend-vocabulary --model=uncased_L-12_H-768_A-12 --corpus='notes/*.txt' --count=2000 \
      --output=savedmodels/extended
  bert-tf extend-vocabulary --model=savedmodels/base --words=terms.txt --output=savedmodels/extended
  bert-tf extend-vocabulary --model=savedmodels/base --keep_tokens='<e1>,</e1>' --output=marked

Words that the vocabulary takes apart become tokens: those of a list, one per line, or those of a
corpus that save the most tokens. Each begins as the mean of its pieces. Then pre-train the model
further on such text (INIT=savedmodels/extended make pretrain).

Marks such as <e1>, or [unused1] of the vocabulary, are kept whole by --keep_tokens: each is one
token wherever it stands. The model learns them in fine-tuning.
"""

import functools
from typing import Any

from pipelines.commands.shared_flags import OptionalCorpus
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Path

_COUNT = 1000  # words that are added, unless told otherwise


def main(
    *,
    model: Path,
    corpus: OptionalCorpus,
    words: str | None = None,
    count: Count | None = None,
    keep_tokens: list | None = None,
    output: Path,
) -> None:
    """Writes the model with more words, or with tokens that are kept whole.

    Flags:
      model: The model: any that `bert-tf convert` reads.
      words: File of words, one per line. Not given: --corpus.
      count: Words to add from the corpus, at most. Not given: 1000.
      keep_tokens: Tokens that are kept whole in texts, such as <e1>,</e1>; they are added if the
        vocabulary lacks them. Not given: none.
      output: Folder to write.
    """
    if bool(words) + bool(corpus.corpus) + bool(keep_tokens) != 1:
        raise InputError(
            "name either a corpus (--corpus), a list of words (--words) or marks (--keep_tokens)."
        )
    if count is not None and not corpus.corpus:
        raise InputError("--count: is for words from a corpus; leave it out.")
    from bert_tf import weights
    from bert_tf.weights import extension
    from pipelines.common import files
    from pipelines.tokenizers import learning, vocabulary, wordpiece

    files.check_absent(output)
    bundle = weights.read(model)
    if keep_tokens:
        marked = extension.with_kept_tokens(bundle, keep_tokens)
        weights.write(marked, output)
        print(
            f"{output}: {', '.join(keep_tokens)} are tokens; "
            f"{len(marked.require_vocabulary()):,} in all"
        )
        return
    saved = {}
    if words:
        chosen = vocabulary.read_lines(words)
    else:
        extension.vocabulary_of(bundle)  # raises InputError unless it can be extended
        settings: Any = bundle.tokenizer().all_settings
        split = functools.partial(wordpiece.split_words, **settings)
        counts = learning.count_words(
            corpus.files(), corpus.options(), split, sample_bytes=200_000_000, seed=1
        )
        saved = dict(extension.candidates(bundle, counts, count or _COUNT))
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
