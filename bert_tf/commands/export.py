r"""Exports fine-tuned tasks, and pre-trained models, as one SavedModel for TF Serving.

  bert-tf export --tasks=mrpc,squad2=runs/squad2,pretrained --output=savedmodels/bert

Each task becomes two signatures: one with its name, from raw text to answers, and `<task>_ids` for
token ids. Tasks that were trained with one encoder share its variables.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

from bert_tf.commands.export_flags import ExportFlags
from bert_tf.generation.settings import GenerationSettings
from bert_tf.serving.plan import Precision
from pipelines.commands.shared_flags import MaxLength
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Path
from pipelines.common.texts import counted

if TYPE_CHECKING:
    from bert_tf.export.sources import ModelSource


def main(
    *,
    models: ExportFlags,
    output: Path = "savedmodels/bert",
    precision: Precision = Precision.FLOAT32,
    max_seq_length: MaxLength = None,
    generation: type[GenerationSettings],
) -> None:
    """Exports as the flags say.

    Flags:
      output: Folder to write to, with a folder for each version.
      precision: Data type of the computation; inputs and outputs are float32. bfloat16: also of the
        weights. int8: with the engines onnxruntime, openvino and litert; the SavedModel stays in
        float32.
      max_seq_length: Maximum number of tokens in a sequence of a task, special tokens included;
        longer texts are cut, or read in several parts. Not given: as in training.
    """
    given = generation.given_by_flags()
    from bert_tf.export import model_card, saved_model

    saved_model.check_output(output)
    found = [_changed(source, given, max_seq_length) for source in models.sources(precision)]
    if max_seq_length and not any(source.task and not source.pretrained for source in found):
        raise InputError("--max_seq_length: is that of a task, and none is exported; leave it out.")
    writers = [source.task.generation if source.task else source.generation for source in found]
    if given and not any(writers):
        raise InputError(f"--{min(given)}: none of the models generates text; leave it out.")
    stored = "bfloat16" if precision is Precision.BFLOAT16 else "float32"
    check = models.score_check(found, precision)
    path = saved_model.export(found, output, dtype=stored, check=check)
    manifest = saved_model.read_manifest(path)
    encoders = counted(manifest["encoders"], "encoder")
    print(f"{path}: {manifest['parameters']:,} parameters, {encoders}")
    for each in manifest.get("reduced", ()):
        print(model_card.reduced(each).removeprefix("- "))
    print(f"signatures: {', '.join(manifest['signatures'])}")


def _changed(source: "ModelSource", given: dict[str, Any], length: int | None) -> "ModelSource":
    """A model with the given settings, if it generates text, and with the given length."""
    if source.task:
        task = source.task.with_generation(given)
        if task.generation:
            task.generation.check_given(given)
        if length and not source.pretrained:
            source.bundle.config.check_length(length)
            task = dataclasses.replace(task, max_seq_length=length)
        return dataclasses.replace(source, task=task)
    if source.generation is None:
        return source
    generation = dataclasses.replace(source.generation, **given)
    generation.check_given(given)
    return dataclasses.replace(source, generation=generation)
