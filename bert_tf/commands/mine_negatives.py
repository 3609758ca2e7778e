r"""Writes choices for training a reranker, with hard negatives found by a model of embeddings.

  bert-tf mine-negatives --model=savedmodels/embedder --input=questions.tsv \
      --output=rerank/train.jsonl
  bert-tf finetune --task=rerank=choice --data=rerank --init=savedmodels/pretrained
  bert-tf neighbours --model=savedmodels/embedder --vectors=vectors.npy --query="a question" \
      --rerank=savedmodels/finetuned/rerank

The input has pairs of texts that belong together (text_a, text_b). A row of the output has a
text_a, its text_b among the texts that are nearest to text_a but not its own, and its place. Run
the same command again to resume a run that was stopped.
"""

from absl import flags

from bert_tf.commands.flag_texts import HEADER_HELP, TEXT_COLUMNS_HELP
from pipelines.commands.shared_flags import EncodingFlags
from pipelines.common import command_line, flag_types
from pipelines.common.errors import InputError
from pipelines.common.texts import counted

_MODEL = flags.DEFINE_string("model", None, "The model that makes the vectors.", required=True)
_INPUT = flags.DEFINE_string("input", None, "File of pairs of texts.", required=True)
_OUTPUT = flag_types.define_path("output", None, "File to write: .jsonl.", required=True)
_COUNT = flags.DEFINE(
    flag_types.NumberParser(int, minimum=1),
    "count",
    4,
    "Texts that do not belong to it, for each text_a.",
)
_COLUMNS = flags.DEFINE_list("columns", [], TEXT_COLUMNS_HELP)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_ENCODING = EncodingFlags()


def main() -> None:
    """Writes the choices."""
    if not _OUTPUT.value.endswith(".jsonl"):
        raise InputError(f"--output={_OUTPUT.value}: name a .jsonl file.")
    from bert_tf.vectors import hard_negatives
    from pipelines.common import outputs
    from pipelines.labelled import user_files
    from pipelines.labelled.source import Source

    outputs.check_file(_OUTPUT.value, _INPUT.value)
    columns = command_line.pairs(_COLUMNS.value, "--columns")
    source = Source(_INPUT.value, columns, _HEADER.value, _ENCODING.value)
    pairs = list(user_files.read_texts(source, pair=True, labelled=False))
    rows = hard_negatives.mine(_MODEL.value.rstrip("/"), pairs, _OUTPUT.value, _COUNT.value)
    print(f"{_OUTPUT.value}: {counted(rows, 'choice')} of {counted(len(pairs), 'pair')}")
