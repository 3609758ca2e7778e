"""Reads a BERT in any known format and writes it in another.

  bert-tf convert --input=uncased_L-12_H-768_A-12 --output=savedmodels/base
  bert-tf convert --input=savedmodels/finetuned/mrpc --output=mrpc-hf --format=huggingface

Reads our folders, TF 1 checkpoints of google-research, Hugging Face folders (safetensors; pickles
are never loaded), KerasHub presets, TF 2 checkpoints of Model Garden, TF Hub encoders, and the
released weights of ELMo. Pre-training and task heads are converted, too.
"""

import dataclasses
from typing import Annotated

from pipelines.commands.shared_flags import MaxLength, TokenizerFlags
from pipelines.common.flag_types import Count, Group, Path, choice

FORMATS = ("bert_tf", "tf1", "huggingface")  # `weights.formats.WRITABLE`, without TensorFlow


def main(
    *,
    input: Path,
    output: Path,
    format: Annotated[str, choice(FORMATS)] = FORMATS[0],
    task: Annotated[str | None, Group.MODEL] = None,
    kind: Annotated[str | None, Group.MODEL] = None,
    max_seq_length: MaxLength = None,
    vocab: Path | None = None,
    max_position_embeddings: Count | None = None,
    tokenizer_only: bool = False,
    tokenizer: TokenizerFlags,
) -> None:
    """Converts as the flags say.

    Flags:
      input: The model to read: its folder, or a checkpoint.
      output: Folder to write.
      format: Format to write: ours, that of google-research (TF 1), or that of Hugging Face.
      task: The task to write, if the model has several. Not given: all.
      kind: The kind of its task, if the model of another program does not specify it: mrpc, pair,
        squad2, or another of `bert-tf finetune --task`. Not given: as the model specifies.
      max_seq_length: Maximum number of tokens in a sequence, special tokens included, which the
        model is written with. Not given: as in training, or as another program's folder states.
      vocab: A vocabulary for the model: a vocab.txt, or a folder with one. Not given: its own.
      max_position_embeddings: Extend the model to so many positions, by copies of those it has;
        then pre-train it further on long texts. Not given: as many as it has.
      tokenizer_only: Write only the vocabulary and the settings of the tokenizer.
    """
    from bert_tf import tasks, weights
    from bert_tf.weights import extension, formats, own
    from pipelines.common import files

    if not tokenizer_only:
        files.check_absent(output)
    model = weights.read(input)
    model = formats.with_tokenizer(model, vocab, tokenizer.chosen())
    if tokenizer_only:
        own.write_tokenizer(model, output)
        print(f"{output}: {len(model.require_vocabulary()):,} tokens of {input}")
        return
    if max_position_embeddings:
        model = extension.with_positions(model, max_position_embeddings)
    if task:
        model = model.only(task)
    if kind:
        model = dataclasses.replace(model, tasks=(tasks.of_kind(model.task(), kind),))
    if max_seq_length:
        model = model.with_max_length(max_seq_length)
    weights.write(model, output, formats.Format(format))
    names = ", ".join(each["name"] for each in model.tasks) or "none"
    print(f"{output}: written as {format}; heads of tasks: {names}")
