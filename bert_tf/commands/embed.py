r"""Writes a vector for each text of a file, with the encoder of a model.

  bert-tf embed --model=savedmodels/pretrained --input=texts.txt --output=vectors.npy
  bert-tf embed --model=all-MiniLM-L6-v2 --input=reviews.csv --columns=text=review \
      --output=vectors.npy --normalize --max_seq_length=256

The model is any that `convert` reads, fine-tuned or not. The input has one text per line (also
empty ones), or is a table (.tsv, .csv, .jsonl, .parquet, .xlsx); row n of the output is its nth
text. Run the same command again to resume a run that was stopped. `neighbours` searches the file.
"""

from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.commands.shared_flags import TextTable
from pipelines.common.flag_types import Path
from pipelines.common.texts import counted


def main(
    *, model: Path, input: Path, output: Path, table: TextTable, settings: EmbeddingSettings
) -> None:
    """Writes the vectors that the flags describe.

    Flags:
      model: The model: any that `bert-tf convert` reads.
      input: File of texts; may be compressed (.gz, .bz2, .xz, .zst).
      output: What to write: a .npy file, with the texts next to it; a .jsonl file, as
        extract_features of google-research/bert writes it; or a folder of .npy and .jsonl files, if
        the name has no ending.
    """
    from bert_tf.vectors import run

    found, known = run.write(model, table.text_file(input), output, settings)
    if known:
        print(f"{output}: exists; nothing to do.")
        return
    vectors = counted(found["rows"], "vector")
    print(f"{output}: {vectors} of {counted(found['shape'][0], 'number')}")
