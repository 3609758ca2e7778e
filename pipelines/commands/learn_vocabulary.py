"""Learns a vocabulary from a corpus.

  bert-tf learn-vocabulary --input='corpus/*.txt' --output=vocab.txt --vocab_size=30000
  bert-tf learn-vocabulary --input='corpus/*.txt' --output=vocabularies/mine --kind=byte_bpe
  bert-tf learn-vocabulary --input='corpus/*.txt' --output=vocabularies/words --kind=word

A vocabulary that is there, and was learned from the same files in the same way, is left as it is.
"""

from pipelines.commands.corpus_flags import CorpusFlags
from pipelines.commands.runner_flags import RunnerFlags
from pipelines.commands.text_flags import TextFlags
from pipelines.common import flag_types
from pipelines.tokenizers.settings import LearningSettings

_CORPUS = CorpusFlags()
_OUTPUT = flag_types.define_path(
    "output",
    None,
    "What to write: a vocab.txt; of byte_bpe and word a folder.",
    required=True,
)
_TEXT = TextFlags()
_RUNNER = RunnerFlags()
LearningSettings.define_flags()


def main() -> None:
    """Learns the vocabulary unless it is there."""
    path, settings = _OUTPUT.value, LearningSettings.from_flags()
    from pipelines.tokenizers import learning

    runner = _RUNNER.runner()
    corpus, options = _CORPUS.corpus(), _CORPUS.options()
    found = learning.learn(corpus, options, settings, _TEXT.chosen(), path, runner)
    if found is None:
        print(f"{path}: is there; nothing to do.")
        return
    vocabulary, words = found
    print(f"{path}: {len(vocabulary):,} tokens from {words:,} words")
