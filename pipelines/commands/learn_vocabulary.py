"""Learns a vocabulary from a corpus.

  bert-tf learn-vocabulary --corpus='corpus/*.txt' --output=vocab.txt --vocab_size=30000
  bert-tf learn-vocabulary --corpus='corpus/*.txt' --output=vocabularies/mine --kind=byte_bpe
  bert-tf learn-vocabulary --corpus='corpus/*.txt' --output=vocabularies/words --kind=word

An existing vocabulary that was learned from the same files with the same settings is kept.
"""

from pipelines.commands.shared_flags import CorpusFlags, RunnerFlags, TokenizerFlags
from pipelines.common import flag_types
from pipelines.tokenizers.settings import LearningSettings

_CORPUS = CorpusFlags()
_OUTPUT = flag_types.define_path(
    "output",
    None,
    "File to write, such as vocab.txt; for all kinds but wordpiece a folder.",
    required=True,
)
_TOKENIZER = TokenizerFlags()
_RUNNER = RunnerFlags()
LearningSettings.define_flags()


def prepare() -> None:
    """Starts what the workers need, while TensorFlow is imported."""
    _RUNNER.prepare("pipelines.tokenizers.learning")


def main() -> None:
    """Learns the vocabulary unless it exists."""
    path, settings = _OUTPUT.value, LearningSettings.from_flags()
    from pipelines.tokenizers import learning

    runner = _RUNNER.runner()
    corpus, options = _CORPUS.corpus(), _CORPUS.options()
    found = learning.learn(corpus, options, settings, _TOKENIZER.chosen(), path, runner)
    if found is None:
        print(f"{path}: exists; nothing to do.")
        return
    vocabulary, words = found
    print(f"{path}: {len(vocabulary):,} tokens from {words:,} words")
