r"""Predicts with a fine-tuned or exported model for the examples of a file.

  bert-tf predict --model=savedmodels/finetuned/mrpc --input=glue/MRPC/test.tsv
  bert-tf predict --model=savedmodels/finetuned/mnli --input=AX/diagnostic.tsv --kind=ax
  bert-tf predict --model=savedmodels/bert --task=mrpc --input=glue/MRPC/dev.tsv --labelled
  bert-tf predict --model=savedmodels/finetuned/mnli --input=news.txt --labels=sports,politics

An export is a program, and this command runs it: only use exports from sources that you trust.
Other models are read as data.
"""

from typing import Annotated

from bert_tf.serving.plan import AUTO, EngineName
from pipelines.commands.shared_flags import ExampleTable, MaxLength
from pipelines.common.flag_types import Group, Path, choice

_ENGINE = choice((AUTO, *EngineName))


def main(
    *,
    model: Path,
    input: Path,
    output: Path | None = None,
    task: str | None = None,
    labelled: bool = False,
    labels: list | None = None,
    engine: Annotated[str, _ENGINE, Group.MACHINE] = EngineName.TENSORFLOW,
    kind: str | None = None,
    max_seq_length: MaxLength = None,
    table: ExampleTable,
) -> None:
    """Predicts as the flags say.

    Flags:
      model: Folder of a fine-tuned model or of an export.
      input: File of examples.
      output: Folder to write to. Not given: predictions/TASK, in the folder of a fine-tuned model;
        for an export, in the current one.
      task: The task to predict, if the model has several. Not given: the only one.
      labelled: Read the labels of the file, and score the predictions with them.
      labels: Labels to choose from, for a model of textual entailment such as one of mnli, which
        needs no training for them (zero-shot classification). A label that is a sentence is a
        statement about the text: "This text is about sports." Not given: the labels of the task.
      engine: The engine that computes an export; auto: ONNX Runtime if it is installed, or an
        engine in which a lower precision was checked.
      kind: The kind of the file, one of `bert-tf finetune --task`, such as ax for a model of mnli.
        Not given: that of the model.
      max_seq_length: Maximum number of tokens in a sequence, special tokens included; longer texts
        are cut, or read in several parts. Not given: as in training, or as the folder of another
        program states.
    """
    import tensorflow as tf

    from bert_tf.serving import file_prediction

    # Batches in parallel, on one core each, take less time than one at a time on all cores.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    written, metrics = file_prediction.predict_file(
        model,
        table.source(input),
        output,
        task,
        kind=kind,
        labelled=labelled,
        labels=labels or (),
        engine=engine,
        max_seq_length=max_seq_length,
    )
    print("\n".join(written))
    for name, value in metrics.items():
        print(f"{name}: {value:.4f}")
