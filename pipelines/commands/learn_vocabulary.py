"""Learns a vocabulary from a corpus.

  bert-tf learn-vocabulary --corpus='corpus/*.txt' --output=vocab.txt --vocab_size=30000
  bert-tf learn-vocabulary --corpus='corpus/*.txt' --output=vocabularies/mine --kind=byte_bpe
  bert-tf learn-vocabulary --corpus='corpus/*.txt' --output=vocabularies/words --kind=word

An existing vocabulary that was learned from the same files with the same settings is kept.
"""

from pipelines.commands.shared_flags import CorpusFlags, RunnerFlags, TokenizerFlags
from pipelines.common.flag_types import Path
from pipelines.tokenizers.settings import LearningSettings


def prepare(runner: RunnerFlags, **_: object) -> None:
    """Starts what the workers need, while TensorFlow is imported."""
    runner.start("pipelines.tokenizers.learning")


def main(
    *,
    corpus: CorpusFlags,
    output: Path,
    tokenizer: TokenizerFlags,
    runner: RunnerFlags,
    settings: LearningSettings,
) -> None:
    """Learns the vocabulary unless it exists.

    Flags:
      output: File to write, such as vocab.txt; for all kinds but wordpiece a folder.
    """
    from pipelines.tokenizers import learning

    workers, options, chosen = runner.runner(), corpus.options(), tokenizer.chosen()
    found = learning.learn(corpus.files(), options, settings, chosen, output, workers)
    if found is None:
        print(f"{output}: exists; nothing to do.")
        return
    vocabulary, words = found
    print(f"{output}: {len(vocabulary):,} tokens from {words:,} words")
