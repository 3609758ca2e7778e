"""The formats of a corpus."""

FORMATS = ("sentences", "prose", "jsonl")
