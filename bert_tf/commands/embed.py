r"""Writes a vector for each text of a file, with the encoder of a model.

  bert-tf embed --model=savedmodels/pretrained --input=texts.txt --output=vectors.npy
  bert-tf embed --model=all-MiniLM-L6-v2 --input=reviews.csv --columns=text=review \
      --output=vectors.npy --normalize --max_seq_length=256

The model is any that `convert` reads, fine-tuned or not. The input has one text per line (also
empty ones), or is a table (.tsv, .csv, .jsonl, .parquet, .xlsx); row n of the output is its nth
text. Run the same command again to resume a run that was stopped. `neighbours` searches the file.
"""

from absl import flags

from bert_tf.commands.flag_texts import HEADER_HELP, OUTPUT_HELP, TEXT_COLUMNS_HELP
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.commands.shared_flags import EncodingFlags
from pipelines.common import command_line, flag_types
from pipelines.common.texts import counted

_MODEL = flags.DEFINE_string(
    "model", None, "The model: any that `bert-tf convert` reads.", required=True
)
_INPUT = flags.DEFINE_string(
    "input", None, "File of texts; may be compressed (.gz, .bz2, .xz, .zst).", required=True
)
_OUTPUT = flag_types.define_path("output", None, OUTPUT_HELP, required=True)
_COLUMNS = flags.DEFINE_list("columns", [], TEXT_COLUMNS_HELP)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_ENCODING = EncodingFlags()
EmbeddingSettings.define_flags()


def main() -> None:
    """Writes the vectors that the flags describe."""
    settings = EmbeddingSettings.from_flags()
    from bert_tf.vectors import run
    from pipelines.labelled.text_files import TextFile

    columns = command_line.pairs(_COLUMNS.value, "--columns")
    source = TextFile(_INPUT.value, columns, _HEADER.value, _ENCODING.value)
    model = _MODEL.value.rstrip("/")
    found, known = run.write(model, source, _OUTPUT.value, settings)
    if known:
        print(f"{_OUTPUT.value}: exists; nothing to do.")
        return
    vectors = counted(found["rows"], "vector")
    print(f"{_OUTPUT.value}: {vectors} of {counted(found['shape'][0], 'number')}")
