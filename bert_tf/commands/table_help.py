"""Help of the flags that say how labelled files are laid out."""

# Roles are `pipelines.labelled.columns.ROLES` and its aliases; the tests hold them equal.
ROLES = (
    *("id", "text", "text_a", "text_b", "label", "words", "tags"),
    *("question", "context", "answer", "answer_start", "choices"),
)
ALIASES = ("sentence", "sentence1", "sentence2", "premise", "hypothesis")
_NAMES = (
    "A column is named as in the header, by its number from 1 (where there is no header), as a "
    "path in JSON (labels.label), or as several that are joined (title+text, 2+3)."
)
COLUMNS_HELP = (
    f"Columns by role, such as text=review,label=stars. {_NAMES} Roles: "
    f"{', '.join((*ROLES, *ALIASES))}. Not given: by usual names, such as text or sentence1."
)
TEXT_COLUMNS_HELP = (
    f"Columns of a table by role, such as text=review. {_NAMES} Roles: text, or text_a and text_b "
    "of pairs; id. Not given: by usual names."
)
FEATURE_COLUMNS_HELP = (
    f"Columns of a table by role, such as text=review. {_NAMES} Roles: text, or text_a and text_b "
    "of pairs; label; id; of files of words words and tags, by number where there is a word a line "
    "(words=1,tags=4). Not given: by usual names."
)
HEADER_HELP = "Whether the first line of a table names its columns. Not given: as it looks."
LABEL_MAP_HELP = (
    "Names of labels, such as 1=World,2=Sports; or a file with a label, a tab and its name a line, "
    "or, of labels that are numbers, with a name a line. Not given: labels are called as in the "
    "files."
)
