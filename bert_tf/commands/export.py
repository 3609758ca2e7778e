r"""Exports fine-tuned tasks, and pre-trained models, as one SavedModel for TF Serving.

  bert-tf export --tasks=mrpc,squad2=runs/squad2,pretrained --output=savedmodels/bert

Each task becomes a signature of its name, with raw text in and answers out, and `<task>_ids` of
token ids. Tasks that were trained on one encoder share its variables.
"""

from absl import flags

from pipelines.common import command_line

_TASKS = flags.DEFINE_string(
    "tasks", "", "Tasks, in savedmodels/finetuned/ or as task=folder; all that are there."
)
_OUTPUT = command_line.define_path("output", "savedmodels/bert", "Folder of the versions.")
_VERSION = flags.DEFINE_integer(
    "version", None, "Number of the version; the next one.", lower_bound=0
)
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "bfloat16"], "What to store and compute in."
)


def main() -> None:
    """Exports with the flags given."""
    from bert_tf.export import saved_model, sources

    found = sources.find(sources.entries_of(_TASKS.value))
    path = saved_model.export(found, _OUTPUT.value, _VERSION.value, _PRECISION.value)
    manifest = saved_model.read_manifest(path)
    print(f"{path}: {manifest['parameters']:,} parameters, {manifest['encoders']} encoder(s)")
    print(f"signatures: {', '.join(manifest['signatures'])}")
