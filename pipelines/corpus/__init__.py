"""Documents of sentences: readers of each format, sentence splitting, the built-in corpus."""

FORMATS = ("sentences", "prose", "jsonl", "wikiextractor", "parquet", "arrow", "wet")
