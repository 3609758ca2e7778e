r"""Writes features of the tokens, words or texts of a file: hidden states of an encoder.

  bert-tf features --model=savedmodels/pretrained --input=texts.txt --output=features.jsonl
  bert-tf features --model=bert-base-cased --input=eng.train.conll --output=features \
      --unit=word --layers=-4,-3,-2,-1 --combine=concat

The model is any that `convert` reads, fine-tuned or not. The input has one text per line, or is a
table (.tsv, .csv, .jsonl, .parquet, .xlsx), or has one word per line (.conll, .conllu); labels and
tags are kept. Row n of the output is its nth text. Run the same command again to resume a run that
was stopped.
"""

from bert_tf.vectors.settings import FeatureSettings
from pipelines.commands.shared_flags import FeatureTable
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Path
from pipelines.common.texts import counted


def main(
    *,
    model: Path,
    input: Path,
    output: Path,
    table: FeatureTable,
    words: bool | None = None,
    pair_separator: str | None = None,
    settings: FeatureSettings,
) -> None:
    """Writes the features that the flags describe.

    Flags:
      model: The model: any that `bert-tf convert` reads.
      input: File of texts or words; may be compressed (.gz, .bz2, .xz, .zst).
      output: What to write: a .npy file, with the texts next to it; a .jsonl file, as
        extract_features of google-research/bert writes it; or a folder of .npy and .jsonl files, if
        the name has no ending.
      words: Whether the file has words: one per line with blank lines between sentences, or a
        sentence per row of a table. Not given: by the ending .conll or .conllu, or if --columns
        names words.
      pair_separator: Separator of two texts in one line, such as ' ||| '. Not given: each line is
        one text.
    """
    from bert_tf.vectors import run
    from pipelines.labelled import text_files

    if words is None:
        words = "words" in table.roles or text_files.is_word_file(input)
    if words and pair_separator:
        raise InputError(f"--pair_separator: {input} has words, which do not make pairs.")
    source: text_files.TextFile | text_files.WordsFile
    if words:
        source = text_files.WordsFile(input, table.roles, table.header, table.codec)
    else:
        source = table.text_file(input, pair_separator=pair_separator, labelled=True)
    found, known = run.write(model, source, output, settings)
    if known:
        print(f"{output}: exists; nothing to do.")
        return
    shape = " x ".join(f"{size:,}" for size in found["shape"])
    print(f"{output}: {counted(found['rows'], 'text')}, {shape} numbers a {settings.unit}")
