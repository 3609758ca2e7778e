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

from pipelines.commands.shared_flags import TextTable
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Path
from pipelines.common.texts import counted


def main(*, model: Path, input: Path, output: Path, count: Count = 4, table: TextTable) -> None:
    """Writes the choices.

    Flags:
      model: The model that makes the vectors.
      input: File of pairs of texts.
      output: File to write: .jsonl.
      count: Texts that do not belong to it, for each text_a.
    """
    if not output.endswith(".jsonl"):
        raise InputError(f"--output={output}: name a .jsonl file.")
    from bert_tf.vectors import hard_negatives
    from bert_tf.vectors.blocks import BlockOutput
    from pipelines.common import outputs
    from pipelines.labelled import user_files

    outputs.check_file(output, input)
    BlockOutput(output, hard_negatives.COMMAND).check_absent()
    pairs = list(user_files.read_texts(table.source(input), pair=True, labelled=False))
    rows = hard_negatives.mine(model, pairs, output, count)
    print(f"{output}: {counted(rows, 'choice')} of {counted(len(pairs), 'pair')}")
