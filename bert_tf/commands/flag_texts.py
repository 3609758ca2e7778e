"""Flags, help texts and choices that several commands share.

Choices are repeated here because importing what they name would start TensorFlow; a test compares
them.
"""

from absl import flags

from pipelines.common import flag_types

TASKS_HELP = (
    "What to export, separated by commas or blanks: names of tasks, whose folders are in "
    "savedmodels/finetuned/, `pretrained` for savedmodels/pretrained, or NAME=FOLDER. Names of "
    "folders may have blanks, commas and = if the folder exists or is in quotes. Not given: all "
    "models there."
)
DEV_HELP = (
    "Labelled files as TASK=FILE, separated by commas or blanks, on which a lower --precision "
    "must keep the scores. Not given: only for float32."
)
MAX_LOSS_HELP = (
    "Maximum loss of a task's main metric, whose best value is 1, with a lower --precision."
)

# `weights.formats.WRITABLE`.
FORMATS = ("bert_tf", "tf1", "huggingface")
# `export.portable.Runtime`.
RUNTIMES = ("litert", "onnx")
# Roles are `pipelines.labelled.columns.ROLES` and its aliases; a test compares them.
ROLES = (
    *("id", "text", "text_a", "text_b", "negative", "label", "labels", "words", "tags"),
    *("question", "context", "answer", "answer_start", "choices", "source", "target"),
)
ALIASES = ("sentence", "sentence1", "sentence2", "premise", "hypothesis")
_NAMES = (
    "A column is given by its name in the header, by its number from 1 (if there is no header), as "
    "a path in JSON (labels.label), or as several that are joined (title+text, 2+3)."
)
COLUMNS_HELP = (
    f"Columns by role, such as text=review,label=stars. {_NAMES} Roles: "
    f"{', '.join((*ROLES, *ALIASES))}. Not given: usual names, such as text or sentence1."
)
TEXT_COLUMNS_HELP = (
    f"Columns of a table by role, such as text=review. {_NAMES} Roles: text, or text_a and text_b "
    "of pairs; id. Not given: usual names."
)
FEATURE_COLUMNS_HELP = (
    f"Columns of a table by role, such as text=review. {_NAMES} Roles: text, or text_a and text_b "
    "of pairs; label; id; for files of words, words and tags, by number if there is one word per "
    "line (words=1,tags=4). Not given: usual names."
)
OUTPUT_HELP = (
    "What to write: a .npy file, with the texts next to it; a .jsonl file, as extract_features of "
    "google-research/bert writes it; or a folder of .npy and .jsonl files, if the name has no "
    "ending."
)
HEADER_HELP = "Whether the first line of a table names its columns. Not given: it is detected."
LABEL_MAP_HELP = (
    "Names of labels, such as 1=World,2=Sports; or a file with a label, a tab and its name per "
    "line, or, if labels are numbers, with a name per line. Not given: labels keep their names in "
    "the files."
)


def define_max_length() -> "flags.FlagHolder[int | None]":
    """Defines --max_seq_length of commands that read texts with a model."""
    return flags.DEFINE(
        flag_types.NumberParser(int, minimum=8),
        "max_seq_length",
        None,
        "Maximum number of tokens in a sequence, special tokens included; longer texts are cut, or "
        "read in several parts. Not given: as in training, or as the folder of another program "
        "states.",
    )
