"""Usual names of splits, and of the columns of labelled files by role."""

import re

USUAL = {
    "id": ("id", "guid", "key", "index", "idx"),
    "text": ("text", "sentence", "document", "review", "content", "comment", "tweet", "message"),
    "text_a": (
        "text_a",
        "sentence1",
        "sentence_a",
        "question1",
        "premise",
        "anchor",
        "sent0",
        "question",
        "query",
    ),
    "text_b": (
        "text_b",
        "sentence2",
        "sentence_b",
        "question2",
        "hypothesis",
        *("positive", "pos", "sent1"),
        "sentence",
        "answer",
    ),
    "negative": ("negative", "negatives", "neg", "hard_negative", "sent2"),
    "label": (
        "label",
        "score",
        "similarity_score",
        "similarity",
        "class",
        "category",
        "target",
        "gold_label",
        *("sentiment", "emotion", "intent"),
    ),
    "labels": ("labels", "label", "emotions", "categories", "classes", "tags", "target"),
    "words": ("words", "tokens"),
    "tags": ("tags", "labels", "ner_tags", "pos_tags", "upos"),
    "entities": ("entities", "spans", "label", "labels", "annotations"),
    "question": ("question", "query", "question_stem", "sent2"),
    "context": (
        *("context", "passage", "paragraph", "article", "dialogue", "premise"),
        *("ctx", "goal", "sent1"),
    ),
    "answer": ("answer", "answer_text", "answers"),
    "answer_start": ("answer_start", "start"),
    "choices": ("choices", "options", "endings", "choice", "answers", "candidates"),
    "source": ("source", "article", "document", "dialogue", "input", "text"),
    "target": ("target", "summary", "highlights", "output"),
}
ROLES = tuple(USUAL)
# Other names of roles.
ALIASES = {
    "sentence": "text",
    "sentence1": "text_a",
    "sentence2": "text_b",
    "premise": "text_a",
    "hypothesis": "text_b",
}
# Names of columns with a choice each.
CHOICE = re.compile(r"(choice|option|ending|answer|alternative|sol|op)_?([0-9]{1,18}|[a-h])")
HEADERS = frozenset(name for names in USUAL.values() for name in names)
# Values of columns that are labels, and whether an example has the label.
INDICATORS = {"0": False, "1": True, "false": False, "true": True, "0.0": False, "1.0": True}
# Names of the files of a split, and of splits in a column.
SPLITS = {
    "train": ("train",),
    "dev": ("dev", "valid", "validation", "val", "devel"),
    "test": ("test",),
}
