"""Names that flags offer, without what they name: that would start TensorFlow.

The tests hold them against the registries.
"""

TASKS_HELP = (
    "What to export, with commas or blanks between: names of tasks, whose folders are in "
    "savedmodels/finetuned/, `pretrained` for savedmodels/pretrained, or NAME=FOLDER. A folder may "
    "have blanks, commas and = in its name, between quotes or where it is there. Not given: all "
    "that are there."
)

# `weights.formats.WRITABLE`.
FORMATS = ("bert_tf", "tf1", "huggingface")
# `export.portable.Runtime`.
RUNTIMES = ("litert", "litert_int8", "onnx")
