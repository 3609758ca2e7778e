"""Learns a vocabulary from a corpus.

bert-tf learn-vocabulary --input='corpus/*.txt' --output=vocab.txt --vocab_size=30000
bert-tf learn-vocabulary --input='corpus/*.txt' --output=vocabularies/mine --kind=byte_bpe
"""

from pipelines.commands import corpus_flags, text_flags
from pipelines.common import command_line
from pipelines.tokenizers.settings import LearningSettings

_OUTPUT = command_line.define_path(
    "output", None, "What to write: a vocab.txt, or of byte_bpe a folder.", required=True
)
LearningSettings.define_flags()


def main() -> None:
    """Learns the vocabulary unless it is there."""
    path, settings = _OUTPUT.value, LearningSettings.from_flags()
    from pipelines.tokenizers import learning

    corpus, options = corpus_flags.corpus(), corpus_flags.options()
    found = learning.learn(corpus, options, settings, text_flags.chosen(), path)
    if found is None:
        print(f"{path}: is there; nothing to do.")
        return
    vocabulary, words = found
    print(f"{path}: {len(vocabulary):,} tokens from {words:,} words")
