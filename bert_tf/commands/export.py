r"""Exports fine-tuned tasks, and pre-trained models, as one SavedModel for TF Serving.

  bert-tf export --tasks=mrpc,squad2=runs/squad2,pretrained --output=savedmodels/bert

Each task becomes a signature of its name, with raw text in and answers out, and `<task>_ids` of
token ids. Tasks that were trained on one encoder share its variables.
"""

from absl import flags

from bert_tf.commands.names import TASKS_HELP
from pipelines.common import flag_types
from pipelines.common.flag_groups import Group, group
from pipelines.common.flag_types import Limits

with group(Group.DATA):
    _TASKS = flags.DEFINE_string("tasks", "", TASKS_HELP)
    _OUTPUT = flag_types.define_path(
        "output", "savedmodels/bert", "Folder to write to; it gets a folder for each version."
    )
    _VERSION = flag_types.define_number(
        "version", None, "Number of the version. Not given: the next one.", int, Limits(least=0)
    )
    _PRECISION = flag_types.define_choice(
        "precision",
        "float32",
        ("float32", "bfloat16"),
        "What weights are stored in, and computed with; inputs and outputs are the same.",
    )


def main() -> None:
    """Exports with the flags given."""
    from bert_tf.export import saved_model, sources

    found = sources.find(sources.entries_of(_TASKS.value))
    path = saved_model.export(found, _OUTPUT.value, _VERSION.value, _PRECISION.value)
    manifest = saved_model.read_manifest(path)
    print(f"{path}: {manifest['parameters']:,} parameters, {manifest['encoders']} encoder(s)")
    print(f"signatures: {', '.join(manifest['signatures'])}")
