r"""Writes features of the tokens, words or texts of a file: hidden states of an encoder.

  bert-tf features --model=savedmodels/pretrained --input=texts.txt --output=features.jsonl
  bert-tf features --model=bert-base-cased --input=eng.train.conll --output=features \
      --unit=word --layers=-4,-3,-2,-1 --combine=concat

The model is any that `convert` reads, fine-tuned or not. The input has one text per line, or is a
table (.tsv, .csv, .jsonl, .parquet, .xlsx), or has one word per line (.conll, .conllu); labels and
tags are kept. Row n of the output is its nth text. Run the same command again to resume a run that
was stopped.
"""

from absl import flags

from bert_tf.commands.flag_texts import FEATURE_COLUMNS_HELP, HEADER_HELP, OUTPUT_HELP
from bert_tf.vectors.settings import FeatureSettings
from pipelines.commands.shared_flags import EncodingFlags
from pipelines.common import command_line, flag_types
from pipelines.common.errors import InputError
from pipelines.common.texts import counted

_MODEL = flags.DEFINE_string(
    "model", None, "The model: any that `bert-tf convert` reads.", required=True
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "File of texts or words; may be compressed (.gz, .bz2, .xz, .zst).",
    required=True,
)
_OUTPUT = flag_types.define_path("output", None, OUTPUT_HELP, required=True)
_COLUMNS = flags.DEFINE_list("columns", [], FEATURE_COLUMNS_HELP)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_ENCODING = EncodingFlags()
_WORDS = flags.DEFINE_bool(
    "words",
    None,
    "Whether the file has words: one per line with blank lines between sentences, or a sentence "
    "per row of a table. Not given: by the ending .conll or .conllu, or if --columns names words.",
)
_PAIR_SEPARATOR = flags.DEFINE_string(
    "pair_separator",
    None,
    "Separator of two texts in one line, such as ' ||| '. Not given: each line is one text.",
)
FeatureSettings.define_flags()


def main() -> None:
    """Writes the features that the flags describe."""
    settings = FeatureSettings.from_flags()
    from bert_tf.vectors import run
    from pipelines.labelled import text_files
    from pipelines.labelled.text_files import TextFile

    columns = command_line.pairs(_COLUMNS.value, "--columns")
    words = _WORDS.value
    if words is None:
        words = "words" in columns or text_files.is_word_file(_INPUT.value)
    source: TextFile | text_files.WordsFile
    if words:
        if _PAIR_SEPARATOR.value:
            raise InputError(
                f"--pair_separator: {_INPUT.value} has words, which do not make pairs."
            )
        source = text_files.WordsFile(_INPUT.value, columns, _HEADER.value, _ENCODING.value)
    else:
        source = TextFile(
            _INPUT.value,
            columns,
            _HEADER.value,
            _ENCODING.value,
            _PAIR_SEPARATOR.value,
            labelled=True,
        )
    model = _MODEL.value.rstrip("/")
    found, known = run.write(model, source, _OUTPUT.value, settings)
    if known:
        print(f"{_OUTPUT.value}: exists; nothing to do.")
        return
    shape = " x ".join(f"{size:,}" for size in found["shape"])
    print(f"{_OUTPUT.value}: {counted(found['rows'], 'text')}, {shape} numbers a {settings.unit}")
