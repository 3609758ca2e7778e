r"""Prints the perplexity of a text file under a left-to-right model.

  bert-tf perplexity --model=savedmodels/gpt --corpus='texts/*.txt'

The files are read as a corpus is, in its formats. Each token is predicted after all of its document
that precedes it, or at least half a window. Perplexities per token are
comparable between models of one tokenizer; the others between tokenizers that change no text.
"""

from pipelines.common.flag_types import Path


def main(*, model: Path, corpus: str) -> None:
    """Scores the files that the flags name.

    Flags:
      model: The model: any left-to-right one that `bert-tf convert` reads.
      corpus: Files or globs, separated by commas.
    """
    from tqdm import tqdm

    from bert_tf.export import sources
    from bert_tf.generation import perplexity
    from pipelines.common.errors import InputError
    from pipelines.corpus import reader

    source = sources.read(model)
    network, tokenizer = source.bundle.language_model(), source.bundle.tokenizer()
    if not network.config.causal:
        raise InputError(
            f"{model}: reads whole texts; only left-to-right models (GPT) have a perplexity."
        )
    documents = reader.documents(reader.open_corpus(corpus), reader.ReadOptions())
    shown = tqdm(documents, unit="document")
    found = perplexity.score(network, tokenizer, shown, source.max_seq_length)
    print(
        f"{found.texts:,} documents, {found.tokens:,} tokens\n"
        f"perplexity {found.perplexity:.2f} per token, {found.word_perplexity:.2f} per word, "
        f"{found.bits_per_byte:.3f} bits per byte"
    )
