"""Learns a WordPiece vocabulary from a corpus.

python -m pipelines.learn_vocabulary --input='corpus/*.txt' --output=vocab.txt --vocab_size=30000
"""

from absl import flags

from pipelines import commands, corpus, corpus_flags, files, vocabulary, word_counts

_OUTPUT = flags.DEFINE_string("output", None, "The vocab.txt to write.", required=True)
_SIZE = flags.DEFINE_integer("vocab_size", 30_000, "Tokens, special ones included.")
_COVERAGE = flags.DEFINE_float(
    "character_coverage", 1.0, "Share of the running characters that get a token."
)
_SAMPLE = flags.DEFINE_integer("sample_megabytes", 200, "About how much text to learn from.")
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the sample.")


def main() -> None:
    """Learns the vocabulary unless it is there."""
    path = _OUTPUT.value
    if files.gfile.exists(path):
        print(f"{path}: is there; nothing to do.")
        return
    words = word_counts.count_words(
        corpus.open_corpus(corpus_flags.INPUT.value, corpus_flags.FORMAT.value),
        corpus.ReadOptions(corpus_flags.TEXT_FIELD.value, corpus_flags.UTF8_ERRORS.value),
        lower_case=corpus_flags.lower_case() is not False,
        strip_accents=corpus_flags.strip_accents(),
        sample_bytes=_SAMPLE.value * 1_000_000,
        seed=_SEED.value,
    )
    tokens = vocabulary.learn(words, _SIZE.value, _COVERAGE.value)
    vocabulary.save(tokens, path)
    print(f"{path}: {len(tokens):,} tokens from {words.total():,} words")


if __name__ == "__main__":
    commands.run(main)
