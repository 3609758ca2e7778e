r"""Writes a vector for each text of a file, with the encoder of a model.

  bert-tf embed --model=savedmodels/pretrained --input=texts.txt --output=vectors.npy
  bert-tf embed --model=all-MiniLM-L6-v2 --input=reviews.csv --columns=text=review \
      --output=vectors.jsonl --normalize --max_seq_length=256

The model is any that `convert` reads, fine-tuned or not. The input has one text per line (also
empty ones), or is a table (.tsv, .csv, .jsonl, .parquet, .xlsx); row n of the output is its nth
text. Run the same command again to resume a run that was stopped. `neighbours` searches the file.
"""

from bert_tf.vectors.settings import EmbeddingSettings, VectorFormat
from pipelines.commands.shared_flags import TextTable
from pipelines.common.flag_types import Path
from pipelines.common.texts import counted


def main(
    *,
    model: Path,
    input: str,
    output: Path,
    format: VectorFormat | None = None,
    table: TextTable,
    settings: EmbeddingSettings,
) -> None:
    """Writes the vectors that the flags describe.

    Flags:
      model: The model: any that `bert-tf convert` reads.
      input: File of texts; may be compressed (.gz, .bz2, .xz, .zst).
      output: File to write.
      format: Format to write: NumPy, JSON Lines, or TFRecords of tf.Example. Not given: by the
        ending of --output.
    """
    from bert_tf.vectors import run

    found, known = run.embed_file(model, table.text_file(input), output, settings, format)
    if known:
        print(f"{output}: exists; nothing to do.")
        return
    vectors = counted(found["rows"], "vector")
    print(f"{output}: {vectors} of {counted(found['width'], 'number')}")
