"""Names that flags offer. Importing what they name would start TensorFlow.

A test compares them with the registries.
"""

TASKS_HELP = (
    "What to export, separated by commas or blanks: names of tasks, whose folders are in "
    "savedmodels/finetuned/, `pretrained` for savedmodels/pretrained, or NAME=FOLDER. Names of "
    "folders may have blanks, commas and = if the folder exists or is in quotes. Not given: all "
    "models there."
)

# `weights.formats.WRITABLE`.
FORMATS = ("bert_tf", "tf1", "huggingface")
# `export.portable.Runtime`.
RUNTIMES = ("litert", "litert_int8", "onnx")
