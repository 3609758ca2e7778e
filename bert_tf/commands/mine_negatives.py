r"""Writes pairs for training a reranker, with hard negatives found by a model of embeddings.

  bert-tf mine-negatives --model=savedmodels/embedder --input=questions.tsv \
      --output=rerank/train.tsv
  bert-tf finetune --task=pair --data=rerank --init=savedmodels/pretrained
  bert-tf neighbours --model=savedmodels/embedder --vectors=vectors.npy --query="a question" \
      --rerank=savedmodels/finetuned/pair

The input has pairs of texts that belong together (text_a, text_b). The output has them with the
label 1, and with the label 0 each text_a with the texts nearest to it that are not its own.
"""

from absl import flags

from bert_tf.commands.flag_texts import ENCODING_HELP, HEADER_HELP, TEXT_COLUMNS_HELP
from pipelines.common import command_line, flag_types
from pipelines.common.errors import InputError
from pipelines.common.texts import counted

_MODEL = flags.DEFINE_string("model", None, "The model that makes the vectors.", required=True)
_INPUT = flags.DEFINE_string("input", None, "File of pairs of texts.", required=True)
_OUTPUT = flag_types.define_path("output", None, "File to write: .tsv.", required=True)
_COUNT = flags.DEFINE(
    flag_types.NumberParser(int, minimum=1),
    "count",
    4,
    "Texts that do not belong to it, for each text_a.",
)
_COLUMNS = flags.DEFINE_list("columns", [], TEXT_COLUMNS_HELP)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_ENCODING = flags.DEFINE_string("encoding", "utf-8", ENCODING_HELP)


def main() -> None:
    """Writes the pairs."""
    if not _OUTPUT.value.endswith(".tsv"):
        raise InputError(f"--output={_OUTPUT.value}: name a .tsv file.")
    from bert_tf.tasks import reports
    from bert_tf.vectors import hard_negatives
    from pipelines.common import files, outputs
    from pipelines.labelled import user_files
    from pipelines.labelled.columns import ColumnNames

    outputs.check_file(_OUTPUT.value, _INPUT.value)
    columns = command_line.pairs(_COLUMNS.value, "--columns")
    names = ColumnNames(columns, header=_HEADER.value, encoding=_ENCODING.value)
    pairs = list(user_files.read_texts(_INPUT.value, names, True, False))
    rows = list(hard_negatives.mine(_MODEL.value.rstrip("/"), pairs, _COUNT.value))
    files.write_text(_OUTPUT.value, reports.table([("text_a", "text_b", "label"), *rows], "\t"))
    print(f"{_OUTPUT.value}: {counted(len(rows), 'pair')} of {counted(len(pairs), 'given one')}")
