r"""Prints the perplexity of a text file under a left-to-right model.

  bert-tf perplexity --model=savedmodels/gpt --corpus='texts/*.txt'

The files are read as a corpus is, in its formats. Each token is predicted after all of its document
that precedes it, or at least half a window. Perplexities per token are
comparable between models of one tokenizer; the others between tokenizers that change no text.
"""

from absl import flags

_MODEL = flags.DEFINE_string(
    "model", None, "The model: any left-to-right one that `bert-tf convert` reads.", required=True
)
_CORPUS = flags.DEFINE_string("corpus", None, "Files or globs, separated by commas.", required=True)


def main() -> None:
    """Scores the files that the flags name."""
    from tqdm import tqdm

    from bert_tf.export import sources
    from bert_tf.generation import perplexity
    from pipelines.common.errors import InputError
    from pipelines.corpus import reader

    source = sources.read(_MODEL.value.rstrip("/"))
    model, tokenizer = source.bundle.language_model(), source.bundle.tokenizer()
    if not model.config.causal:
        raise InputError(
            f"{_MODEL.value}: reads whole texts; only left-to-right models (GPT) have a perplexity."
        )
    documents = reader.documents(reader.open_corpus(_CORPUS.value), reader.ReadOptions())
    shown = tqdm(documents, unit="document")
    found = perplexity.score(model, tokenizer, shown, source.max_seq_length)
    print(
        f"{found.texts:,} documents, {found.tokens:,} tokens\n"
        f"perplexity {found.perplexity:.2f} per token, {found.word_perplexity:.2f} per word, "
        f"{found.bits_per_byte:.3f} bits per byte"
    )
