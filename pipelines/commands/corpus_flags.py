"""Flags of the commands that read a corpus."""

from typing import TYPE_CHECKING

from absl import flags

from pipelines.common import flag_types
from pipelines.corpus import FORMATS

if TYPE_CHECKING:
    from pipelines.corpus import reader


class CorpusFlags:
    """The flags, which are defined for the command that makes it."""

    def __init__(self) -> None:
        self.input = flags.DEFINE_string(
            "input",
            None,
            "The corpus: files or globs with commas or blanks between them, plain or .gz, "
            "local or gs://.",
            required=True,
        )
        self.format = flags.DEFINE(
            flag_types.ChoiceParser(("auto", *FORMATS)),
            "format",
            "auto",
            "Format of the files: sentences, one a line, a blank line between documents; "
            "prose, a document a file; jsonl, a document a line of JSON. auto: told of each "
            "file by looking.",
        )
        self._text_field = flags.DEFINE_string(
            "text_field", "text", "The field of JSON Lines that holds the text."
        )
        self._utf8_errors = flags.DEFINE(
            flag_types.ChoiceParser(("strict", "replace")),
            "utf8_errors",
            "strict",
            "Where bytes are not UTF-8: strict stops and names the place; replace goes on with "
            "U+FFFD in their place.",
        )

    def corpus(self) -> "list[reader.CorpusFile]":
        """The files that are named."""
        from pipelines.corpus import reader

        return reader.open_corpus(self.input.value, self.format.value)

    def options(self) -> "reader.ReadOptions":
        """How to read them."""
        from pipelines.corpus import reader

        return reader.ReadOptions(self._text_field.value, self._utf8_errors.value)
